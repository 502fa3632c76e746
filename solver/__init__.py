"""Parallelism plans for training large language models: proven best, explained, measured."""
