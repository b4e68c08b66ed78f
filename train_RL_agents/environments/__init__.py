"""Environments of training runs: the built-in one, and external ones that TorchRL can wrap."""

from __future__ import annotations

from typing import Any

from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.external import ExternalEnvironment
from train_RL_agents.environments.marinenav import BuiltInEnvironment

Environment = BuiltInEnvironment | ExternalEnvironment
"""Environment of a run, built-in or external: classes with the same methods, which BuiltInEnvironment documents."""


def make_environment(config: TrainConfig[Any], num_processes: int = 1) -> Environment:
    """Return the environment that ``config.env`` names, built-in or external.

    Args:
        config: configuration of the run, with this process's share of the environments.
        num_processes: number of processes that have such a share.
    """
    return BuiltInEnvironment(config, num_processes) if config.env.is_built_in else ExternalEnvironment(config)


__all__ = ["Environment", "make_environment"]
