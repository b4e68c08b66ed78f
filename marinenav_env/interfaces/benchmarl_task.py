"""BenchMARL task of the world; BenchMARL is not a dependency and must be installed separately."""

from collections.abc import Callable
from typing import Any

import torchrl.collectors
from torchrl.data import Composite, Unbounded
from torchrl.envs import EnvBase

from marinenav_env.env import MarineNavEnv
from marinenav_env.specs import GROUP

# BenchMARL 1.5 imports a name that TorchRL 0.14 no longer has.
if not hasattr(torchrl.collectors, "SyncDataCollector"):
    torchrl.collectors.SyncDataCollector = torchrl.collectors.Collector

try:
    from benchmarl.environments.common import TaskClass
except ImportError as error:
    raise ImportError(
        "marinenav_env.interfaces.benchmarl_task needs BenchMARL; install it with: pip install benchmarl"
    ) from error


class MarineNavTask(TaskClass):
    """Task with all vessels as the group ``robots``, flat observations, and continuous or discrete actions.

    Its ``config`` has keyword arguments of MarineNavEnv, such as ``config`` and ``scenarios``.
    """

    def get_env_fun(
        self, num_envs: int, continuous_actions: bool, seed: int | None, device: Any
    ) -> Callable[[], EnvBase]:
        """Return a factory of a MarineNavEnv with ``num_envs`` environments and flat observations."""
        return lambda: MarineNavEnv(
            num_envs=num_envs, continuous=continuous_actions, flat=True, seed=seed, device=device, **self.config
        )

    def supports_continuous_actions(self) -> bool:
        """Return True, because the environment supports continuous actions."""
        return True

    def supports_discrete_actions(self) -> bool:
        """Return True, because the environment supports discrete actions."""
        return True

    def max_steps(self, env: EnvBase) -> int:
        """Return the largest number of control steps of an episode."""
        return int(env.config.max_steps)

    def has_render(self, env: EnvBase) -> bool:
        """Return True, because the environment can be rendered."""
        return True

    def group_map(self, env: EnvBase) -> dict[str, list[str]]:
        """Return the names of the robots by group."""
        return dict(env.group_map)

    def observation_spec(self, env: EnvBase) -> Composite:
        """Return the observation spec of one world, without the mask of active robots, which is not a network input."""
        batched = env.observation_spec[GROUP, "observation"]
        single = Unbounded(batched.shape[1:], device=env.device, dtype=batched.dtype)
        return Composite({GROUP: Composite({"observation": single}, shape=batched.shape[1:2])})

    def action_spec(self, env: EnvBase) -> Composite:
        """Return the action spec of one world."""
        return env.full_action_spec_unbatched

    def info_spec(self, env: EnvBase) -> None:
        """Return None, because there are no info entries."""

    def state_spec(self, env: EnvBase) -> None:
        """Return None, because there is no global state; centralised critics receive all observations."""

    def action_mask_spec(self, env: EnvBase) -> None:
        """Return None, because every action is always allowed."""

    @staticmethod
    def env_name() -> str:
        """Return the name of the environment, for logs."""
        return "marinenav"
