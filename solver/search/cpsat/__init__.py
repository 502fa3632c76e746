"""The CP-SAT model; the only package that imports ortools."""
