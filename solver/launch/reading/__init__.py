"""One module a framework: a launch read back from its own configuration."""
