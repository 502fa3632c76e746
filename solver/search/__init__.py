"""The search: space, bounds, CP-SAT, proof."""
