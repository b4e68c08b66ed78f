"""Steps of the batched world, and the pool of reset states."""
