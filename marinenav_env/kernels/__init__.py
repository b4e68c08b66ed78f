"""Worlds whose step is computed by one kernel instead of PyTorch's operators."""
