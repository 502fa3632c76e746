"""Studies over many problems: sweeps and capacity planning."""
