"""The machine: GPUs, clusters, communication levels; knows nothing of models or plans."""
