"""Documented import path of the functions that start runs, resume them and train them."""

from train_RL_agents.experiments.run import new_runs, resumed_runs, run_to_the_end

__all__ = ["new_runs", "resumed_runs", "run_to_the_end"]
