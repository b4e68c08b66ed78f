"""Interfaces to Gymnasium, PettingZoo, stable-baselines3 and BenchMARL, and scripted policies."""
