"""Answers about plans: why this one, why not that one, what would change it."""
