"""Base class of learning algorithms."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.sensing.perception import perception_entries
from marinenav_env.stepping.actions import unusable
from train_RL_agents.agents import Agent
from train_RL_agents.agents.base import LossFunction
from train_RL_agents.config.schema import TrainConfig, TrainerConfig
from train_RL_agents.learning.imitation import imitating
from train_RL_agents.learning.learner import Learner
from train_RL_agents.learning.meter import EpisodeMeter, Meter
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.utils.progress import Clock


@dataclass(frozen=True)
class AlgorithmContext:
    """Arguments of an algorithm."""

    config: TrainConfig[Any]
    """With this process's share of the totals."""
    agent: Agent[Any]
    """Learns; on the device."""
    example: TensorDictBase
    """One step [E] of the world with the policy's entries, for shapes and types."""
    generators: dict[str, torch.Generator]
    """Sources of randomness of ``learner`` and ``replay``."""
    ranks: Ranks
    """The processes that learn together."""
    clock: Clock
    """Told how long each phase takes."""
    log: Callable[[str], None]
    """Prints a line."""
    statistics: tuple[str, ...] = ()
    """Names of the statistics of episodes in the steps."""
    teacher: LoadedPolicy | None = None
    """Whose actions are imitated; on the device."""

    @property
    def device(self) -> torch.device:
        """Of the agent and the steps."""
        return self.generators["learner"].device


@dataclass(frozen=True)
class MemoryItem:
    """Something that takes memory."""

    name: str
    """What it is."""
    size: int
    """Bytes."""
    on_host: bool
    """Whether in the host's memory; else in the device's."""
    exact: bool
    """Counted to the byte, or estimated."""


class MemoryEstimate(NamedTuple):
    """Memory of an algorithm beside the networks."""

    items: list[MemoryItem]
    """What it keeps; ``on_host`` only what is in the host's memory whatever the device."""
    loss: Callable[[int], None]
    """Computes the losses of so many blank rows."""
    row: int = 0
    """Bytes of a row of a batch beside that."""
    joint: int = 1
    """Robots in a row."""


class Algorithm(ABC):
    """Learns from the steps of the collector.

    Args:
        context: its parts.
        tau: share of the learned weights mixed into the target networks with every update.
    """

    config_type: ClassVar[type[TrainerConfig]]
    """Its settings, by which it is chosen."""

    def __init__(self, context: AlgorithmContext, tau: float = 0.0) -> None:
        config, teacher = context.config, context.teacher
        self._config, self._ranks, self._clock = config, context.ranks, context.clock
        self._generator, self.meter = context.generators["learner"], Meter()
        # Of each robot: a sum over all of them would be two more kernels of every vector step.
        self._reward_sum = torch.zeros_like(context.example.get(("next", GROUP, "reward")))
        self._pairs = None if context.agent.continuous else context.agent.num_actions
        action = context.example.get((GROUP, "action"))
        self._action_sum = torch.zeros_like(action, dtype=self._reward_sum.dtype)
        known = {each.name for each in perception_entries(config.world)} | {"scan"}
        self._measured = sorted(context.agent.spec.entries.keys() - known)
        self._measured_sum = torch.zeros_like(self._reward_sum.squeeze(-1))
        self.episodes = EpisodeMeter(context.example, context.statistics)
        """Of the training episodes that have ended."""
        losses: LossFunction = context.agent.loss
        if teacher is not None:
            weight = config.trainer.imitation_weight
            losses = imitating(context.agent, teacher, config.world, weight)
        self.learner = Learner(context.agent, config, self._generator, context.ranks, context.log, tau, losses)

    @classmethod
    @abstractmethod
    def memory_estimate(cls, config: TrainConfig[Any], agent: Agent[Any], step: TensorDictBase) -> MemoryEstimate:
        """Predict what a run takes of memory.

        Args:
            config: of the run.
            agent: of the run, on the CPU.
            step: of the world, of one environment.
        """

    @abstractmethod
    def observe(self, steps: TensorDictBase) -> None:
        """Take steps [E, T] of the collector, with TorchRL's keys; see also accumulate."""

    def accumulate(self, steps: TensorDictBase) -> None:
        """Add steps [E, T] to the sums of ``health``, and the episodes that they end."""
        self.episodes.add(steps)
        self._reward_sum.add_(steps.get(("next", GROUP, "reward")).sum(1))
        action, mask = (steps.get((GROUP, name)) for name in ("action", "mask"))
        if self._pairs is None:
            summed = torch.where(mask[..., None], action, 0.0)
        else:
            summed = torch.where(unusable(action, mask, self._pairs), math.nan, 0.0)
        self._action_sum.add_(summed.sum(1))
        for name in self._measured:
            entry = steps.get((GROUP, "observation", name)).flatten(mask.ndim).sum(-1)
            self._measured_sum.add_(torch.where(mask, entry, 0.0).sum(1))

    def health(self) -> dict[str, Tensor]:
        """Return the scalars on the device, each of which is finite as long as what it sums up is.

        Indices are summed up as 0, or as NaN where they are none. Of observations, only entries of
        users' sensors are summed up.
        """
        measured = {"observations": self._measured_sum.sum()} if self._measured else {}
        return measured | {
            "actions": self._action_sum.sum(),
            "reward": self._reward_sum.sum(),
            **self.meter.losses,
            "weights": self.learner.squared_weights(),
        }

    @abstractmethod
    def update(self, env_steps: int) -> None:
        """Make the updates that are due.

        Args:
            env_steps: of the run so far, over all ranks.
        """

    def set_progress(self, progress: float, policy: PolicyWrapper) -> None:
        """Set what changes along the run.

        Args:
            progress: share of the run done, in [0, 1].
            policy: that collects.
        """
        self.learner.set_progress(progress)

    def missing(self, state: dict[str, Any]) -> str:
        """Why a saved state cannot be resumed, in words; empty if it is complete."""
        return ""

    @abstractmethod
    def restart(self) -> None:
        """Drop steps without continuation, after the worlds were replaced."""

    def device_scalars(self) -> dict[str, Tensor]:
        """Return the scalars on the device for the log, ``train/NAME``, read with the losses."""
        return {}

    def log_scalars(self) -> dict[str, float | None]:
        """Further scalars for the log by tag."""
        return {
            "train/learning_rate": self.learner.learning_rate,
            "train/updates": float(self.learner.updates),
            "train/micro_batches": float(self.learner.micro_batches),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return everything that learning depends on."""
        return {
            "learner": self.learner.state_dict(),
            "meter": self.meter.state_dict(),
            "episodes": self.episodes.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.learner.load_state_dict(state["learner"])
        self.meter.load_state_dict(state["meter"])
        if "episodes" in state:  # not in states of earlier versions
            self.episodes.load_state_dict(state["episodes"])
