"""Scenario files: a JSON list of episodes, or a single one, in the published format.

An episode has ``env`` (map, reward and current parameters, cores, obstacles) and ``robots`` (one
list per vessel parameter, start, goal, initial motion, perception). Vessels whose actuators or hull terms differ from
the published ones also have these (``actuators``, one list per field), and the name of the boat. Entries with the
episode under ``config``, as in recordings, are read as well.
"""

import json
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from marinenav_env.config import (
    HULL_TERMS,
    ActuatorConfig,
    RewardConfig,
    ScenarioConfig,
    SensorConfig,
    VesselConfig,
    WeatherConfig,
    WorldConfig,
)
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.scenarios.nodes import MAX_ELEMENTS, Node
from marinenav_env.scenarios.parameters import COMMAND_FIELDS, REWARD_WEIGHT_FIELDS, build_parameters
from marinenav_env.state import Parameters, Scenario
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, require

MAX_MAGNITUDE = 1e6
"""Largest magnitude of a number of a robot, obstacle or core in a file."""
# Settings of a world that episodes in files do not have; of the reward settings, they have only WEIGHTS.
_SCAN_FIELDS = ("scan_beams", "scan_angle", "scan_range", "scan_std")
_FIELDS_NOT_IN_FILES = ("name", "actuators", "duties", "entries", *_SCAN_FIELDS, "scale", "speed_scale")


def _field_by_key(config_type: type, **other: str) -> dict[str, str]:
    """Return a config's fields in files, by their keys there; ``other`` has the keys of fields whose key differs."""
    names = [item.name for item in fields(config_type) if item.name not in _FIELDS_NOT_IN_FILES]
    return {other.get(name, name): name for name in names}


_VESSEL_FIELDS = _field_by_key(VesselConfig, radius="r", detect_radius="detect_r", goal_distance="goal_dis")
_HULL_FIELDS = {name: _VESSEL_FIELDS.pop(name) for name in HULL_TERMS}
_ACTUATOR_FIELDS = _field_by_key(ActuatorConfig)
_SENSOR_FIELDS = _field_by_key(SensorConfig, max_objects="max_obj_num")
_REWARD_FIELDS = {name: name for name in REWARD_WEIGHT_FIELDS}
_MAP_FIELDS = _field_by_key(ScenarioConfig, core_radius="r")
# Keys that are written for other readers and accepted without effect.
_UNUSED_KEYS = {"is_eval_env": True, "angular_speed_max": torch.pi / 2, "angular_speed_penalty": -1.0}
_MOTION = ("start", "goal", "heading", "velocity", "thruster_angle", "thrust")
# Keys of the initial motion, and how many numbers each has per robot (None: a single number, not in a list).
_SIDES = ("init_left_pos", "init_right_pos", "init_left_thrust", "init_right_thrust")
_MOTION_WIDTHS = {"start": 2, "goal": 2, "init_theta": None, "init_velocity_r": 3} | dict.fromkeys(_SIDES)
_ROBOT_KEYS = {*_VESSEL_FIELDS, *_HULL_FIELDS, *_MOTION_WIDTHS, "dt", "N", "perception", "actuators", "boat"}
_ROBOT_KEYS |= {"behaviour", "onset"}
_ENV_KEYS = {*_REWARD_FIELDS, *_MAP_FIELDS, *_UNUSED_KEYS, "seed", "num_robots", "obstacles", "cores"}


@dataclass(frozen=True, eq=False)
class Episode:
    """Scenario and world of one episode in plain numbers, with everything that a scenario file stores."""

    start: list[list[float]]
    """For each robot, x and y of the start (m)."""
    goal: list[list[float]]
    """For each robot, x and y of the goal (m)."""
    heading: list[float]
    """For each robot, the initial yaw (rad)."""
    velocity: list[list[float]]
    """For each robot, the initial velocity relative to the water (m/s, m/s, rad/s; world frame)."""
    thruster_angle: list[list[float]]
    """For each robot, the initial angles of the left and right thruster (rad)."""
    thrust: list[list[float]]
    """For each robot, the initial thrust of the left and right thruster (N)."""
    obstacles: list[list[float]] = field(default_factory=list)
    """For each obstacle, x, y and radius (m)."""
    cores: list[list[float]] = field(default_factory=list)
    """For each vortex core, x, y (m) and circulation (m^2/s), positive for clockwise."""
    world: WorldConfig = field(default_factory=WorldConfig)
    """Configuration of the world; scenario files store its vessels, sensors, reward, map and time step."""
    seed: int = 0
    """Seed that the scenario was drawn from, stored for information only."""
    behaviour: list[str] = field(default_factory=list)
    """For each robot, what it does instead of obeying actions, such as "stop" (levels.BEHAVIOURS), or "" if actions
    control it; an empty list if actions control all."""
    onset: list[float] = field(default_factory=list)
    """For each robot, the time at which its behaviour begins (s); empty without behaviours."""
    states_penalty: bool = field(default=True, compare=False)
    """True if the file states the collision penalty; otherwise training uses a different default."""

    def __eq__(self, other: object) -> bool:
        """Return whether episodes are equal; one number for all robots equals a list of that number, as in files."""
        if not isinstance(other, Episode):
            return NotImplemented
        names = [item.name for item in fields(self) if item.compare and item.name != "world"]
        same = all(getattr(self, name) == getattr(other, name) for name in names)
        return same and self._world_values() == other._world_values()

    def _world_values(self) -> dict[str, Any]:
        """Return the settings of the world, as lists of one value per robot wherever robots may differ."""
        world, count = self.world, len(self.start)
        parts = (
            (world.vessel, {*_VESSEL_FIELDS.values(), *_HULL_FIELDS}),
            (world.vessel.actuators, {*_ACTUATOR_FIELDS}),
            (world.sensor, {*_SENSOR_FIELDS.values()}),
        )
        vessel, actuators, sensor = (
            vars(config) | _per_robot_lists(config, {name: name for name in names - set(COMMAND_FIELDS)}, count)
            for config, names in parts
        )
        return vars(world) | {"vessel": vessel | {"actuators": actuators}, "sensor": sensor}


def _per_robot_lists(config: Any, names: dict[str, str], count: int) -> dict[str, list[Any]]:
    """Return config fields as lists of one value for each of ``count`` robots; ``names`` has the fields by the keys."""
    values = {name: getattr(config, field_name) for name, field_name in names.items()}
    return {
        name: list(value[:count]) if isinstance(value, tuple) else [value] * count for name, value in values.items()
    }


def _numbers(node: Node, count: int | None = None, width: int | None = None, low: float = -MAX_MAGNITUDE) -> list[Any]:
    """Return a list of ``count`` (None: any) numbers, or of lists of ``width`` numbers."""
    items = node.items(count or 0, MAX_ELEMENTS if count is None else count)
    if width is not None:
        return [_numbers(item, width) for item in items]
    return [item.number(low, MAX_MAGNITUDE) for item in items]


def _shared_value(node: Node, count: int) -> Any:
    """Return the value that all robots share."""
    values = [item.value for item in node.items(count, count)]
    if any(value != values[0] for value in values):
        raise node.error_for("equal for all robots")
    return values[0]


def _config_of_robots(config_type: type, names: dict[str, str], section: Node, count: int, **parts: Any) -> Any:
    """Make a config from lists with one value for each robot; ``names`` has its fields by the keys of the section."""
    known = section.keys() & names.keys()
    stated = {name: Node(section.value[name], f"{section.place}.{name}") for name in names if name in known}
    values = {names[name]: [item.value for item in node.items(count, count)] for name, node in stated.items()}
    return _make_config(config_type, json.dumps(values, default=float), **parts)


@lru_cache(maxsize=256)
def _make_config(config_type: type, values: str, **parts: Any) -> Any:
    """Build a config from the JSON text of its fields and from the fields ``parts``."""
    # Cached, because most episodes of a file share the config and its checks take time.
    return config_type(**json.loads(values), **parts)


def _config_of_env(config_type: type, names: dict[str, str], env: Node) -> Any:
    """Make a config from the keys ``names`` of a section that all robots share."""
    values = {field_name: env.value[name] for name, field_name in names.items() if name in env.value}
    return _make_config(config_type, json.dumps(values, default=float))


def _read_discs(discs: Node, size: str) -> list[list[float]]:
    """Return the positions and the sizes, whose key is ``size``, of obstacles or cores as a list of [x, y, size]."""
    positions = _numbers(discs.require("positions"), width=2)
    sizes = _numbers(discs.require(size), len(positions), low=0.0)
    return [[*position, value] for position, value in zip(positions, sizes, strict=True)]


def _read_behaviours(robots: Node, count: int) -> tuple[list[str], list[float]]:
    """Return the names of behaviours ("": none) and their onsets (s) of robots; both empty without behaviours."""
    stated, onset = (Node(robots.value.get(key, []), f"{robots.place}.{key}") for key in ("behaviour", "onset"))
    names = [node.value for node in stated.items(count, count)] if stated.value != [] else []
    if not all(name in ("", *BEHAVIOURS) for name in names) or (names and "" not in names):
        raise stated.error_for(f"a list of names, each empty (one or more) or one of {', '.join(BEHAVIOURS)}")
    return names, _numbers(onset, len(names))


def _unknown_keys(section: Node, prefix: str, known: Collection[str]) -> set[str]:
    """Return the names of the keys of a section that are not ``known``, with a prefix."""
    return {f"{prefix}.{name}" for name in section.keys() - set(known)}


def _read_world(env: Node, robots: Node, count: int, unknown: set[str]) -> WorldConfig:
    """Return the configuration of the world of an episode, and add the names of unknown keys to ``unknown``."""
    perception, boat = robots.require("perception"), robots.get("boat")
    actuators = robots.get("actuators") or Node({}, f"{robots.place}.actuators")
    unknown |= _unknown_keys(perception, "robots.perception", _SENSOR_FIELDS)
    unknown |= _unknown_keys(actuators, "robots.actuators", _ACTUATOR_FIELDS)
    dt, substeps, *commands = (_shared_value(robots.require(name), count) for name in ("dt", "N", *COMMAND_FIELDS))
    for name, command in zip(COMMAND_FIELDS, commands, strict=True):
        _numbers(Node(command, f"{robots.place}.{name}[0]"))
    vessel = _config_of_robots(
        VesselConfig,
        {name: item for name, item in (_VESSEL_FIELDS | _HULL_FIELDS).items() if name not in COMMAND_FIELDS},
        robots,
        count,
        **dict(zip(COMMAND_FIELDS, map(tuple, commands), strict=True)),
        name=VesselConfig.name if boat is None else boat.text(),
        actuators=_config_of_robots(ActuatorConfig, _ACTUATOR_FIELDS, actuators, count),
    )
    world: WorldConfig = _make_config(
        WorldConfig,
        json.dumps({"dt": dt, "substeps": substeps}, default=float),
        vessel=vessel,
        sensor=_config_of_robots(SensorConfig, _SENSOR_FIELDS, perception, count),
        reward=_config_of_env(RewardConfig, _REWARD_FIELDS, env),
        scenario=_config_of_env(ScenarioConfig, _MAP_FIELDS, env),
    )
    return world


def _parse_episode(entry: Any, key: str, unknown: set[str]) -> Episode:
    """Parse one entry of a scenario file, named ``key`` in errors, and add the names of unknown keys to ``unknown``."""
    root = Node(entry, key)
    root = root.get("config") or root
    env, robots = root.require("env"), root.require("robots")
    count = len(robots.require("start").items(1, MAX_ELEMENTS))
    stated, seed = env.get("num_robots"), env.get("seed")
    if stated is not None and stated.value != count:
        raise stated.error_for(f"{count}, the number of robots given")
    if seed is not None and not is_nonnegative_int(seed.value):
        raise seed.error_for("a whole number from 0")
    start, goal, heading, velocity, *sides = (
        _numbers(robots.require(name), count, width) for name, width in _MOTION_WIDTHS.items()
    )
    behaviour, onset = _read_behaviours(robots, count)
    cores, turns = _read_discs(env.require("cores"), "Gamma"), env.require("cores").require("clockwise").items()
    flags = [turn.value for turn in turns]
    are_flags = len(flags) == len(cores) and all(flag in (True, False) for flag in flags)
    require(are_flags, f"{env.place}.cores.clockwise", flags, f"a list of {len(cores)} truth values")
    unknown |= _unknown_keys(robots, "robots", _ROBOT_KEYS) | _unknown_keys(env, "env", _ENV_KEYS)
    return Episode(
        start,
        goal,
        heading,
        velocity,
        thruster_angle=[list(pair) for pair in zip(*sides[:2], strict=True)],
        thrust=[list(pair) for pair in zip(*sides[2:], strict=True)],
        obstacles=_read_discs(env.require("obstacles"), "r"),
        cores=[[x, y, gamma if flag else -gamma] for (x, y, gamma), flag in zip(cores, flags, strict=True)],
        world=_read_world(env, robots, count, unknown),
        seed=0 if seed is None else seed.value,
        behaviour=behaviour,
        onset=onset,
        states_penalty="collision_penalty" in env.value,
    )


def parse_scenarios(entries: Any, name: str = "scenarios") -> list[Episode]:
    """Return the episodes in the parsed JSON of a scenario file of this project, a list of episodes or a single one.

    Unknown keys are ignored, with one warning that names them; ``name`` is the source of the content, for messages.
    """
    entries = [entries] if isinstance(entries, dict) and entries else entries
    has_entries = isinstance(entries, list) and len(entries) > 0
    require(has_entries, name, type(entries).__name__, "a JSON list of at least one episode")
    unknown: set[str] = set()
    episodes = []
    for number, entry in enumerate(entries):
        key = f"{name}[{number}]"
        try:
            episodes.append(_parse_episode(entry, key, unknown))
        except (TypeError, ValueError) as error:  # such as ConfigError
            text = str(error)
            raise ConfigError(text if text.startswith(key) else f"{key}: {text}") from error
    if unknown:
        warnings.warn(f"{name}: left out unknown keys {sorted(unknown)}", stacklevel=3)
    return episodes


def _episode_object(episode: Episode) -> dict[str, Any]:
    """Convert an episode to a JSON object, the inverse of ``_parse_episode``."""
    count, world = len(episode.start), episode.world
    sides = [[pair[side] for pair in pairs] for pairs in (episode.thruster_angle, episode.thrust) for side in (0, 1)]
    robots: dict[str, Any] = {
        "dt": [world.dt] * count,
        "N": [world.substeps] * count,
        **_per_robot_lists(world.vessel, _VESSEL_FIELDS, count),
        **{name: [list(getattr(world.vessel, name))] * count for name in COMMAND_FIELDS},
        "start": episode.start,
        "goal": episode.goal,
        "init_theta": episode.heading,
        "init_velocity_r": episode.velocity,
        **dict(zip(_SIDES, sides, strict=True)),
        "perception": _per_robot_lists(world.sensor, _SENSOR_FIELDS, count),
    }
    if world.vessel.needs_actuator_parameters:
        actuators = _per_robot_lists(world.vessel.actuators, _ACTUATOR_FIELDS, count)
        robots |= _per_robot_lists(world.vessel, _HULL_FIELDS, count)
        robots |= {"boat": world.vessel.name, "actuators": actuators}
    if episode.behaviour:
        robots |= {"behaviour": episode.behaviour, "onset": episode.onset}
    env = {
        "seed": episode.seed,
        "num_robots": count,
        **_UNUSED_KEYS,
        **{name: getattr(world.scenario, field_name) for name, field_name in _MAP_FIELDS.items()},
        **{name: getattr(world.reward, field_name) for name, field_name in _REWARD_FIELDS.items()},
        "cores": {
            "positions": [core[:2] for core in episode.cores],
            "clockwise": [core[2] > 0.0 for core in episode.cores],
            "Gamma": [abs(core[2]) for core in episode.cores],
        },
        "obstacles": {
            "positions": [disc[:2] for disc in episode.obstacles],
            "r": [disc[2] for disc in episode.obstacles],
        },
    }
    return {"env": env, "robots": robots}


def write_scenarios(path: str | Path, episodes: Sequence[Episode]) -> None:
    """Write a scenario file, from which ``read_scenarios`` reads equal episodes, to a path."""
    Path(path).write_text(scenario_text(episodes), encoding="utf-8")


def scenario_text(episodes: Sequence[Episode]) -> str:
    """Return the JSON text of a scenario file with the given episodes."""
    are_episodes = isinstance(episodes, Sequence) and all(isinstance(episode, Episode) for episode in episodes)
    require(are_episodes and len(episodes) > 0, "episodes", episodes, "a list of one Episode or more")
    return json.dumps([_episode_object(episode) for episode in episodes]) + "\n"


def map_per_robot(world: WorldConfig, change: Callable[[tuple[float, ...]], tuple[float, ...]]) -> WorldConfig:
    """Return a world with the function ``change`` applied to every tuple that has one value per robot."""

    def changes(config: Any) -> dict[str, Any]:
        return {
            name: change(value)
            for name, value in vars(config).items()
            if isinstance(value, tuple) and name not in (*COMMAND_FIELDS, "entries")
        }

    vessel, actuators = changes(world.vessel), changes(world.vessel.actuators)
    if actuators:
        vessel["actuators"] = replace(world.vessel.actuators, **actuators)
    sensor = replace(world.sensor, **changes(world.sensor))
    return replace(world, vessel=replace(world.vessel, **vessel), sensor=sensor)


def episodes_from_scenarios(scenarios: Scenario, config: WorldConfig, seed: int = 0) -> list[Episode]:
    """Convert scenarios, batch [P], that were drawn for a world from a seed to episodes that can be written."""
    return [_episode_from_scenario(scenario, config, seed) for scenario in scenarios.cpu()]


def _episode_from_scenario(scenario: Scenario, config: WorldConfig, seed: int) -> Episode:
    """Convert one scenario, batch [], to an episode."""
    robot, core = scenario.robot_mask, scenario.core_circulation != 0.0
    kept = robot.nonzero().squeeze(-1).tolist()
    circles = torch.cat((scenario.obstacle_position, scenario.obstacle_radius[:, None]), -1)
    vortices = torch.cat((scenario.core_position, scenario.core_circulation[:, None]), -1)
    behaviour, onset = _behaviours_and_onsets(scenario)
    return Episode(
        **{name: scenario.get(name)[robot].tolist() for name in _MOTION},
        obstacles=circles[scenario.obstacle_mask].tolist(),
        cores=vortices[core].tolist(),
        world=map_per_robot(config, lambda value: tuple(value[index] for index in kept)),
        seed=seed,
        behaviour=behaviour,
        onset=onset,
    )


def _behaviours_and_onsets(scenario: Scenario) -> tuple[list[str], list[float]]:
    """Return the behaviours of one scenario's robots by name ("": none), and their onsets (s); empty without any."""
    robot, scripted = scenario.robot_mask, scenario.scripted
    if scripted is None or not scripted[robot].any():
        return [], []
    code = torch.zeros_like(robot, dtype=torch.int64) if scenario.behaviour is None else scenario.behaviour
    onset = torch.zeros_like(scenario.heading) if scenario.onset is None else scenario.onset
    pairs = zip(code[robot].tolist(), scripted[robot].tolist(), strict=True)
    return [BEHAVIOURS[index] if flag else "" for index, flag in pairs], onset[robot].tolist()


def single_vessel_episode(episode: Episode, slot: int) -> Episode:
    """Return an episode with only the vessel of one slot (its index), which actions control."""
    alone: dict[str, Any] = {name: [getattr(episode, name)[slot]] for name in _MOTION}
    world = map_per_robot(episode.world, lambda values: (values[slot],))
    return replace(episode, **alone, behaviour=[], onset=[], world=world)


def config_for_batch(config: WorldConfig, episodes: Sequence[Episode]) -> WorldConfig:
    """Return ``config`` with the time step and the number of object slots that a batch of episodes requires."""
    worlds = [episode.world for episode in episodes]
    steps = {(world.dt, world.substeps) for world in worlds}
    require(len(steps) == 1, "dt, N", sorted(steps), "the same in all episodes of a batch")
    dt, substeps = steps.pop()
    slots = max(config.sensor.slots, *(world.sensor.slots for world in worlds))
    sensor = replace(config.sensor, max_objects=slots)
    return replace(config, dt=dt, substeps=substeps, sensor=sensor)


def with_weather(episodes: Sequence[Episode], weather: WeatherConfig) -> Sequence[Episode]:
    """Return episodes with the given weather where they have the default one, as all episodes of files have."""
    calm = WeatherConfig()
    if weather == calm:
        return episodes

    @cache
    def exposed(world: WorldConfig) -> WorldConfig:
        return replace(world, weather=weather) if world.weather == calm else world

    return [replace(episode, world=exposed(episode.world)) for episode in episodes]


def overridden_settings(episodes: Iterable[Episode], config: WorldConfig) -> list[str]:
    """Return the names of settings of a world, not at their default, that episodes override with their own."""
    sections = {"vessel": _VESSEL_FIELDS | _HULL_FIELDS, "vessel.actuators": _ACTUATOR_FIELDS}
    sections |= {"sensor": _SENSOR_FIELDS, "reward": _REWARD_FIELDS}
    names = [f"{section}.{name}" for section, fields_ in sections.items() for name in fields_.values()]
    worlds, defaults = {episode.world for episode in episodes}, WorldConfig()

    def differs(value: Any, other: Any) -> bool:
        if isinstance(other, tuple) and not isinstance(value, tuple):
            return set(other) != {value}
        has_fewer = isinstance(other, tuple) and len(other) < len(value)
        return bool((value[: len(other)] if has_fewer else value) != other)

    getters = {name: attrgetter(name) for name in ("dt", "substeps", *names)}
    changed = {name: read for name, read in getters.items() if read(config) != read(defaults)}
    return [name for name, read in changed.items() if any(differs(read(config), read(world)) for world in worlds)]


def stack_episodes(
    episodes: Sequence[Episode], device: torch.device, dtype: torch.dtype
) -> tuple[Scenario, Parameters, Tensor]:
    """Convert N episodes to padded scenarios and parameters, batch [N], and von Mises quantiles [rows, points]."""

    def padded(name: str, *width: int) -> Tensor:
        rows = [torch.tensor(getattr(episode, name), dtype=dtype) for episode in episodes]
        full = pad_sequence([row.reshape(-1, *width) for row in rows], batch_first=True)
        return full.to(device)

    def exists(name: str) -> Tensor:
        rows = [torch.ones(len(getattr(episode, name)), dtype=torch.bool) for episode in episodes]
        return pad_sequence(rows, batch_first=True).to(device)

    circles, vortices = padded("obstacles", 3), padded("cores", 3)
    robot_mask = exists("start")
    robots = robot_mask.shape[1]
    scripted, behaviour, onset = _stack_behaviours(episodes, robots, device, dtype)
    scenario = Scenario(
        goal=padded("goal", 2),
        start=padded("start", 2),
        heading=padded("heading"),
        velocity=padded("velocity", 3),
        thrust=padded("thrust", 2),
        thruster_angle=padded("thruster_angle", 2),
        robot_mask=robot_mask,
        obstacle_position=circles[..., :2],
        obstacle_radius=circles[..., 2],
        obstacle_mask=exists("obstacles"),
        core_position=vortices[..., :2],
        core_circulation=vortices[..., 2],
        level=torch.zeros(len(episodes), dtype=torch.int64, device=device),
        scripted=scripted,
        behaviour=behaviour,
        onset=onset,
        batch_size=[len(episodes)],
    )
    return scenario, *build_parameters(padded_worlds(episodes, robots), robots, device, dtype)


def _stack_behaviours(
    episodes: Sequence[Episode], robots: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return masks of scripted robots, indices in BEHAVIOURS and onsets (s), [N, robots]; all None without any."""
    if not any(episode.behaviour for episode in episodes):
        return None, None, None
    code = torch.full((len(episodes), robots), -1)  # -1 for robots that actions control
    onset = torch.zeros(len(episodes), robots, dtype=dtype)
    for row, episode in enumerate(episodes):
        count = len(episode.behaviour)
        code[row, :count] = torch.tensor([BEHAVIOURS.index(name) if name else -1 for name in episode.behaviour])
        onset[row, :count] = torch.tensor(episode.onset or 0.0, dtype=dtype)
    return (code >= 0).to(device), code.clamp_min(0).to(device), onset.to(device)


def padded_worlds(episodes: Sequence[Episode], robots: int) -> list[WorldConfig]:
    """Return the worlds of episodes, with per-robot values for ``robots`` slots: the last one is repeated as needed."""

    @cache
    def filled(world: WorldConfig) -> WorldConfig:
        return map_per_robot(world, lambda value: value + value[-1:] * (robots - len(value)))

    return [filled(episode.world) for episode in episodes]
