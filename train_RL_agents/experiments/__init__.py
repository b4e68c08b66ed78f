"""Runs that belong together: one runner, and where runs come from (seeds, a study's file, a search)."""
