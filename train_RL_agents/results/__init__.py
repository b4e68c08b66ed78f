"""Results of evaluations: rows, statistics and tables."""
