"""One world in numpy, one step at a time: what the interfaces to other libraries share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from tensordict import TensorDict, TensorDictBase

from marinenav_env.config import WorldConfig
from marinenav_env.env import GROUP, MarineNavEnv
from marinenav_env.scenario_file import Episode
from marinenav_env.starts import Curriculum
from marinenav_env.state import Scenario

Scenarios = Curriculum | str | Path | Sequence[Episode] | Scenario | None

# So wide that no vessel reaches them: a box without ends is refused by many libraries.
METRES, SPEED, TURN_RATE = 1e4, 1e2, 1e2


class SingleWorld:
    """A MarineNavEnv with one environment, on the CPU.

    Args:
        config: the world; the published one by default.
        scenarios: see MarineNavEnv. Of a curriculum, every episode is drawn anew.
        continuous: whether actions are continuous or indices of thrust-change pairs.
    """

    now: TensorDictBase
    """What the environment last gave."""

    def __init__(self, config: WorldConfig | None, scenarios: Scenarios, continuous: bool) -> None:
        given = Curriculum() if scenarios is None else scenarios
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
        self.now = self.env.step(self.now).get("next")

    def forget_reward(self) -> None:
        """Take the last reward away, which is no part of the next step's input."""
        self.now = self.now.exclude((GROUP, "reward"))

    def observation(self, robot: int) -> dict[str, Any]:
        """What a robot perceives; see observation_space."""
        seen = self.now.get((GROUP, "observation"))[0, robot]
        return {
            "self_state": seen.get("self_state").numpy().copy(),
            "objects_state": seen.get("objects_state").numpy().copy(),
            "objects_mask": seen.get("objects_mask").numpy().astype(np.int8),
        }

    def flag(self, name: str, robot: int) -> bool:
        """Whether a robot is done, terminated or truncated."""
        return bool(self.now.get((GROUP, name))[0, robot])

    def reward(self, robot: int) -> float:
        """A robot's reward for the last step."""
        return float(self.now.get((GROUP, "reward"))[0, robot])

    def info(self, robot: int) -> dict[str, Any]:
        """What the last step came to for a robot; energy in N s."""
        outcome, state = self.env.outcome, self.env.state
        return {
            "is_success": bool(state.arrived[0, robot]),
            "is_collision": bool(state.collided[0, robot]),
            "energy": float(outcome.energy[0, robot]),
        }

    def observation_space(self) -> spaces.Dict:
        """self_state [7], objects_state [K, 5] and objects_mask [K]; see Observation."""
        vessel, slots = self.env.constants.vessel, self.env.config.sensor.slots
        thrust = float(vessel.min_thrust.min()), float(vessel.max_thrust.max())
        own = np.array([METRES, METRES, SPEED, SPEED, TURN_RATE, thrust[1], thrust[1]], np.float32)
        low = np.array([*-own[:5], thrust[0], thrust[0]], np.float32)
        each = np.tile(np.array([METRES, METRES, SPEED, SPEED, METRES], np.float32), (slots, 1))
        return spaces.Dict(
            {
                "self_state": spaces.Box(low, own),
                "objects_state": spaces.Box(-each, each),
                "objects_mask": spaces.MultiBinary(slots),
            }
        )

    def action_space(self) -> spaces.Space[Any]:
        """Left and right command in [-1, 1], or the index of a pair of thrust changes."""
        if self.env.continuous:
            return spaces.Box(-1.0, 1.0, (2,))
        return spaces.Discrete(self.env.num_discrete_actions)
