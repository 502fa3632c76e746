"""One file a parallelism axis: legal degrees, what it divides, what it sends."""
