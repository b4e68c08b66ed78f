"""Collectors of steps of the environments with an exploring policy."""
