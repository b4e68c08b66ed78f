"""Figures, animations and pages of episodes and results."""
