"""Scenarios: sampling, files, parameters, and resets to new episodes."""
