"""Typed settings of a training run: their declaration, how they are read, and their help."""

from train_RL_agents.config.schema import (
    EvalSchedule,
    OffPolicyConfig,
    OnPolicyConfig,
    TrainConfig,
    TrainerConfig,
    TrainingSchedule,
)

__all__ = [
    "EvalSchedule",
    "OffPolicyConfig",
    "OnPolicyConfig",
    "TrainConfig",
    "TrainerConfig",
    "TrainingSchedule",
]
