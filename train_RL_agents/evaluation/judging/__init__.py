"""Judges of what policies do in a suite: rules of the sea, avoidable collisions, failures."""
