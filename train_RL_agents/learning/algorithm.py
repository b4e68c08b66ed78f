"""Base class of learning algorithms."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.stepping.actions import find_invalid_actions
from train_RL_agents.agents import Agent
from train_RL_agents.agents.batches import LossFunction
from train_RL_agents.agents.trainer_configs import TrainerConfig
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.imitation import add_imitation_loss
from train_RL_agents.learning.learner import Learner
from train_RL_agents.learning.meter import EpisodeMeter, Meter
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run.checkpoint import LoadedPolicy
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.utils.progress import PhaseTimer


@dataclass(frozen=True)
class AlgorithmContext:
    """Arguments of the constructor of an algorithm: configuration, agent, random generators and display."""

    config: TrainConfig[Any]
    """Configuration in which this process has its share of the totals (``TrainerConfig.divided_settings``)."""
    agent: Agent[Any]
    example: TensorDictBase
    """One step [E] of the environments with TorchRL's keys and the policy's entries, for shapes and dtypes."""
    generators: dict[str, torch.Generator]
    """Random generators by name: ``learner`` and ``replay``."""
    ranks: Ranks
    """Ranks (processes) of the run, which learn together."""
    clock: PhaseTimer
    """Timer of the phases of the training loop (collect, update, ...)."""
    log: Callable[[str], None]
    """Function that prints a line of text."""
    statistics: tuple[str, ...] = ()
    """Names of the columns of the key ``episode_statistics`` of steps; () without any."""
    checked_entries: tuple[str, ...] = ()
    """Names of the entries of the observation that are checked, since they may be infinite or NaN."""
    teacher: LoadedPolicy | None = None
    """Policy whose actions are imitated, on the device; None without imitation."""
    action_table: Tensor | None = None
    """Continuous equivalents [A, D] of the discrete actions, to imitate a teacher if only one of agent and teacher is
    discrete; None if there are none."""

    @property
    def device(self) -> torch.device:
        """Return the device of the agent and of the transitions it learns from."""
        return self.generators["learner"].device


@dataclass(frozen=True)
class MemoryPlanEntry:
    """Entry of the memory plan: one use of host or device memory, with its size."""

    name: str
    size: int
    """Size in bytes."""
    on_host: bool
    """True for the host's memory, false for the device's."""


class Algorithm(ABC):
    """Base class of algorithms, which learn from the steps of the collector; ``tau`` is that of Learner."""

    config_type: ClassVar[type[TrainerConfig]]
    """Type of the algorithm's settings, by which it is chosen."""

    def __init__(self, context: AlgorithmContext, tau: float = 0.0) -> None:
        config, teacher = context.config, context.teacher
        self._config, self._ranks, self._clock = config, context.ranks, context.clock
        self._generator, self.meter = context.generators["learner"], Meter()
        # Kept per robot, because a sum over all robots would take two more kernels per vector step.
        self._reward_sum = torch.zeros_like(context.example.get(("next", GROUP, "reward")))
        self._num_actions = None if context.agent.continuous else context.agent.num_actions
        action = context.example.get((GROUP, "action"))
        self._action_sum = torch.zeros_like(action, dtype=self._reward_sum.dtype)
        self._checked_entries = context.checked_entries
        self._checked_sum = torch.zeros_like(self._reward_sum.squeeze(-1))
        self.episodes = EpisodeMeter(context.example, context.statistics)
        """Statistics of the training episodes that have ended."""
        self._imitates = teacher is not None
        losses: LossFunction = context.agent.loss
        self.imitation_weight = config.trainer.imitation_weight
        # The weight is a tensor, because compiled code treats numbers as constants.
        self._imitation_weight = torch.tensor(self.imitation_weight, device=context.device)
        if teacher is not None:
            losses = add_imitation_loss(context.agent, teacher, context.action_table, self._imitation_weight)
        self.learner = Learner(context.agent, config, self._generator, context.ranks, context.log, tau, losses)

    @classmethod
    @abstractmethod
    def held_memory(cls, config: TrainConfig[Any], agent: Agent[Any], step: TensorDictBase) -> list[MemoryPlanEntry]:
        """Return what a run holds in memory besides the networks, from a step of one environment.

        Entries that stay in the host's memory even in runs on a GPU say so.
        """

    @abstractmethod
    def add_steps(self, steps: TensorDictBase) -> None:
        """Take collected steps [E, T] with TorchRL's keys to learn from; implementations call ``add_to_statistics``."""

    def add_to_statistics(self, steps: TensorDictBase) -> None:
        """Add steps [E, T] to the sums of ``check_sums``, and the episodes that end in them to ``episodes``."""
        self.episodes.add(steps)
        self._reward_sum.add_(steps.get(("next", GROUP, "reward")).sum(1))
        action, mask = (steps.get((GROUP, name)) for name in ("action", "mask"))
        if self._num_actions is None:
            summed = torch.where(mask[..., None], action, 0.0)
        else:
            summed = torch.where(find_invalid_actions(action, mask, self._num_actions), math.nan, 0.0)
        self._action_sum.add_(summed.sum(1))
        for name in self._checked_entries:
            entry = steps.get((GROUP, "observation", name)).flatten(mask.ndim).sum(-1)
            self._checked_sum.add_(torch.where(mask, entry, 0.0).sum(1))

    def check_sums(self) -> dict[str, Tensor]:
        """Return sums by name, scalars on the device that are finite only if all that is summed is.

        Discrete actions count as 0, or as NaN if they are invalid.
        """
        measured = {"observations": self._checked_sum.sum()} if self._checked_entries else {}
        return measured | {
            "actions": self._action_sum.sum(),
            "reward": self._reward_sum.sum(),
            **self.meter.loss_sums,
            "weights": self.learner.squared_weights(),
        }

    def read_check_sums(self) -> dict[str, float]:
        """Return the result of ``check_sums`` on the host, with one transfer from the device."""
        sums = self.check_sums()
        values = torch.stack([value.float() for value in sums.values()]).tolist()  # host: for the log
        return dict(zip(sums, values, strict=True))

    @abstractmethod
    def update(self, env_steps: int) -> None:
        """Make the updates of the weights that are due."""

    def set_progress(self, progress: float, policy: PolicyWrapper) -> None:
        """Set what follows a schedule, such as the learning rate, for a share of the run; ``policy`` collects."""
        self.learner.set_progress(progress)
        settings = self._config.trainer
        first, last = settings.imitation_weight, settings.imitation_weight_final
        if self._imitates and last is not None:
            self.imitation_weight = first + (last - first) * min(progress, 1.0)
            self._imitation_weight.fill_(self.imitation_weight)

    def resume_problem(self, state: dict[str, Any]) -> str:
        """Return the reason, as text, why a run cannot be resumed from a saved state; empty if it can."""
        return ""

    def drop_unfinished_returns(self) -> None:  # noqa: B027
        """Drop unfinished n-step transitions, because the environments were replaced by new ones; by default, none."""

    def device_scalars(self) -> dict[str, Tensor]:
        """Return scalars on the device by name, which are logged as ``train/NAME``."""
        return {}

    def log_scalars(self) -> dict[str, float | None]:
        """Return further scalars for the log by tag; None for one without a value."""
        imitation: dict[str, float | None] = {"train/imitation_weight": self.imitation_weight} if self._imitates else {}
        return imitation | {
            "train/learning_rate": self.learner.learning_rate,
            "train/updates": float(self.learner.updates),
            "train/micro_batches": float(self.learner.micro_batches),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the states ``learner``, ``meter`` and ``episodes`` (sums for the next log entry), for a checkpoint."""
        return {
            "learner": self.learner.state_dict(),
            "meter": self.meter.state_dict(),
            "episodes": self.episodes.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        self.learner.load_state_dict(state["learner"])
        self.meter.load_state_dict(state["meter"])
        self.episodes.load_state_dict(state["episodes"])
