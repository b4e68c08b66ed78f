"""Observations of robots: perception, range scan and user sensors."""
