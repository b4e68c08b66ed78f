"""Learning from steps: learner, flat weights, metrics."""
