"""Documented import path of the functions that start runs, resume them and train them."""

from train_RL_agents.experiments.run import run_to_the_end
from train_RL_agents.experiments.seeds import new_runs, resumed_runs

__all__ = ["new_runs", "resumed_runs", "run_to_the_end"]
