"""Modules of the agents' networks: specification of the observation, encoders, layers, actors."""
