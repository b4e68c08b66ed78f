"""Environments of training runs: the built-in one, and external ones that TorchRL can wrap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from tensordict import TensorDictBase
    from torch import Tensor
    from torchrl.envs import EnvBase

    from marinenav_env.runtime.philox import RandomSource
    from train_RL_agents.agents import Agent
    from train_RL_agents.config.schema import TrainConfig
    from train_RL_agents.evaluation.running.history import Evaluations
    from train_RL_agents.networks.observation import ObservationSpec
    from train_RL_agents.run.run_folder import RunFolder


class Environment(Protocol):
    """Environment of a run: makes its agent, its EnvBase and its evaluations, and knows what they hold in memory.

    The EnvBase has the batch size [E], the group ``robots`` and the keys of MarineNavEnv. In addition to the attributes
    of EnvBase, collection uses ``num_robots`` (R), ``active`` ([E, R] bool), ``env_steps`` (env-steps so far) and
    ``statistics`` (names of the columns of the key ``episode_statistics``).
    """

    config: TrainConfig[Any]
    """Configuration of the run, with this process's share of the environments."""
    spec: ObservationSpec
    """Specification of the observation and of continuous actions."""
    num_actions: int
    """Number of discrete actions; 1 in an external environment with continuous actions."""
    checked_entries: tuple[str, ...]
    """Names of the entries of the observation that the trainer checks, because they may be infinite or NaN."""
    action_table: Tensor | None
    """Continuous equivalents [A, D] of the discrete actions; None in an external environment."""

    def make_agent(self, device: torch.device) -> Agent[Any]:
        """Return a new, untrained agent of the kind and with the settings that the configuration states."""

    def make_envs(self, agent: Agent[Any], device: torch.device, seed: int, noise: RandomSource) -> Any:
        """Return the training environments, an EnvBase with the batch size [E].

        ``seed`` is that of this process, ``noise`` a source of random numbers for environments that can use one.
        """

    def worker_factories(
        self, agent: Agent[Any], seeds: Sequence[int], noise: RandomSource, env_steps: int
    ) -> list[Callable[[], EnvBase]]:
        """Return, for the seed of each worker, a function that makes its environments, on the CPU.

        ``env_steps`` are those of this process, with all its workers, before the run was resumed.
        """

    def make_evaluator(self, run: RunFolder, device: torch.device, env: Any) -> Evaluations[Any]:
        """Return the evaluations of a run, which may share the compiled code of the training environments ``env``."""

    def device_scalars(self, env: Any) -> dict[str, Tensor]:
        """Return scalars of the training environments, on their device, by the name under which they are logged."""

    def held_memory(self, agent: Agent[Any]) -> tuple[TensorDictBase, dict[str, int]]:
        """Return an example step of one environment, for shapes and dtypes, and held memory (bytes) by its use."""


def make_environment(config: TrainConfig[Any], num_processes: int = 1) -> Environment:
    """Return the environment that ``config.env`` names, built-in or external."""
    # Imported here, because they import torchrl, which evaluations in the built-in world do not need.
    if config.env.is_built_in:
        from train_RL_agents.environments.marinenav import BuiltInEnvironment

        return BuiltInEnvironment(config, num_processes)
    from train_RL_agents.environments.external import ExternalEnvironment

    return ExternalEnvironment(config)
