"""Wrapper of MarineNavEnv with NumPy arrays, on which the interfaces to other libraries are based."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.env import MarineNavEnv
from marinenav_env.pictures.rendering import DEFAULT_FPS, RENDER_MODES
from marinenav_env.sensing.entries import Entry
from marinenav_env.sensing.observation import flatten_observation
from marinenav_env.specs import GROUP
from marinenav_env.stepping.episode_source import Scenarios, as_scenarios
from marinenav_env.stepping.reset_pool import Curriculum
from marinenav_env.support.seeds import joint_seed
from marinenav_env.support.validation import ConfigError, require

Results = tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]
METADATA = {"render_modes": list(RENDER_MODES), "render_fps": DEFAULT_FPS}


class NumpyWorlds:
    """Wrapper of MarineNavEnv that takes and returns NumPy arrays, for the interfaces, which explain its arguments.

    With a curriculum, a single world draws a new scenario for every episode.
    """

    now: TensorDictBase
    """Output of the latest reset or step of MarineNavEnv, batch size [E]: group ``robots``, ``done`` and the like."""

    def __init__(
        self,
        config: WorldConfig | None,
        scenarios: Scenarios,
        continuous: bool,
        flat: bool,
        render_mode: str | None,
        render_fps: float = DEFAULT_FPS,
        num_envs: int = 1,
        device: torch.device | str = "cpu",
    ) -> None:
        require(render_mode in (None, *RENDER_MODES), "render_mode", render_mode, " or ".join(RENDER_MODES))
        source = as_scenarios(scenarios, config)
        if isinstance(source, Curriculum) and num_envs == 1:
            # Except on a CPU, complete scenarios of a batch replace incomplete ones, so a batch must have several.
            size = 1 if torch.device(device).type == "cpu" else 64
            source = replace(source, pool_size=size, refresh_size=size, refresh_interval=1)
        self.env = MarineNavEnv(config, num_envs, scenarios=source, continuous=continuous, device=device)
        self.flat, self._render_mode, self._fps = flat, render_mode, render_fps
        self._begun = False

    def reset(self, seed: Any = None) -> None:
        """Start new episodes in all worlds, after seeding with a seed (or a list with one per world) if given."""
        if seed is not None:
            self.env.set_seed(joint_seed(seed, self.env.num_envs))
        if seed is None and self._begun:
            self.start_episodes(np.ones(self.env.num_envs, np.bool_))
        else:
            self.now = self.env.reset()
        self._begun = True
        self._show()

    def start_episodes(self, over: NDArray[np.bool_]) -> None:
        """Start a new episode where ``over`` [E] is true."""
        done = torch.from_numpy(over).to(self.env.device)[:, None]
        self.now = self.env.maybe_reset(TensorDict({"done": done}, [len(over)]))

    def require_reset(self) -> None:
        """Raise ConfigError if no episode has begun yet."""
        if not self._begun:
            raise ConfigError("step: must come after reset")

    def actions(self, values: Any, key: str = "action", unbatched: bool = False) -> Tensor:
        """Convert the actions of one robot per world to a tensor [E, ...]; ``step_all`` checks their values.

        The action of a single world is ``unbatched``, without a batch dimension. ``key`` is for messages.
        """
        self.require_reset()
        continuous, array = self.env.continuous, np.asarray(values)
        shape = [1 if unbatched else self.env.num_envs, 2][unbatched : 2 if continuous else 1]
        require(list(array.shape) == shape, f"{key}.shape", list(array.shape), f"{shape}")
        kinds, allowed = ("iuf", "a type of numbers") if continuous else ("iu", "a type of whole numbers")
        require(array.dtype.kind in kinds, f"{key}.dtype", array.dtype, allowed)
        tensor = torch.from_numpy(array.astype(np.float64 if array.dtype.kind == "f" else np.int64))
        return tensor[None] if unbatched else tensor

    def step_all(self, actions: Tensor) -> None:
        """Make a control step with the actions [E, R, ...] of all robots, and store its output in ``now``."""
        # The last reward is not an input of the next step.
        step = self.now.exclude((GROUP, "reward")).set((GROUP, "action"), actions)
        self.now = self.env.step(step).get("next")
        self.env.check_actions()  # this may wait, because the results are read on the host anyway
        self._show()

    def render(self) -> NDArray[np.uint8] | None:
        """Return pixels [height, width, 3] of the first world if the mode is rgb_array, else None."""
        return self.env.render() if self._render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the environment and its window, and check the last actions."""
        self.env.close()

    @staticmethod
    def remove_batch_dimension(batched: Any) -> Any:
        """Remove the batch dimension from arrays [1, ...] in nested tuples and dictionaries."""
        if isinstance(batched, tuple):
            return tuple(map(NumpyWorlds.remove_batch_dimension, batched))
        if isinstance(batched, dict):
            return {name: NumpyWorlds.remove_batch_dimension(values) for name, values in batched.items()}
        return batched[0] if batched.ndim > 1 else batched[0].item()

    def _show(self) -> None:
        if self._render_mode == "human":
            self.env.render("human", self._fps)

    def observation(self, robot: int) -> Any:
        """Return the observations of one robot of every world as arrays [E, ...], in the form of observation_space."""
        tensors = self.now.get((GROUP, "observation"))[:, robot]
        if self.flat:
            return flatten_observation(tensors, self.env.entries).numpy(force=True).astype(np.float32)
        kinds = {name: np.int8 if entry.kind == "mask" else np.float32 for name, entry in self.env.entries.items()}
        return {name: tensors.get(name).numpy(force=True).astype(kind) for name, kind in kinds.items()}

    def result(self, robot: int) -> Results:
        """Return observation, reward, terminated, truncated and ``info`` of one robot per world, as arrays [E, ...]."""
        group, state = self.now.get(GROUP)[:, robot], self.env.state

        def array(tensor: Tensor) -> NDArray[Any]:
            return tensor.numpy(force=True)

        grounded = torch.zeros_like(state.collided) if state.grounded is None else state.grounded
        reward, terminated, truncated = (array(group.get(name)[:, 0]) for name in ("reward", "terminated", "truncated"))
        info = {
            "is_success": array(state.arrived[:, robot]),
            "is_collision": array((state.collided & ~grounded)[:, robot]),
            "is_grounding": array(grounded[:, robot]),
            "energy": array(self.env.outcome.energy[:, robot]),
        }
        return self.observation(robot), reward, terminated, truncated, info

    def observation_space(self) -> spaces.Space[Any]:
        """Return the space of one robot's observations, which has the entries of MarineNavEnv.entries."""
        parts = {name: _space_of_entry(entry) for name, entry in self.env.entries.items()}
        if not self.flat:
            return spaces.Dict(parts)
        boxes = [spaces.flatten_space(part) for part in parts.values()]
        low, high = (
            np.concatenate([getattr(box, side) for box in boxes], dtype=np.float32) for side in ("low", "high")
        )
        return spaces.Box(low, high)

    def action_space(self) -> spaces.Space[Any]:
        """Return the space of one robot's actions: two commands in [-1, 1], or indices of thrust-change pairs."""
        if self.env.continuous:
            return spaces.Box(-1.0, 1.0, (2,))
        return spaces.Discrete(self.env.num_discrete_actions)


def _space_of_entry(entry: Entry) -> spaces.Space[Any]:
    """Return the space of an entry for one robot, with finite bounds for numbers, as many libraries require."""
    if entry.kind == "mask":
        return spaces.MultiBinary(entry.shape[0] if len(entry.shape) == 1 else entry.shape)
    low, high = (
        np.broadcast_to(np.array(column, np.float32), entry.shape).copy() for column in zip(*entry.limits, strict=True)
    )
    return spaces.Box(low, high)
