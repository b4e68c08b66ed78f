"""One world in numpy, one step at a time: what the interfaces to other libraries share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from tensordict import TensorDict, TensorDictBase

from marinenav_env.config import WorldConfig
from marinenav_env.entries import Entry
from marinenav_env.env import GROUP, MarineNavEnv, Scenarios
from marinenav_env.reset_pool import Curriculum, drawn_or_given


class SingleWorld:
    """A MarineNavEnv with one environment, on the CPU.

    Args:
        config: the world; the published one by default.
        scenarios: see MarineNavEnv. With a curriculum, every episode is a new draw.
        continuous: whether actions are continuous or indices of thrust-change pairs.
    """

    now: TensorDictBase
    """What the environment last gave."""

    def __init__(self, config: WorldConfig | None, scenarios: Scenarios, continuous: bool) -> None:
        given = drawn_or_given(scenarios)
        if isinstance(given, Curriculum):
            given = replace(given, pool_size=1, refresh_size=1, refresh_interval=1)
        self.env = MarineNavEnv(config, 1, scenarios=given, continuous=continuous)
        self._begun = False

    def restart(self, seed: int | None = None) -> None:
        """Begin the next episode; with a seed, the first of its stream."""
        if seed is not None:
            self.env.set_seed(seed)
        if seed is not None or not self._begun:
            self.now = self.env.reset()
        else:
            over = TensorDict({"done": torch.ones(1, 1, dtype=torch.bool)}, [1])
            self.now = self.env.maybe_reset(over)
        self._begun = True

    def act(self) -> None:
        """Make a step with the actions written in ``now``."""
        self._ended = self.env.step(self.now).get("next")
        # The last reward is no part of the next step's input.
        self.now = self._ended.exclude((GROUP, "reward"))

    def observation(self, robot: int) -> dict[str, Any]:
        """What a robot perceives; see observation_space."""
        seen = self.now.get((GROUP, "observation"))[0, robot]
        return {
            name: seen.get(name).numpy().astype(np.int8 if entry.kind == "mask" else np.float32)
            for name, entry in self.env.entries.items()
        }

    def result(self, robot: int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """What the last step came to for a robot, as Gymnasium has it; energy in N s."""
        group, state = self._ended.get(GROUP)[0, robot], self.env.state
        info = {
            "is_success": bool(state.arrived[0, robot]),
            "is_collision": bool(state.collided[0, robot]),
            "energy": float(self.env.outcome.energy[0, robot]),
        }
        terminated, truncated = (bool(group.get(name)) for name in ("terminated", "truncated"))
        return self.observation(robot), float(group.get("reward")), terminated, truncated, info

    def observation_space(self) -> spaces.Dict:
        """The entries of an observation of one robot; see MarineNavEnv.entries."""
        return spaces.Dict({name: _space(entry) for name, entry in self.env.entries.items()})

    def action_space(self) -> spaces.Space[Any]:
        """Left and right command in [-1, 1], or the index of a pair of thrust changes."""
        if self.env.continuous:
            return spaces.Box(-1.0, 1.0, (2,))
        return spaces.Discrete(self.env.num_discrete_actions)


def _space(entry: Entry) -> spaces.Space[Any]:
    """The values of an entry for one robot; numbers within limits, as many libraries want them."""
    if entry.kind == "mask":
        return spaces.MultiBinary(entry.shape[0] if len(entry.shape) == 1 else entry.shape)
    low, high = (
        np.broadcast_to(np.array(column, np.float32), entry.shape).copy()
        for column in zip(*entry.limits, strict=True)
    )
    return spaces.Box(low, high)
