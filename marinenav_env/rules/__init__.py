"""Rules of the world: roles, rules of the sea, reward, endings and statistics of episodes."""
