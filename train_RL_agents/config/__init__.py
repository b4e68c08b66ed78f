"""Typed settings of a training run: their declaration, how they are read, and their help."""
