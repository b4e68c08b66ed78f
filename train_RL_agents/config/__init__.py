"""Typed settings of a training run: their declarations, and how they are read from files and overrides."""
