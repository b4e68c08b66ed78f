"""Where episodes start, in which world, and what a new one begins with."""
