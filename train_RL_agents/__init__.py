"""A reinforcement learning trainer on the batched world, and the ``marinenav`` command."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from train_RL_agents.agents import AGENTS
    from train_RL_agents.api import Policy, TrainedRun, compare, load, train
    from train_RL_agents.config.schema import TrainConfig
    from train_RL_agents.policy_wrapper import PolicyWrapper
    from train_RL_agents.torchrl_trainer import TorchRLTrainer

__all__ = [
    "AGENTS",
    "Policy",
    "PolicyWrapper",
    "TorchRLTrainer",
    "TrainConfig",
    "TrainedRun",
    "compare",
    "load",
    "train",
]

_EXPORTING_MODULES = {
    "AGENTS": "train_RL_agents.agents",
    "Policy": "train_RL_agents.api",
    "PolicyWrapper": "train_RL_agents.policy_wrapper",
    "TorchRLTrainer": "train_RL_agents.torchrl_trainer",
    "TrainConfig": "train_RL_agents.config.schema",
    "TrainedRun": "train_RL_agents.api",
    "compare": "train_RL_agents.api",
    "load": "train_RL_agents.api",
    "train": "train_RL_agents.api",
}
"""Module that defines each exported name, by the name."""


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, because importing torch takes seconds and ``--help`` does not need it.

    Raises:
        AttributeError: for a name that is not exported.
    """
    if name not in _EXPORTING_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_EXPORTING_MODULES[name]), name)
