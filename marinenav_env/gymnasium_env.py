"""One vessel as a Gymnasium environment: ``gymnasium.make("MarineNav-v0")``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import torch
from tensordict import TensorDictBase

from marinenav_env.config import WorldConfig
from marinenav_env.env import GROUP, Scenarios
from marinenav_env.scripted import SCRIPTED, write_actions
from marinenav_env.single import SingleWorld
from marinenav_env.validation import require

Policy = Callable[[TensorDictBase], TensorDictBase]


class MarineNavGymEnv(gymnasium.Env[dict[str, Any], Any]):
    """The first vessel of a scenario is the agent; the others follow a policy of their own.

    The episode ends for the agent when its vessel arrives or collides, whatever the others do.
    Observations are a dictionary; ``gymnasium.wrappers.FlattenObservation`` makes a vector of it.

    Args:
        config: the world; the published one by default.
        scenarios: see MarineNavEnv; by default a fresh draw from all levels for every episode.
            ``Curriculum((Level(1, 0, 4, 40.0),))`` is a vessel alone among four obstacles.
        others: ``straight`` (to their goals, without avoidance), ``idle``, or a policy that writes
            ``robots/action`` for all robots; the agent's is written over.
        continuous: whether actions are continuous or indices of thrust-change pairs.

    Raises:
        ConfigError: for a setting that cannot be used.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (as Gymnasium declares it)

    def __init__(
        self,
        config: WorldConfig | None = None,
        *,
        scenarios: Scenarios = None,
        others: str | Policy = "straight",
        continuous: bool = True,
    ) -> None:
        known = callable(others) or others in SCRIPTED
        require(known, "others", others, f"a policy, or one of {', '.join(SCRIPTED)}")
        self._world, self._others = SingleWorld(config, scenarios, continuous), others
        self.observation_space = self._world.observation_space()
        self.action_space = self._world.action_space()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        self._world.restart(seed)
        return self._world.observation(0), {}

    def step(self, action: Any) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Make a control step."""
        world = self._world
        if callable(self._others):
            world.now = self._others(world.now)
        else:
            write_actions(world.now, world.env, self._others)
        actions = world.now.get((GROUP, "action")).clone()
        actions[0, 0] = torch.as_tensor(action)
        world.now.set((GROUP, "action"), actions)
        world.act()
        return world.result(0)
