"""Evaluation: episodes, suites, policies, comparisons, recordings."""
