"""PettingZoo parallel environment with all vessels as agents; it needs the extra ``pettingzoo``."""

from collections.abc import Mapping
from typing import Any

from marinenav_env.config import WorldConfig
from marinenav_env.interfaces.numpy_worlds import METADATA, NumpyWorlds
from marinenav_env.pictures.rendering import DEFAULT_FPS
from marinenav_env.specs import GROUP
from marinenav_env.stepping.episode_source import Scenarios
from marinenav_env.support.validation import require

try:
    from pettingzoo import ParallelEnv
except ImportError as error:
    raise ImportError(
        "marinenav_env.interfaces.pettingzoo_env needs PettingZoo; install it with: pip install 'marinenav[pettingzoo]'"
    ) from error


class MarineNavParallelEnv(ParallelEnv[str, dict[str, Any], Any]):
    """PettingZoo parallel environment with the active robots as agents ``robot_0``, ``robot_1``, ....

    An agent whose vessel arrives or collides receives its last observation and leaves; the
    episode ends when no agent is left.

    The arguments are those of MarineNavGymEnv.
    """

    metadata = METADATA | {"name": "marinenav_v0"}

    def __init__(
        self,
        config: WorldConfig | None = None,
        *,
        scenarios: Scenarios = None,
        continuous: bool = True,
        flat: bool = False,
        render_mode: str | None = None,
        render_fps: float = DEFAULT_FPS,
    ) -> None:
        self._world = NumpyWorlds(config, scenarios, continuous, flat, render_mode, render_fps)
        self._index = {f"robot_{robot}": robot for robot in range(self._world.env.num_robots)}
        self.possible_agents = list(self._index)
        self.agents: list[str] = []
        self.observation_spaces = {name: self._world.observation_space() for name in self.possible_agents}
        self.action_spaces = {name: self._world.action_space() for name in self.possible_agents}
        self.render_mode = render_mode

    def observation_space(self, agent: str) -> Any:
        """Return the space of an agent's observations, the same object in every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """Return the space of an agent's actions, the same object in every call."""
        return self.action_spaces[agent]

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Start an episode; return observations and empty ``info`` by agent. ``options`` are ignored."""
        self._world.reset(seed)
        active = self._world.now.get((GROUP, "mask"))[0].tolist()
        self.agents = [name for name, robot in self._index.items() if active[robot]]
        observations = {
            name: self._world.remove_batch_dimension(self._world.observation(self._index[name])) for name in self.agents
        }
        return observations, {name: {} for name in self.agents}

    def step(
        self, actions: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, float], dict[str, bool], dict[str, bool], dict[str, Any]]:
        """Make a control step and return its results by agent; all agents must act, other actions have no effect."""
        world, acting = self._world, self.agents
        world.require_reset()
        names = ", ".join(self.possible_agents)
        has_agents = isinstance(actions, Mapping) and actions.keys() <= self._index.keys()
        require(has_agents, "actions", actions, f"a dictionary of actions by agent, of {names}")
        missing = [name for name in acting if name not in actions]
        require(not missing, "actions", sorted(actions), f"of all agents, also {missing}")
        joint: Any = world.env.action_spec.zero().get((GROUP, "action"))
        for name in acting:
            joint[:, self._index[name]] = world.actions(actions[name], f"actions[{name!r}]", unbatched=True)
        world.step_all(joint)
        results = {name: world.remove_batch_dimension(world.result(self._index[name])) for name in acting}
        columns: Any = ({name: row[column] for name, row in results.items()} for column in range(5))
        observations, rewards, terminated, truncated, infos = columns
        self.agents = [name for name in acting if not (terminated[name] or truncated[name])]
        return observations, rewards, terminated, truncated, infos

    def render(self) -> Any:
        """Return pixels [height, width, 3] if ``render_mode`` is rgb_array, else None."""
        return self._world.render()

    def close(self) -> None:
        """Close the world and its window, if there is one."""
        self._world.close()
