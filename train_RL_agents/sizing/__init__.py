"""Sizes of a run: memory plan and profiles."""
