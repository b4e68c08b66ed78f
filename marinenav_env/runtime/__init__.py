"""Execution of tensor functions: memory layout, random numbers, compilation, CUDA graphs."""
