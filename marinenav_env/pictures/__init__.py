"""Pictures of the world, drawn with matplotlib."""
