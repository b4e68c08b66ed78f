"""Experiments: one run or several, given by seeds or a study's file; benchmarks; the search for failures."""
