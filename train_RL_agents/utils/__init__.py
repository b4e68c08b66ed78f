"""Utilities of all packages: files, devices, signals, progress, compilation, rows, statistics, tables."""
