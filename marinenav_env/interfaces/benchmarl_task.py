"""Task of BenchMARL, which is not a dependency, for the world."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torchrl.collectors
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase

from marinenav_env.env import MarineNavEnv
from marinenav_env.specs import GROUP

# BenchMARL 1.5 imports a name that TorchRL 0.14 has dropped.
if not hasattr(torchrl.collectors, "SyncDataCollector"):
    torchrl.collectors.SyncDataCollector = torchrl.collectors.Collector

try:
    from benchmarl.environments.common import TaskClass
except ImportError as error:
    raise ImportError(
        "marinenav_env.interfaces.benchmarl_task needs BenchMARL; install it with: pip install benchmarl"
    ) from error


class MarineNavTask(TaskClass):
    """Task with all vessels as the group ``robots``, flat observations and either kind of actions.

    Args:
        name: name of the task, for logs.
        config: arguments of MarineNavEnv, such as ``config`` and ``scenarios``.
    """

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        """Return a function that makes the environment."""
        return lambda: MarineNavEnv(
            num_envs=num_envs, continuous=continuous_actions, flat=True, seed=seed, device=device, **self.config
        )

    def supports_continuous_actions(self) -> bool:
        """Return True."""
        return True

    def supports_discrete_actions(self) -> bool:
        """Return True."""
        return True

    def max_steps(self, env: EnvBase) -> int:
        """Return the most control steps of an episode."""
        return int(env.config.max_steps)

    def has_render(self, env: EnvBase) -> bool:
        """Return True."""
        return True

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        """Return the robots by group."""
        return dict(env.group_map)

    def observation_spec(self, env: EnvBase) -> Composite:
        """Return the spec of one world, without the mask of active robots, which is no network input."""
        batched = env.observation_spec[GROUP, "observation"]
        single = Unbounded(batched.shape[1:], device=env.device, dtype=batched.dtype)
        return Composite({GROUP: Composite({"observation": single}, shape=batched.shape[1:2])})

    def action_spec(self, env: EnvBase) -> Composite:
        """Return the spec of one world."""
        return env.full_action_spec_unbatched

    def info_spec(self, env: EnvBase) -> None:
        """Return None: there is no information."""

    def state_spec(self, env: EnvBase) -> None:
        """Return None: critics receive all observations."""

    def action_mask_spec(self, env: EnvBase) -> None:
        """Return None: every action is allowed."""

    @staticmethod
    def env_name() -> str:
        """Return the name of the world, for logs."""
        return "marinenav"
