"""Scenario files: a JSON list of episodes, or a single one, in the published format.

An episode has ``env`` (map, reward and current parameters, cores, obstacles) and ``robots`` (one
list per vessel parameter, start, goal, initial motion, perception). Vessels whose actuators or hull terms differ from
the published ones also have these (``actuators``, one list per field), and the name of the boat. Entries with the
episode under ``config``, as in recordings, are read as well.
"""

import json
import warnings
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from marinenav_env.config import (
    MAX_WAYPOINTS,
    SHORE_SIZES,
    ActuatorConfig,
    RewardConfig,
    ScenarioConfig,
    SensorConfig,
    VesselConfig,
    WorldConfig,
)
from marinenav_env.levels import BEHAVIOURS
from marinenav_env.scenarios.episode import (
    ACTUATOR_FIELDS,
    HULL_FIELDS,
    MAP_FIELDS,
    REWARD_FIELDS,
    SENSOR_FIELDS,
    VESSEL_FIELDS,
    Episode,
    per_robot_lists,
)
from marinenav_env.scenarios.parameters import COMMAND_FIELDS
from marinenav_env.support.nodes import MAX_ELEMENTS, Node
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, require

MAX_MAGNITUDE = 1e6
"""Largest magnitude of a number of a robot, obstacle or core in a file."""
LEAST_TRACK_TIME = 0.01
"""Least time between two points of a track (s)."""
MAX_TRACK_POINTS = 1000
# Keys that are written for other readers and accepted without effect.
_UNUSED_KEYS = {"is_eval_env": True, "angular_speed_max": torch.pi / 2, "angular_speed_penalty": -1.0}
# Keys of the initial motion, and how many numbers each has per robot (None: a single number, not in a list).
_SIDES = ("init_left_pos", "init_right_pos", "init_left_thrust", "init_right_thrust")
_MOTION_WIDTHS = {"start": 2, "goal": 2, "init_theta": None, "init_velocity_r": 3} | dict.fromkeys(_SIDES)
_ROBOT_KEYS = {*VESSEL_FIELDS, *HULL_FIELDS, *_MOTION_WIDTHS, "dt", "N", "perception", "actuators", "boat"}
_ROBOT_KEYS |= {"behaviour", "onset", "route", "track"}
_ENV_KEYS = {*REWARD_FIELDS, *MAP_FIELDS, *_UNUSED_KEYS, "seed", "num_robots", "obstacles", "cores", "shores"}


def _numbers(node: Node, count: int | None = None, width: int | None = None, low: float = -MAX_MAGNITUDE) -> list[Any]:
    """Return a list of ``count`` (None: any) numbers, or of lists of ``width`` numbers."""
    items = node.items(count or 0, MAX_ELEMENTS if count is None else count)
    if width is not None:
        return [_numbers(item, width) for item in items]
    return [item.number(low, MAX_MAGNITUDE) for item in items]


def _shared_value(node: Node, count: int) -> Any:
    values = [item.value for item in node.items(count, count)]
    if any(value != values[0] for value in values):
        raise node.error_for("equal for all robots")
    return values[0]


def _config_of(config_type: type, names: dict[str, str], section: Node, count: int | None, **parts: Any) -> Any:
    """Make a config from a section, in which ``names`` has its fields by their keys.

    With a ``count``, each key has a list of as many values, one for each robot.
    """
    stated = {key: Node(section.value[key], f"{section.place}.{key}") for key in names if key in section.value}
    values = {
        names[key]: node.value if count is None else [item.value for item in node.items(count, count)]
        for key, node in stated.items()
    }
    return _make_config(config_type, json.dumps(values, default=float), **parts)


@lru_cache(maxsize=256)
def _make_config(config_type: type, values: str, **parts: Any) -> Any:
    """Build a config from the JSON text of its fields and from the fields ``parts``."""
    # Cached, because most episodes of a file share the config and its checks take time.
    return config_type(**json.loads(values), **parts)


def _read_discs(discs: Node, size: str) -> list[list[float]]:
    """Return the positions and the sizes, whose key is ``size``, of obstacles or cores as a list of [x, y, size]."""
    positions = _numbers(discs.require("positions"), width=2)
    sizes = _numbers(discs.require(size), len(positions), low=0.0)
    return [[*position, value] for position, value in zip(positions, sizes, strict=True)]


def _read_per_robot(robots: Node, key: str, count: int) -> list[Node]:
    """Return the values of a key that robots may have, one for each; an empty list without the key."""
    stated = Node(robots.value.get(key, []), f"{robots.place}.{key}")
    return [] if stated.value == [] else stated.items(count, count)


def _read_behaviours(robots: Node, count: int) -> tuple[list[str], list[float]]:
    """Return the names of behaviours ("": none) and their onsets (s) of robots; both empty without behaviours."""
    names = [node.value for node in _read_per_robot(robots, "behaviour", count)]
    allowed = f"a list of names, each empty (one or more) or one of {', '.join(BEHAVIOURS)}"
    fits = all(name in ("", *BEHAVIOURS) for name in names) and (not names or "" in names)
    require(fits, f"{robots.place}.behaviour", names, allowed)
    return names, _numbers(Node(robots.value.get("onset", []), f"{robots.place}.onset"), len(names))


def _read_paths(robots: Node, key: str, count: int, width: int, most: int) -> list[list[list[float]]]:
    """Return the points of the paths of robots, each of ``width`` numbers; an empty list without the key."""
    paths = _read_per_robot(robots, key, count)
    return [[_numbers(point, width) for point in path.items(0, most)] for path in paths]


def _read_tracks(robots: Node, behaviour: list[str], count: int) -> list[list[list[float]]]:
    """Return the tracks of robots, which those with the behaviour ``track``, and only those, must have."""
    tracks = _read_paths(robots, "track", count, 3, MAX_TRACK_POINTS)
    names, paths = behaviour or [""] * count, tracks or [[]] * count
    for robot, (name, points) in enumerate(zip(names, paths, strict=True)):
        rises = all(after[0] - before[0] > 0.9 * LEAST_TRACK_TIME for before, after in pairwise(points))
        fits = rises and (len(points) >= 2 if name == "track" else not points)
        allowed = "two or more [time, x, y] by rising time for the behaviour track, else none"
        require(fits, f"{robots.place}.track[{robot}]", points, allowed)
    return tracks


def _unknown_keys(section: Node, prefix: str, known: Collection[str]) -> set[str]:
    """Return the names of the keys of a section that are not ``known``, with a prefix."""
    return {f"{prefix}.{name}" for name in section.keys() - set(known)}


def _read_world(env: Node, robots: Node, count: int, unknown: set[str]) -> WorldConfig:
    """Return the configuration of the world of an episode, and add the names of unknown keys to ``unknown``."""
    perception, boat = robots.require("perception"), robots.get("boat")
    actuators = robots.get("actuators") or Node({}, f"{robots.place}.actuators")
    unknown |= _unknown_keys(perception, "robots.perception", SENSOR_FIELDS)
    unknown |= _unknown_keys(actuators, "robots.actuators", ACTUATOR_FIELDS)
    dt, substeps, *commands = (_shared_value(robots.require(name), count) for name in ("dt", "N", *COMMAND_FIELDS))
    for name, command in zip(COMMAND_FIELDS, commands, strict=True):
        _numbers(Node(command, f"{robots.place}.{name}[0]"))
    shared = {name: VESSEL_FIELDS[name] for name in COMMAND_FIELDS}
    vessel = _config_of(
        VesselConfig,
        {key: name for key, name in (VESSEL_FIELDS | HULL_FIELDS).items() if key not in shared},
        robots,
        count,
        **dict(zip(shared, map(tuple, commands), strict=True)),
        name=VesselConfig.name if boat is None else boat.text(),
        actuators=_config_of(ActuatorConfig, ACTUATOR_FIELDS, actuators, count),
    )
    world: WorldConfig = _make_config(
        WorldConfig,
        json.dumps({"dt": dt, "substeps": substeps}, default=float),
        vessel=vessel,
        sensor=_config_of(SensorConfig, SENSOR_FIELDS, perception, count),
        reward=_config_of(RewardConfig, REWARD_FIELDS, env, None),
        scenario=_config_of(ScenarioConfig, MAP_FIELDS, env, None),
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
    shores = env.get("shores")
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
        shores=[] if shores is None else [_numbers(segment, 4) for segment in shores.items(0, SHORE_SIZES[-1])],
        route=_read_paths(robots, "route", count, 2, MAX_WAYPOINTS - 1),
        track=_read_tracks(robots, behaviour, count),
        states_penalty="collision_penalty" in env.value,
    )


def parse_scenarios(entries: Any, name: str = "scenarios") -> list[Episode]:
    """Return the episodes in the parsed JSON of a scenario file of this project, a list of episodes or a single one.

    Unknown keys are ignored, with one warning that names them; ``name`` is the source of the content, for messages.
    """
    entries = [entries] if isinstance(entries, dict) and entries else entries
    has_entries = isinstance(entries, list) and len(entries) > 0
    require(has_entries, name, entries, "a JSON list of at least one episode")
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
        **per_robot_lists(world.vessel, VESSEL_FIELDS, count),
        **{name: [list(getattr(world.vessel, name))] * count for name in COMMAND_FIELDS},
        "start": episode.start,
        "goal": episode.goal,
        "init_theta": episode.heading,
        "init_velocity_r": episode.velocity,
        **dict(zip(_SIDES, sides, strict=True)),
        "perception": per_robot_lists(world.sensor, SENSOR_FIELDS, count),
    }
    if world.vessel.needs_actuator_parameters:
        actuators = per_robot_lists(world.vessel.actuators, ACTUATOR_FIELDS, count)
        robots |= per_robot_lists(world.vessel, HULL_FIELDS, count)
        robots |= {"boat": world.vessel.name, "actuators": actuators}
    if episode.behaviour:
        robots |= {"behaviour": episode.behaviour, "onset": episode.onset}
    robots |= {name: paths for name in ("route", "track") if (paths := getattr(episode, name))}
    env = {
        "seed": episode.seed,
        "num_robots": count,
        **_UNUSED_KEYS,
        **{name: getattr(world.scenario, field_name) for name, field_name in MAP_FIELDS.items()},
        **{name: getattr(world.reward, field_name) for name, field_name in REWARD_FIELDS.items()},
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
    if episode.shores:
        env["shores"] = episode.shores
    return {"env": env, "robots": robots}


def write_scenarios(path: str | Path, episodes: Sequence[Episode]) -> None:
    """Write a scenario file, from which ``read_scenarios`` reads equal episodes, to a path."""
    Path(path).write_text(scenario_text(episodes), encoding="utf-8")


def scenario_text(episodes: Sequence[Episode]) -> str:
    """Return the JSON text of a scenario file with the given episodes."""
    are_episodes = isinstance(episodes, Sequence) and all(isinstance(episode, Episode) for episode in episodes)
    require(are_episodes and len(episodes) > 0, "episodes", episodes, "a list of one Episode or more")
    return json.dumps([_episode_object(episode) for episode in episodes]) + "\n"
