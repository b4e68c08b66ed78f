"""Utilities of all packages: files, devices, signals, progress, compilation."""
