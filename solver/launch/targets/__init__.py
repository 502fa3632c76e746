"""One module a target: how it writes a launch, and what it cannot say."""
