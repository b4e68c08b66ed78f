"""Scenarios: sampling, files, parameter tensors, and resets to new episodes."""
