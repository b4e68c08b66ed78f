"""What robots observe."""
