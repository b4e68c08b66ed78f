"""A step of the world as one Triton kernel."""
