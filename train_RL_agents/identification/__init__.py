"""Identification of a boat's coefficients from a log of its commands and its motion."""
