"""Environments of training runs: the built-in one, and external ones that TorchRL can wrap."""

from __future__ import annotations

from typing import Any

from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.external import External
from train_RL_agents.environments.marinenav import MarineNav

Environment = MarineNav | External
"""Environment of a run; MarineNav documents the methods of both classes."""


def environment_of(config: TrainConfig[Any]) -> Environment:
    """Return the environment that a configuration names, built-in or external."""
    return MarineNav(config) if config.env.is_built_in else External(config)


__all__ = ["Environment", "environment_of"]
