"""A reinforcement learning trainer on the batched world, and the ``marinenav`` command."""

from typing import TYPE_CHECKING

from marinenav_env.support.lazy import lazy_exports

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

__getattr__ = lazy_exports(
    __name__,
    {
        "AGENTS": "agents",
        "Policy": "api",
        "PolicyWrapper": "policy_wrapper",
        "TorchRLTrainer": "torchrl_trainer",
        "TrainConfig": "config.schema",
        "TrainedRun": "api",
        "compare": "api",
        "load": "api",
        "train": "api",
    },
)
