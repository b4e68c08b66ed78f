"""Pictures of episodes and of results."""
