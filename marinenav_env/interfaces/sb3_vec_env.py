"""VecEnv of stable-baselines3 with many worlds and one learning vessel in each; it needs the extra ``sb3``."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marinenav_env.interfaces.gymnasium_env import MarineNavVectorEnv
from marinenav_env.sensing.entries import Entry

try:
    from stable_baselines3.common.vec_env import VecEnv
except ImportError as error:
    raise ImportError(
        "marinenav_env.interfaces.sb3_vec_env needs stable-baselines3; install it with: pip install 'marinenav[sb3]'"
    ) from error

Indices = int | Iterable[int] | None
"""Indices of worlds; None: all."""


class MarineNavVecEnv(VecEnv):
    """Vectorised environment in which the first vessel of every world is the agent, as in MarineNavGymEnv.

    Observations are divided by ``scales``, the scales of their entries, so that networks receive numbers of
    about 1. ``get_attr``, ``set_attr`` and ``env_method`` access the MarineNavVectorEnv of all worlds.

    Args:
        num_envs: number of worlds, with one learning vessel per world.
        scaled: whether observations are divided by their scales.
        **options: further arguments of MarineNavVectorEnv.
    """

    def __init__(self, num_envs: int = 64, *, scaled: bool = True, **options: Any) -> None:
        self.worlds = MarineNavVectorEnv(num_envs, **options)
        entries, space = self.worlds.entries, self.worlds.single_observation_space
        self.scales = {name: _scale(entry) for name, entry in entries.items() if scaled and entry.kind != "mask"}
        """Divisors by entry name, of the shape of the entry, without masks; a flat observation has one, named ""."""
        if scaled and isinstance(space, spaces.Box):
            joined = [_scale(entry).ravel() for entry in entries.values()]
            self.scales = {"": np.concatenate(joined)}
        self._actions: Any = None
        super().__init__(num_envs, self._scaled_space(space), self.worlds.single_action_space)

    def reset(self) -> Any:
        """Start episodes in all worlds, with the seeds passed to ``seed`` if it was called, and return observations."""
        seeds = None if None in self._seeds else self._seeds
        observation, _ = self.worlds.reset(seed=seeds)
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._reset_seeds()
        self._reset_options()
        return self._scaled(observation)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Store the actions of the next step, one per world."""
        self._actions = actions

    def step_wait(self) -> tuple[Any, NDArray[Any], NDArray[Any], list[dict[str, Any]]]:
        """Make the step and return observations, rewards, dones and infos; new episodes start where one has ended."""
        observation, reward, terminated, truncated, info = self.worlds.step(self._actions)
        done = terminated | truncated
        columns = {name: info[name].tolist() for name in ("is_success", "is_collision", "is_grounding", "energy")}
        columns["TimeLimit.truncated"] = (truncated & ~terminated).tolist()
        infos = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        for row in np.flatnonzero(done):
            infos[row]["terminal_observation"] = self._scaled(info["final_obs"][row])
        return self._scaled(observation), reward, done, infos

    def close(self) -> None:
        """Close the worlds and their window, if there is one."""
        self.worlds.close()

    def get_images(self) -> Sequence[NDArray[Any]]:
        """Return the pixels of the first world as the only image; none unless ``render_mode`` is rgb_array."""
        images: Sequence[NDArray[Any]] = self.worlds.render() or ()
        return images

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of the MarineNavVectorEnv, once per selected world."""
        return [getattr(self.worlds, attr_name)] * self._count(indices)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set an attribute of the MarineNavVectorEnv for all worlds; ``indices`` are ignored."""
        setattr(self.worlds, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Indices = None, **options: Any) -> list[Any]:
        """Call a method of the MarineNavVectorEnv once, and return its result once per selected world."""
        return [getattr(self.worlds, method_name)(*args, **options)] * self._count(indices)

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """Return False for every selected world, because worlds have no Gymnasium wrappers."""
        return [False] * self._count(indices)

    def _count(self, indices: Indices) -> int:
        """Return the number of worlds that indices select."""
        return len(list(self._get_indices(indices)))

    def _scaled(self, observation: Any) -> Any:
        """Return an observation, or a batch of observations, divided by the scales."""
        if isinstance(observation, dict):
            return {
                name: values / self.scales[name] if name in self.scales else values
                for name, values in observation.items()
            }
        return observation / self.scales[""] if self.scales else observation

    def _scaled_space(self, space: Any) -> Any:
        def scaled(name: str, part: Any) -> Any:
            scale = self.scales.get(name)
            return part if scale is None else spaces.Box(part.low / scale, part.high / scale)

        if isinstance(space, spaces.Dict):
            return spaces.Dict({name: scaled(name, part) for name, part in space.items()})
        return scaled("", space)


def _scale(entry: Entry) -> NDArray[np.float32]:
    """Return the divisor of an entry for one robot; 1 for entries without a scale, such as masks."""
    return np.broadcast_to(np.array(entry.scale or (1.0,), np.float32), entry.shape)
