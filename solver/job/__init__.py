"""What is trained: the transformer, the recipe, the limits, and the file that says so."""
