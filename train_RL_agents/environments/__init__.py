"""Environments of training runs: the built-in one, and external ones that TorchRL can wrap."""

from __future__ import annotations

from typing import Any

from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.external import ExternalEnvironment
from train_RL_agents.environments.marinenav import BuiltInEnvironment

Environment = BuiltInEnvironment | ExternalEnvironment
"""Environment of a run, built-in or external: classes with the same methods, which BuiltInEnvironment documents."""


def make_environment(config: TrainConfig[Any]) -> Environment:
    """Return the environment that ``config.env`` names, built-in or external."""
    return BuiltInEnvironment(config) if config.env.is_built_in else ExternalEnvironment(config)


__all__ = ["Environment", "environment_of"]
