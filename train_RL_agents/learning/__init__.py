"""Collecting steps and learning from them: collectors, transitions, replay, algorithms, learner, metrics."""

from train_RL_agents.agents.trainer_configs import TrainerConfig
from train_RL_agents.learning.algorithm import Algorithm, AlgorithmContext
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.learning.on_policy import OnPolicy

ALGORITHMS: dict[type[TrainerConfig], type[Algorithm]] = {kind.config_type: kind for kind in (OffPolicy, OnPolicy)}
"""Class of the algorithm for each class of settings of ``trainer``."""

__all__ = ["ALGORITHMS", "Algorithm", "AlgorithmContext", "OffPolicy"]
