"""Identification of a boat: from a log of its commands and its motion to the coefficients of its model."""
