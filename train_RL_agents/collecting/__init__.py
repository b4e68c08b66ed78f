"""Collectors of steps of the world."""
