"""Results: statistics of them, and tables."""
