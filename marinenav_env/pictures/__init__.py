"""Pictures of the world."""
