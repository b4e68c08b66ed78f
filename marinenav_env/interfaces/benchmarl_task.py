"""The world as a task of BenchMARL, which is not a dependency."""

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
    """All vessels as the group ``robots``, with flat observations and either kind of actions.

    Args:
        name: of the task, for logs.
        config: arguments of MarineNavEnv, such as ``config`` and ``scenarios``.
    """

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        """What makes the environment."""
        return lambda: MarineNavEnv(
            num_envs=num_envs, continuous=continuous_actions, flat=True, seed=seed, device=device, **self.config
        )

    def supports_continuous_actions(self) -> bool:
        """Yes."""
        return True

    def supports_discrete_actions(self) -> bool:
        """Yes."""
        return True

    def max_steps(self, env: EnvBase) -> int:
        """Control steps of an episode."""
        return int(env.config.max_steps)

    def has_render(self, env: EnvBase) -> bool:
        """Yes."""
        return True

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        """Robots by group."""
        return dict(env.group_map)

    def observation_spec(self, env: EnvBase) -> Composite:
        """Of one world, without the mask of active robots, which is no input of a network."""
        seen = env.observation_spec[GROUP, "observation"]
        one = Unbounded(seen.shape[1:], device=env.device, dtype=seen.dtype)
        return Composite({GROUP: Composite({"observation": one}, shape=seen.shape[1:2])})

    def action_spec(self, env: EnvBase) -> Composite:
        """Of one world; see MarineNavEnv."""
        return env.full_action_spec_unbatched

    def info_spec(self, env: EnvBase) -> None:
        """There is none."""

    def state_spec(self, env: EnvBase) -> None:
        """There is none: critics see all observations."""

    def action_mask_spec(self, env: EnvBase) -> None:
        """There is none: every action is allowed."""

    @staticmethod
    def env_name() -> str:
        """Of the world, for logs."""
        return "marinenav"
