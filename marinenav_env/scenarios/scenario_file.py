"""Scenario files: a JSON list of episodes, or a single one, in the published format.

An episode has ``env`` (map, reward and current parameters, cores, obstacles) and ``robots`` (one
list per vessel parameter, start, goal, initial motion, perception). Vessels whose actuators or hull terms differ from
the published ones also have these (``actuators``, one list per field), and the name of the boat. Entries with the
episode under ``config``, as in recordings, are read as well.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Sequence
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
from marinenav_env.scenarios.parameters import COMMAND_FIELDS, REWARD_WEIGHT_FIELDS, build_parameters
from marinenav_env.state import Parameters, Scenario
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, is_number, is_printable_text, require

MAX_ITEMS = 1000
"""Largest number of robots, of obstacles and of cores of an episode."""
MAX_MAGNITUDE = 1e6
"""Largest magnitude of a number of a robot, obstacle or core in a file."""
# Settings of a world that episodes in files do not have; of the reward settings, they have only WEIGHTS.
_SCAN_FIELDS = ("scan_beams", "scan_angle", "scan_range", "scan_std")
_FIELDS_NOT_IN_FILES = ("name", "actuators", "entries", *_SCAN_FIELDS, "scale", "speed_scale")


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
# Keys of the initial motion, and how many numbers each has per robot (None: a single number, not in a list).
_MOTION_WIDTHS = {
    "start": 2,
    "goal": 2,
    "init_theta": None,
    "init_velocity_r": 3,
    "init_left_pos": None,
    "init_right_pos": None,
    "init_left_thrust": None,
    "init_right_thrust": None,
}


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


# Reading ----------------------------------------------------------------------------------------


def _copied_object(value: Any, key: str) -> dict[str, Any]:
    """Return a copy of a JSON object, or raise ConfigError that names ``key`` if the value is not one."""
    require(isinstance(value, dict), key, value, "a JSON object")
    return dict(value)


def _checked_list(key: str, values: Any, count: int | None = None, width: int | None = None) -> list[Any]:
    """Return a copy of a list, which must have ``count`` (None: any) numbers, or lists of ``width`` numbers."""

    def is_item(value: Any) -> bool:
        if width is None:
            return is_number(value)
        return isinstance(value, list) and len(value) == width and all(map(is_number, value))

    items = "finite numbers" if width is None else f"lists of {width} finite numbers"
    has_items = isinstance(values, list) and count in (None, len(values)) and all(map(is_item, values))
    require(has_items, key, values, f"a list of {items if count is None else f'{count} {items}'}")
    numbers = values if width is None else [number for value in values for number in value]
    is_small = len(values) <= MAX_ITEMS and all(abs(number) <= MAX_MAGNITUDE for number in numbers)
    require(is_small, key, values, f"at most {MAX_ITEMS}, of numbers up to {MAX_MAGNITUDE:g} in size")
    return list(values)


def _shared_value(key: str, values: list[Any]) -> Any:
    """Return the value that all robots share, or raise ConfigError if the values differ."""
    require(len({json.dumps(value) for value in values}) == 1, key, values, "equal for all robots")
    return values[0]


def _pop_config(config_type: type, names: dict[str, str], section: dict[str, Any], **parts: Any) -> Any:
    """Remove the keys of ``names`` (fields by key) from a section; make a config of them and the fields ``parts``."""
    values = {names[name]: section.pop(name) for name in names if name in section}
    return _make_config(config_type, json.dumps(values, default=float), **parts)


@lru_cache(maxsize=256)
def _make_config(config_type: type, values: str, **parts: Any) -> Any:
    """Build a config from the JSON text of its fields and from the fields ``parts``.

    It is cached, because most episodes of a file share the config and its checks take time.
    """
    return config_type(**json.loads(values), **parts)


def _pop_discs(env: dict[str, Any], name: str, size: str, key: str) -> tuple[list[Any], list[Any]]:
    """Remove obstacles or cores from ``env``, and return a list of [x, y, size] and a list of flags: is it clockwise?

    The size of ``name`` (``obstacles`` or ``cores``) has the key ``size``; errors name the episode by ``key``.
    """
    where = f"{key}.env.{name}"
    discs = _copied_object(env.pop(name), where)
    positions = _checked_list(f"{where}.positions", discs["positions"], width=2)
    sizes = _checked_list(f"{where}.{size}", discs[size], len(positions))
    require(all(value >= 0.0 for value in sizes), f"{where}.{size}", sizes, "at least 0")
    turns = discs["clockwise"] if name == "cores" else [True] * len(sizes)
    has_flags = isinstance(turns, list) and len(turns) == len(sizes)
    has_flags = has_flags and all(turn in (True, False) for turn in turns)
    require(has_flags, f"{where}.clockwise", turns, f"a list of {len(sizes)} truth values")
    return [[*position, value] for position, value in zip(positions, sizes, strict=True)], turns


def _pop_behaviours(robots: dict[str, Any], where: str, count: int) -> tuple[list[str], list[float]]:
    """Remove the names of behaviours ("": none) and their onsets (s) of ``count`` robots, and return these lists.

    Both are empty if there are no behaviours.
    """
    names, onset, key = robots.pop("behaviour", []), robots.pop("onset", []), f"{where}.behaviour"
    are_names = isinstance(names, list) and len(names) in (0, count)
    are_names = are_names and all(name in ("", *BEHAVIOURS) for name in names)
    require(are_names, key, names, f"a list of {count} names, each empty or one of {', '.join(BEHAVIOURS)}")
    require(not names or "" in names, key, names, "empty for at least one robot")
    return names, _checked_list(f"{where}.onset", onset, len(names))


def _parse_episode(entry: Any, key: str, unknown: set[str]) -> Episode:
    """Parse one entry of a scenario file, named ``key`` in errors, and add the names of unknown keys to ``unknown``."""
    entry = _copied_object(entry, key)
    entry = _copied_object(entry["config"], f"{key}.config") if "config" in entry else entry
    where = f"{key}.robots"
    env, robots = _copied_object(entry["env"], f"{key}.env"), _copied_object(entry["robots"], where)
    perception = _copied_object(robots.pop("perception"), f"{where}.perception")
    actuators = _copied_object(robots.pop("actuators", {}), f"{where}.actuators")
    boat = robots.pop("boat", VesselConfig.name)
    require(is_printable_text(boat), f"{where}.boat", boat, "a text")
    has_robots = isinstance(robots["start"], list) and len(robots["start"]) > 0
    require(has_robots, f"{where}.start", robots["start"], "a list with at least one robot")
    count = len(robots["start"])
    stated, allowed = env.pop("num_robots", count), f"{count}, the number of robots given"
    require(stated == count, f"{key}.env.num_robots", stated, allowed)
    per_robot = [
        (robots, [*_VESSEL_FIELDS, *_HULL_FIELDS, "dt", "N"], where),
        (actuators, _ACTUATOR_FIELDS, f"{where}.actuators"),
        (perception, _SENSOR_FIELDS, f"{where}.perception"),
    ]
    for section, names, place in per_robot:
        for name in section.keys() & names:
            has_values = isinstance(section[name], list) and len(section[name]) == count
            allowed = f"a list with one value for each of {count}"
            require(has_values, f"{place}.{name}", section[name], allowed)
    for name in COMMAND_FIELDS:
        robots[name] = _shared_value(f"{where}.{name}", robots[name])
        _checked_list(f"{where}.{name}[0]", robots[name])
    seed = env.pop("seed", 0)
    require(is_nonnegative_int(seed), f"{key}.env.seed", seed, "a whole number from 0")
    dt, substeps = (_shared_value(f"{where}.{name}", robots.pop(name)) for name in ("dt", "N"))
    start, goal, heading, velocity, *sides = (
        _checked_list(f"{where}.{name}", robots.pop(name), count, width) for name, width in _MOTION_WIDTHS.items()
    )
    behaviour, onset = _pop_behaviours(robots, where, count)
    obstacles, _ = _pop_discs(env, "obstacles", "r", key)
    cores, clockwise = _pop_discs(env, "cores", "Gamma", key)
    states_penalty = "collision_penalty" in env
    episode = Episode(
        start,
        goal,
        heading,
        velocity,
        thruster_angle=[list(pair) for pair in zip(*sides[:2], strict=True)],
        thrust=[list(pair) for pair in zip(*sides[2:], strict=True)],
        obstacles=obstacles,
        cores=[[x, y, gamma if turn else -gamma] for (x, y, gamma), turn in zip(cores, clockwise, strict=True)],
        world=_make_config(
            WorldConfig,
            json.dumps({"dt": dt, "substeps": substeps}, default=float),
            vessel=_pop_config(
                VesselConfig,
                _VESSEL_FIELDS | _HULL_FIELDS,
                robots,
                name=boat,
                actuators=_pop_config(ActuatorConfig, _ACTUATOR_FIELDS, actuators),
            ),
            sensor=_pop_config(SensorConfig, _SENSOR_FIELDS, perception),
            reward=_pop_config(RewardConfig, _REWARD_FIELDS, env),
            scenario=_pop_config(ScenarioConfig, _MAP_FIELDS, env),
        ),
        seed=seed,
        behaviour=behaviour,
        onset=onset,
        states_penalty=states_penalty,
    )
    # The remaining keys are unknown.
    unknown |= {f"robots.{name}" for name in robots}
    unknown |= {f"robots.perception.{name}" for name in perception}
    unknown |= {f"robots.actuators.{name}" for name in actuators}
    unknown |= {f"env.{name}" for name in env if name not in _UNUSED_KEYS}
    return episode


def parse_scenarios(entries: Any, name: str = "scenarios") -> list[Episode]:
    """Return the episodes in the parsed content of a scenario file of this project.

    Args:
        entries: parsed JSON, a list of episodes or a single one.
        name: source of the content, for messages.

    Returns:
        Episodes. Unknown keys are ignored, with one warning that names them.

    Raises:
        ConfigError: when a value is missing, of the wrong type or out of range.
    """
    entries = [entries] if isinstance(entries, dict) and entries else entries
    require(
        isinstance(entries, list) and len(entries) > 0,
        name,
        type(entries).__name__,
        "a JSON list of at least one episode",
    )
    unknown: set[str] = set()
    episodes = []
    for number, entry in enumerate(entries):
        key = f"{name}[{number}]"
        try:
            episodes.append(_parse_episode(entry, key, unknown))
        except KeyError as error:
            raise ConfigError(f"{key}: the key {error} is missing") from error
        except ConfigError as error:
            text = str(error)
            raise ConfigError(text if text.startswith(key) else f"{key}: {text}") from error
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigError(f"{key}: not an episode in the scenario format ({error})") from error
    if unknown:
        warnings.warn(f"{name}: left out unknown keys {sorted(unknown)}", stacklevel=3)
    return episodes


# Writing ----------------------------------------------------------------------------------------


def _episode_object(episode: Episode) -> dict[str, Any]:
    """Convert an episode to a JSON object, the inverse of ``_parse_episode``."""
    count, world = len(episode.start), episode.world
    robots: dict[str, Any] = {
        "dt": [world.dt] * count,
        "N": [world.substeps] * count,
        **_per_robot_lists(world.vessel, _VESSEL_FIELDS, count),
        **{name: [list(getattr(world.vessel, name))] * count for name in COMMAND_FIELDS},
        "start": episode.start,
        "goal": episode.goal,
        "init_theta": episode.heading,
        "init_velocity_r": episode.velocity,
        "init_left_pos": [left for left, _ in episode.thruster_angle],
        "init_right_pos": [right for _, right in episode.thruster_angle],
        "init_left_thrust": [left for left, _ in episode.thrust],
        "init_right_thrust": [right for _, right in episode.thrust],
        "perception": _per_robot_lists(world.sensor, _SENSOR_FIELDS, count),
    }
    if world.vessel.needs_actuator_parameters:
        robots |= _per_robot_lists(world.vessel, _HULL_FIELDS, count)
        robots |= {
            "boat": world.vessel.name,
            "actuators": _per_robot_lists(world.vessel.actuators, _ACTUATOR_FIELDS, count),
        }
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
            "positions": [obstacle[:2] for obstacle in episode.obstacles],
            "r": [obstacle[2] for obstacle in episode.obstacles],
        },
    }
    return {"env": env, "robots": robots}


def write_scenarios(path: str | Path, episodes: Sequence[Episode]) -> None:
    """Write a scenario file, from which ``read_scenarios`` reads equal episodes, to a path.

    The file has one number per robot, even where an episode has one number for all robots.
    """
    Path(path).write_text(scenario_text(episodes), encoding="utf-8")


def scenario_text(episodes: Sequence[Episode]) -> str:
    """Return the JSON text of a scenario file with the given episodes.

    Raises:
        ConfigError: when ``episodes`` is not a list of at least one Episode.
    """
    has_episodes = isinstance(episodes, Sequence) and len(episodes) > 0
    has_episodes = has_episodes and all(isinstance(episode, Episode) for episode in episodes)
    require(has_episodes, "episodes", episodes, "a list of one Episode or more")
    return json.dumps([_episode_object(episode) for episode in episodes]) + "\n"


# Conversion from and to tensors -----------------------------------------------------------------


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
    """Convert scenario tensors to episodes that can be written to a file.

    Args:
        scenarios: scenarios, batch [P]; empty slots are omitted.
        config: configuration of the world that the scenarios were drawn for.
        seed: seed that the scenarios were drawn from, stored for information only.
    """
    return [_episode_from_scenario(scenario, config, seed) for scenario in scenarios.cpu()]


def _episode_from_scenario(scenario: Scenario, config: WorldConfig, seed: int) -> Episode:
    """Convert one scenario, batch [], to an episode."""
    robot, obstacle, core = scenario.robot_mask, scenario.obstacle_mask, scenario.core_circulation != 0.0
    kept = robot.nonzero().squeeze(-1).tolist()
    circles = torch.cat((scenario.obstacle_position, scenario.obstacle_radius[:, None]), -1)
    vortices = torch.cat((scenario.core_position, scenario.core_circulation[:, None]), -1)
    motion = ("start", "goal", "heading", "velocity", "thruster_angle", "thrust")
    behaviour, onset = _behaviours_and_onsets(scenario)
    return Episode(
        **{name: scenario.get(name)[robot].tolist() for name in motion},
        obstacles=circles[obstacle].tolist(),
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
    names = ("start", "goal", "heading", "velocity", "thruster_angle", "thrust")
    alone: dict[str, Any] = {name: [getattr(episode, name)[slot]] for name in names}
    world = map_per_robot(episode.world, lambda values: (values[slot],))
    return replace(episode, **alone, behaviour=[], onset=[], world=world)


def config_for_batch(config: WorldConfig, episodes: Sequence[Episode]) -> WorldConfig:
    """Return ``config`` with the time step and the number of object slots that a batch of episodes requires.

    Raises:
        ConfigError: when the time steps of the episodes differ.
    """
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
    """Return the names of the settings of a world that are not at their default and that episodes override.

    Episodes have their own vessels, sensors, rewards and time step, which replace those of the
    world. Settings of the sampling of scenarios are not considered.
    """
    sections = {
        "vessel": _VESSEL_FIELDS | _HULL_FIELDS,
        "vessel.actuators": _ACTUATOR_FIELDS,
        "sensor": _SENSOR_FIELDS,
        "reward": _REWARD_FIELDS,
    }
    names = [f"{section}.{name}" for section, fields_ in sections.items() for name in fields_.values()]
    worlds, defaults = {episode.world for episode in episodes}, WorldConfig()

    def differs(value: Any, other: Any) -> bool:
        if isinstance(other, tuple) and not isinstance(value, tuple):
            return set(other) != {value}
        has_fewer = isinstance(other, tuple) and len(other) < len(value)
        return bool((value[: len(other)] if has_fewer else value) != other)

    overridden = []
    for name in ("dt", "substeps", *names):
        read = attrgetter(name)
        value = read(config)
        if value != read(defaults) and any(differs(value, read(world)) for world in worlds):
            overridden.append(name)
    return overridden


def stack_episodes(
    episodes: Sequence[Episode], device: torch.device, dtype: torch.dtype
) -> tuple[Scenario, Parameters, Tensor]:
    """Convert episodes to tensors, padded to the largest numbers of robots, obstacles and cores.

    Args:
        episodes: N episodes.
        device: device of the tensors.
        dtype: floating-point type of the tensors.

    Returns:
        Scenarios, batch [N], parameters, batch [N], and the von Mises quantile table [rows, points].
    """

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
