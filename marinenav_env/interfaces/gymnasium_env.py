"""One vessel as a Gymnasium environment: ``gymnasium.make("MarineNav-v0")``, or ``make_vec``."""

from __future__ import annotations

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
from marinenav_env.env import Scenarios
from marinenav_env.interfaces.numpy_worlds import METADATA, NumpyWorlds, Results
from marinenav_env.interfaces.scripted import SCRIPTED, write_actions
from marinenav_env.pictures.rendering import FPS
from marinenav_env.sensing.entries import Entry
from marinenav_env.specs import GROUP
from marinenav_env.stepping.actions import check_form
from marinenav_env.support.seeds import as_seed
from marinenav_env.support.validation import ConfigError, is_count, require

Policy = Callable[[TensorDictBase], TensorDictBase]


class _FirstVessels:
    """The first vessel of each world is the agent; the others follow a policy of their own."""

    def __init__(self, worlds: NumpyWorlds, others: str | Policy) -> None:
        known = callable(others) or others in SCRIPTED
        require(known, "others", others, f"a policy, or one of {', '.join(SCRIPTED)}")
        self.worlds, self._others = worlds, others

    def restart(self, seed: Any) -> None:
        """Begin the next episodes; see NumpyWorlds."""
        self.worlds.restart(seed)
        self._require_agents(np.ones(self.worlds.env.num_envs, np.bool_))

    def begin_next(self, over: NDArray[np.bool_]) -> None:
        """Begin the next episode where ``over`` [E] is true."""
        self.worlds.begin_next(over)
        self._require_agents(over)

    def _require_agents(self, begun: NDArray[np.bool_]) -> None:
        """Refuse episodes that begin without an agent.

        Args:
            begun: [E] bool: the worlds in which one begins.

        Raises:
            ConfigError: when the first vessel is missing, or keeps course and speed.
        """
        if not self.worlds.now.get((GROUP, "mask"))[:, 0].cpu().numpy()[begun].all():
            raise ConfigError(
                "scenarios: in each episode there must be a first vessel, the agent, "
                "which does not keep course and speed"
            )

    def step(self, actions: Tensor) -> Results:
        """Make a control step with actions [E, ...]; see NumpyWorlds.result."""
        worlds = self.worlds
        if callable(self._others):
            joint = self._others(worlds.now)
        else:
            joint = write_actions(worlds.now, worlds.env, self._others)
        given: Any = None if joint is None else joint.get((GROUP, "action"), None)
        env = worlds.env
        check_form(given, env.state.active.shape, env.continuous)
        # The policy's type may hold whole numbers only.
        both = given.to(env.dtype if env.continuous else torch.int64, copy=True)
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

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; there are no options."""
        seed = None if seed is None else as_seed(seed)
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

    Where the agent's episode is over, the next one starts as Gymnasium's AutoresetMode says: in the
    same step, with the last observation in ``info["final_obs"]``; in the next step, whose action is
    then ignored; or by ``reset(options={"reset_mask": [E] bool})``.

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
        max_episode_steps: control steps after which episodes are truncated, if these are fewer than
            ``config.max_steps``.
        autoreset_mode: when the next episodes start.

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
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.SAME_STEP,
    ) -> None:
        modes = {name: mode for mode in AutoresetMode for name in (mode.name, mode.value)}
        named: Any = getattr(autoreset_mode, "value", autoreset_mode)
        known = isinstance(named, str) and named in modes
        values = ", ".join(mode.value for mode in AutoresetMode)
        require(known, "autoreset_mode", autoreset_mode, f"one of {values}")
        fine = isinstance(num_envs, Integral) and not isinstance(num_envs, bool) and num_envs > 0
        require(fine, "num_envs", num_envs, "a whole number, at least 1")
        config = _shorter(config or WorldConfig(), max_episode_steps)
        self._worlds = NumpyWorlds(config, scenarios, continuous, flat, render_mode, render_fps, num_envs, device)
        self._fleet = _FirstVessels(self._worlds, others)
        self._mode = modes[named]
        self.metadata = METADATA | {"autoreset_mode": self._mode}
        self._over = np.zeros(num_envs, np.bool_)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self._worlds.observation_space()
        self.single_action_space = self._worlds.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @property
    def entries(self) -> dict[str, Entry]:
        """The entries of an observation by name, see MarineNavEnv."""
        return self._worlds.env.entries

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin episodes.

        Args:
            seed: one for all worlds, or a list with one for each, from which the one stream of all
                of them follows.
            options: ``reset_mask``: [E] bool, worlds in which an episode begins; by default in all.
        """
        mask = (options or {}).get("reset_mask")
        if mask is None:
            self._fleet.restart(seed)
            self._over[:] = False
        else:
            fine = isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and seed is None
            require(
                fine and mask.shape == self._over.shape,
                "reset_mask",
                mask,
                f"an array of {self.num_envs} truth values, without a seed",
            )
            self._fleet.begin_next(mask)
            self._over &= ~mask
        return self._worlds.observation(0), {}

    def step(self, actions: Any) -> Results:
        """Make a control step in all worlds."""
        given, begin = self._worlds.actions(actions, "actions"), self._over.copy()
        fine = self._mode != AutoresetMode.DISABLED or not begin.any()
        require(fine, "reset", f"of worlds {np.flatnonzero(begin).tolist()}", "called where an episode is over")
        given[torch.from_numpy(begin)] = 0
        last, reward, terminated, truncated, info = self._fleet.step(given)
        if begin.any():
            self._fleet.begin_next(begin)
            last = self._worlds.observation(0)
            reward, terminated, truncated = (
                np.where(begin, np.zeros_like(each), each) for each in (reward, terminated, truncated)
            )
            info = _where(~begin, info)
        info |= {f"_{name}": ~begin for name in info}
        over = terminated | truncated
        if self._mode != AutoresetMode.SAME_STEP:
            self._over = over
        elif over.any():
            info |= self._final(last, info, over)
            self._fleet.begin_next(over)
            last = self._worlds.observation(0)
        return last, reward, terminated, truncated, info

    def _final(self, last: Any, info: dict[str, Any], over: NDArray[np.bool_]) -> dict[str, Any]:
        """What ``info`` has of the episodes that are over, under Gymnasium's keys."""
        final: NDArray[Any] = np.full(self.num_envs, None, object)
        for row in np.flatnonzero(over):
            final[row] = last[row] if isinstance(last, np.ndarray) else {name: each[row] for name, each in last.items()}
        own = _where(over, info)
        return {"final_obs": final, "final_info": own, "_final_obs": over, "_final_info": over}

    def render(self) -> Any:
        """Pixels [height, width, 3] of the first world in a tuple, if the mode is rgb_array."""
        pixels = self._worlds.render()
        return None if pixels is None else (pixels,)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the window, if there is one."""
        self._worlds.close()


def _where(mask: NDArray[np.bool_], info: dict[str, Any]) -> dict[str, Any]:
    """Values [E] of some worlds, and 0 or false elsewhere."""
    return {name: np.where(mask, each, np.zeros_like(each)) for name, each in info.items()}


def _shorter(config: WorldConfig, steps: int | None) -> WorldConfig:
    """A configuration whose episodes end after so many control steps; None: as they are."""
    if steps is None:
        return config
    steps = int(steps) if isinstance(steps, np.integer) else steps
    require(is_count(steps) and steps > 0, "max_episode_steps", steps, "a whole number, at least 1")
    return replace(config, max_steps=min(config.max_steps, steps))
