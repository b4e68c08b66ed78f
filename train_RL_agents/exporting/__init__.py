"""Policies as files that other programs load."""
