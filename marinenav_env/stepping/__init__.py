"""A step of the batched world, and the pool that new episodes come from."""
