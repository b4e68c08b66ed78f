"""Gymnasium environments with one vessel as the agent: ``gymnasium.make("MarineNav-v0")``, or ``make_vec``."""

from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
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
from marinenav_env.interfaces.numpy_worlds import METADATA, NumpyWorlds, Results
from marinenav_env.interfaces.scripted import SCRIPTED_POLICIES, write_actions
from marinenav_env.physics.actuators import THRUSTERS
from marinenav_env.pictures.rendering import DEFAULT_FPS
from marinenav_env.sensing.entries import Entry
from marinenav_env.specs import GROUP
from marinenav_env.stepping.actions import check_shape_and_dtype
from marinenav_env.stepping.episode_source import Scenarios
from marinenav_env.support.seeds import as_seed
from marinenav_env.support.validation import ConfigError, require

Policy = Callable[[TensorDictBase], TensorDictBase]
"""Function that writes the actions of all robots, ``robots/action``, into the output of MarineNavEnv and returns it."""


class _FirstVesselWorlds(NumpyWorlds):
    """Worlds in which the first vessel is the agent and the others follow another policy."""

    def __init__(self, others: str | Policy, *settings: Any) -> None:
        super().__init__(*settings)
        is_policy = callable(others) or others in SCRIPTED_POLICIES
        require(is_policy, "others", others, f"a policy, or one of {', '.join(SCRIPTED_POLICIES)}")
        extras = self.env.constants.extras
        if others == "straight" and self.env.num_robots > 1 and extras is not None:
            has_thrusters = not (extras.steering != THRUSTERS).any()
            allowed = "a policy, or idle, for vessels with a rudder or an azimuth thruster"
            require(has_thrusters, "others", others, allowed)
        self._others = others

    def observation(self, robot: int) -> Any:
        """Return observations like NumpyWorlds.observation; raise ConfigError if a new episode has no agent."""
        is_new, has_agent = self.env.state.steps == 0, self.now.get((GROUP, "mask"))[:, 0]
        if not (has_agent | ~is_new).all():
            allowed = "there must be a first vessel, the agent, which does not keep course and speed"
            raise ConfigError(f"scenarios: in each episode {allowed}")
        return super().observation(robot)

    def step(self, actions: Tensor) -> Results:
        """Make a control step with the agents' actions, [E, 2] or [E], and return the agents' results."""
        env, others = self.env, self._others
        joint = others(self.now) if callable(others) else write_actions(self.now, env, others)
        policy_actions: Any = None if joint is None else joint.get((GROUP, "action"), None)
        check_shape_and_dtype(policy_actions, env.state.active.shape, env.continuous)
        # The policy's actions may have an integer type.
        all_actions = policy_actions.to(env.dtype if env.continuous else torch.int64, copy=True)
        all_actions[:, 0] = actions
        self.step_all(all_actions)
        return self.result(0)


class MarineNavGymEnv(gymnasium.Env[Any, Any]):
    """Gymnasium environment in which the first vessel is the agent and the others follow another policy.

    The agent's episode is terminated when its vessel arrives or collides, regardless of the others.

    Args:
        config: configuration of the world; by default the published one.
        scenarios: scenarios, as in MarineNavEnv; by default a new one of any level for every
            episode. ``Curriculum((Level(1, 0, 4, 40.0),))`` is one vessel among four obstacles.
        others: ``straight`` (to their goals, without avoidance), ``idle``, or a policy that writes
            ``robots/action`` for all robots; the agent's own action replaces the one of the policy.
        continuous: True for continuous actions, False for indices of thrust-change pairs.
        flat: True for observations as one vector, False for a dictionary.
        render_mode: ``rgb_array``, ``human`` or None.
        render_fps: frames per second of the window, as in MarineNavEnv.render.
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
        render_fps: float = DEFAULT_FPS,
    ) -> None:
        self._worlds = _FirstVesselWorlds(others, config, scenarios, continuous, flat, render_mode, render_fps)
        self.observation_space = self._worlds.observation_space()
        self.action_space = self._worlds.action_space()
        self.render_mode = render_mode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode and return its observation and an empty ``info``; ``options`` are ignored."""
        seed = None if seed is None else as_seed(seed)
        super().reset(seed=seed)
        self._worlds.reset(seed)
        return self._worlds.remove_batch_dimension(self._worlds.observation(0)), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make a control step; return observation, reward, terminated, truncated and ``info`` of the agent."""
        return self._worlds.remove_batch_dimension(self._worlds.step(self._worlds.actions(action, unbatched=True)))

    def render(self) -> Any:
        """Return pixels [height, width, 3] if ``render_mode`` is rgb_array, else None."""
        return self._worlds.render()

    def close(self) -> None:
        """Close the world and its window, if there is one."""
        self._worlds.close()


class MarineNavVectorEnv(VectorEnv[Any, Any, Any]):
    """Gymnasium vector environment of many worlds like MarineNavGymEnv, stepped as one batch.

    Where the agent's episode is over, the next one starts in the same step (Gymnasium's ``AutoresetMode.SAME_STEP``),
    with the last observation in ``info["final_obs"]``.

    The further arguments are those of MarineNavGymEnv; the first world is drawn.

    Args:
        num_envs: number of worlds E.
        device: device of the worlds; arrays are on the host.
        max_episode_steps: number of control steps after which episodes are truncated, if smaller than
            ``config.max_steps``.
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
        render_fps: float = DEFAULT_FPS,
        device: torch.device | str = "cpu",
        max_episode_steps: int | None = None,
    ) -> None:
        config = _limit_steps(config or WorldConfig(), max_episode_steps)
        settings = config, scenarios, continuous, flat, render_mode, render_fps, num_envs, device
        self._worlds = _FirstVesselWorlds(others, *settings)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self._worlds.observation_space()
        self.single_action_space = self._worlds.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def entries(self) -> dict[str, Entry]:
        """Descriptions of the entries of an observation by name, as in MarineNavEnv."""
        return self._worlds.env.entries

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start episodes in all worlds; return observations and an empty ``info``. ``options`` are ignored.

        The seed is one number, or a list with one per world, from which one common seed is derived.
        """
        self._worlds.reset(seed)
        return self._worlds.observation(0), {}

    def step(self, actions: Any) -> Results:
        """Make a control step in all worlds; return observations, rewards, terminated, truncated and ``info``."""
        last, reward, terminated, truncated, info = self._worlds.step(self._worlds.actions(actions, "actions"))
        info |= {f"_{name}": np.ones(self.num_envs, np.bool_) for name in info}
        over = terminated | truncated
        if over.any():
            info |= self._final(last, info, over)
            self._worlds.start_episodes(over)
            last = self._worlds.observation(0)
        return last, reward, terminated, truncated, info

    def _final(self, last: Any, info: dict[str, Any], over: NDArray[np.bool_]) -> dict[str, Any]:
        """Return Gymnasium's final_obs and final_info, with masks, of the worlds whose episode is ``over`` [E]."""
        final: NDArray[Any] = np.full(self.num_envs, None, object)
        for row in np.flatnonzero(over):
            is_flat = isinstance(last, np.ndarray)
            final[row] = last[row] if is_flat else {name: values[row] for name, values in last.items()}
        final_info = {name: np.where(over, values, np.zeros_like(values)) for name, values in info.items()}
        return {"final_obs": final, "final_info": final_info, "_final_obs": over, "_final_info": over}

    def render(self) -> Any:
        """Return a tuple of the pixels [height, width, 3] of the first world if the mode is rgb_array, else None."""
        pixels = self._worlds.render()
        return None if pixels is None else (pixels,)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the worlds and their window, if there is one; keyword arguments are ignored."""
        self._worlds.close()


def _limit_steps(config: WorldConfig, steps: int | None) -> WorldConfig:
    """Return a configuration whose episodes end after at most ``steps`` control steps; None: unchanged."""
    if steps is None:
        return config
    is_positive = isinstance(steps, Integral) and not isinstance(steps, bool) and steps > 0
    require(is_positive, "max_episode_steps", steps, "a whole number, at least 1")
    return replace(config, max_steps=min(config.max_steps, int(steps)))
