"""System identification of a boat: fits the coefficients of its model to a log of its commands and motion."""
