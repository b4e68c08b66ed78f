"""What counts: roles, rules of the road, reward, endings and their statistics."""
