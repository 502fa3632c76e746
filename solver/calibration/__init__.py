"""Measured runs against the cost model: reading them, and fitting a user's own profile."""
