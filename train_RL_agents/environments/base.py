"""Interface of an environment for training, beside the specs of its EnvBase."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from marinenav_env.runtime.philox import RandomSource
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.episodes import EpisodeEvaluations
from train_RL_agents.evaluation.history import History
from train_RL_agents.networks.observation import ObservationSpec
from train_RL_agents.run.run_folder import RunFolder

Evaluations = History | EpisodeEvaluations
"""Evaluations of a run on a fixed set of episodes, with their results."""


class Environment(ABC):
    """The environment of a run.

    Its EnvBase has the batch [E], the group ``robots`` and the keys of MarineNavEnv. The attributes that collection
    uses beside those of EnvBase are ``num_robots`` (R), ``active`` ([E, R] bool), ``env_steps`` (env-steps so far) and
    ``statistics`` (names of the columns of the key ``episode_statistics``).

    Args:
        config: configuration of the run.
    """

    can_capture: ClassVar[bool] = False
    """True if a step is a pure function of tensors, ``make_step``, which a CUDA graph can hold."""
    spec: ObservationSpec
    """Specification of the observation and of continuous actions."""
    num_actions: int
    """Number of discrete actions; 1 without any."""
    measured: tuple[str, ...]
    """Entries of the observation that may be infinite or NaN, which the trainer then reports."""

    def __init__(self, config: TrainConfig[Any]) -> None:
        self.config = config

    def agent(self, device: torch.device) -> Agent[Any]:
        """Return a new agent of the run.

        Raises:
            ConfigError: when it cannot act in this environment.
        """
        agent = make_agent(self.config, self.num_actions, device, self.spec)
        self.check(agent)
        return agent

    def check(self, agent: Agent[Any]) -> None:  # noqa: B027
        """Check that an agent can act in it; here every agent can.

        Raises:
            ConfigError: when it cannot.
        """

    @abstractmethod
    def make(self, agent: Agent[Any], device: torch.device, seed: int, noise: RandomSource) -> Any:
        """Return the environments of a training, an EnvBase of the batch [E].

        Args:
            agent: agent that acts.
            device: device of the steps.
            seed: seed of this process.
            noise: source of random numbers for environments that take theirs from one.
        """

    @abstractmethod
    def worker_makers(
        self, agent: Agent[Any], seeds: Sequence[int], noise: RandomSource, env_steps: int
    ) -> list[Callable[[], EnvBase]]:
        """Return a function for each worker that makes its share of the environments, on the CPU.

        Args:
            agent: agent that acts.
            seeds: seeds of the workers.
            noise: source of random numbers of all environments.
            env_steps: env-steps that this process made before the run was resumed.
        """

    @abstractmethod
    def evaluations(self, run: RunFolder, device: torch.device, env: Any) -> Evaluations:
        """Return the evaluations of a run.

        Args:
            run: run folder, with the configuration.
            device: device of the evaluations.
            env: environments of the training, whose compiled code evaluations may share.
        """

    @abstractmethod
    def memory(self, agent: Agent[Any]) -> tuple[TensorDictBase, dict[str, int]]:
        """Return a step of one environment, for shapes and dtypes, and bytes that a run takes by name.

        Args:
            agent: agent of the run, on the CPU.
        """

    def action_pairs(self) -> Tensor | None:
        """Return the discrete actions [A, D] as continuous ones; None where they are none."""
        return None

    def close(self, env: Any) -> None:  # noqa: B027
        """Close the environments of a training, if they hold processes or files."""

    def scalars(self, env: Any) -> dict[str, Tensor]:
        """Return scalars on the device for the log, ``train/NAME``; NaN for what is not to be logged."""
        return {}
