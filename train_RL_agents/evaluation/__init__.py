"""Evaluation: episodes, suites, contenders, comparisons, recordings."""
