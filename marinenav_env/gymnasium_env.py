"""One vessel as a Gymnasium environment: ``gymnasium.make("MarineNav-v0")``, or ``make_vec``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.env import Scenarios
from marinenav_env.numpy_worlds import METADATA, NumpyWorlds, Results
from marinenav_env.rendering import FPS
from marinenav_env.scripted import SCRIPTED, write_actions
from marinenav_env.specs import GROUP
from marinenav_env.validation import ConfigError, require

Policy = Callable[[TensorDictBase], TensorDictBase]


class _FirstVessels:
    """The first vessel of each world is the agent; the others follow a policy of their own."""

    def __init__(self, worlds: NumpyWorlds, others: str | Policy) -> None:
        known = callable(others) or others in SCRIPTED
        require(known, "others", others, f"a policy, or one of {', '.join(SCRIPTED)}")
        self.worlds, self._others = worlds, others

    def restart(self, seed: int | None) -> None:
        """Begin the next episodes; see NumpyWorlds."""
        self.worlds.restart(seed)
        self._require_agents()

    def begin_next(self, over: NDArray[np.bool_]) -> None:
        """Begin the next episode where ``over`` [E] is true."""
        self.worlds.begin_next(over)
        self._require_agents()

    def _require_agents(self) -> None:
        """Refuse episodes that begin without an agent.

        Raises:
            ConfigError: when the first vessel is missing, or keeps course and speed.
        """
        if not self.worlds.now.get((GROUP, "mask"))[:, 0].all():
            raise ConfigError("scenarios: in each episode there must be a first vessel, the agent, "
                              "which does not keep course and speed")  # fmt: skip

    def step(self, actions: Tensor) -> Results:
        """Make a control step with actions [E, ...]; see NumpyWorlds.result."""
        worlds = self.worlds
        if callable(self._others):
            joint = self._others(worlds.now)
        else:
            joint = write_actions(worlds.now, worlds.env, self._others)
        both = joint.get((GROUP, "action")).clone()
        both[:, 0] = actions
        worlds.act(both)
        return worlds.result(0)


class MarineNavGymEnv(gymnasium.Env[Any, Any]):
    """The first vessel of a scenario is the agent; the others follow a policy of their own.

    The episode ends for the agent when its vessel arrives or collides, whatever the others do.

    Args:
        config: the world; the published one by default.
        scenarios: see MarineNavEnv; by default a fresh draw from all levels for every episode.
            ``Curriculum((Level(1, 0, 4, 40.0),))`` is a vessel alone among four obstacles.
        others: ``straight`` (to their goals, without avoidance), ``idle``, or a policy that writes
            ``robots/action`` for all robots; the agent's is written over.
        continuous: whether actions are continuous or indices of thrust-change pairs.
        flat: whether an observation is one vector instead of a dictionary.
        render_mode: ``rgb_array``, ``human`` or None.
        render_fps: frames a second of the window; see MarineNavEnv.render.

    Raises:
        ConfigError: for a setting that cannot be used.
    """

    metadata = METADATA

    def __init__(
        self,
        config: WorldConfig | None = None,
        *,
        scenarios: Scenarios = None,
        others: str | Policy = "straight",
        continuous: bool = True,
        flat: bool = False,
        render_mode: str | None = None,
        render_fps: float | None = FPS,
    ) -> None:
        self._worlds = NumpyWorlds(config, scenarios, continuous, flat, render_mode, render_fps)
        self._fleet = _FirstVessels(self._worlds, others)
        self.observation_space = self._worlds.observation_space()
        self.action_space = self._worlds.action_space()
        self.render_mode = render_mode

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; there are no options."""
        super().reset(seed=seed)
        self._fleet.restart(seed)
        return self._worlds.only(self._worlds.observation(0)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a control step."""
        return self._worlds.only(self._fleet.step(self._worlds.actions(action, one=True)))

    def render(self) -> Any:
        """Pixels [height, width, 3], if the mode is rgb_array."""
        return self._worlds.render()

    def close(self) -> None:
        """Close the window, if there is one."""
        self._worlds.close()


class MarineNavVectorEnv(VectorEnv[Any, Any, Any]):
    """The same as MarineNavGymEnv in many worlds that are stepped as one batch.

    Where the agent's episode is over, the world starts the next one in the same step; the last
    observation is in ``info["final_obs"]``, as Gymnasium's AutoresetMode.SAME_STEP has it.

    Args:
        num_envs: worlds.
        config: see MarineNavGymEnv, as for what follows.
        scenarios: see there.
        others: see there.
        continuous: see there.
        flat: see there.
        render_mode: see there; the first world is drawn.
        render_fps: see there.
        device: where the worlds are; arrays are on the host.

    Raises:
        ConfigError: for a setting that cannot be used.
    """

    metadata = METADATA | {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self,
        num_envs: int = 1,
        config: WorldConfig | None = None,
        *,
        scenarios: Scenarios = None,
        others: str | Policy = "straight",
        continuous: bool = True,
        flat: bool = False,
        render_mode: str | None = None,
        render_fps: float | None = FPS,
        device: torch.device | str = "cpu",
    ) -> None:
        self._worlds = NumpyWorlds(config, scenarios, continuous, flat, render_mode, render_fps,
                                   num_envs, device)  # fmt: skip
        self._fleet = _FirstVessels(self._worlds, others)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self._worlds.observation_space()
        self.single_action_space = self._worlds.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin episodes in all worlds; there is one seed for all, and there are no options."""
        self._fleet.restart(seed)
        return self._worlds.observation(0), {}

    def step(self, actions: Any) -> Results:
        """Make a control step in all worlds."""
        given = self._worlds.actions(actions, "actions")
        last, reward, terminated, truncated, info = self._fleet.step(given)
        over = terminated | truncated
        if not over.any():
            return last, reward, terminated, truncated, info
        self._fleet.begin_next(over)
        final: NDArray[Any] = np.full(self.num_envs, None, object)
        for row in np.flatnonzero(over):
            final[row] = last[row] if isinstance(last, np.ndarray) else {
                name: each[row] for name, each in last.items()
            }  # fmt: skip
        ends = {"final_obs": final, "final_info": info, "_final_obs": over, "_final_info": over}
        return self._worlds.observation(0), reward, terminated, truncated, info | ends

    def render(self) -> Any:
        """Pixels [height, width, 3] of the first world in a tuple, if the mode is rgb_array."""
        pixels = self._worlds.render()
        return None if pixels is None else (pixels,)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the window, if there is one."""
        self._worlds.close()
