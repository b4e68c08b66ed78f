"""Figures of several policies: tables, summaries, files."""
