"""Collectors: where steps of the world come from."""
