"""Scenario files: a JSON list of episodes, in the format that the field exchanges.

Each episode has ``env`` (map, reward and current parameters, cores, obstacles) and ``robots`` (one
list per vessel parameter, start, goal, initial motion, perception). Entries that carry the episode
under ``config``, as recordings do, are read too.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import (
    PerRobot,
    RewardConfig,
    ScenarioConfig,
    SensorConfig,
    VesselConfig,
    WorldConfig,
)
from marinenav_env.parameters import build_parameters
from marinenav_env.state import Parameters, Scenario
from marinenav_env.validation import ConfigError, is_number, require

# Names in the file that differ from ours; all others are the same.
_VESSEL_NAMES = {"r": "radius", "detect_r": "detect_radius", "goal_dis": "goal_distance"}
_SENSOR_NAMES = {"max_obj_num": "max_objects"}
_MAP_NAMES = {"r": "core_radius"}
_COMMANDS = ("left_thrust_change", "right_thrust_change")
# Written and accepted for the sake of other readers; nothing here depends on them.
_UNUSED = {"is_eval_env": True, "angular_speed_max": torch.pi / 2, "angular_speed_penalty": -1.0}
# Settings of a world, not of an episode: files neither have nor set them.
_WORLD_ONLY = {
    "entries", "scan_beams", "scan_angle", "scan_range", "scan_std", "function",
    "give_way_penalty", "stand_on_penalty", "astern_penalty",
}  # fmt: skip
# Initial motion, and how many numbers each robot has of it (None: one, not in a list).
_MOTION = {
    "start": 2, "goal": 2, "init_theta": None, "init_velocity_r": 3, "init_left_pos": None,
    "init_right_pos": None, "init_left_thrust": None, "init_right_thrust": None,
}  # fmt: skip


@dataclass(frozen=True)
class Episode:
    """One scenario with everything that a file says about it, in plain numbers."""

    start: list[list[float]]
    """Per robot x, y (m)."""
    goal: list[list[float]]
    """Per robot x, y (m)."""
    heading: list[float]
    """Per robot yaw (rad)."""
    velocity: list[list[float]]
    """Per robot velocity relative to the water (m/s, m/s, rad/s; world frame)."""
    thruster_angle: list[list[float]]
    """Per robot left and right (rad)."""
    thrust: list[list[float]]
    """Per robot left and right (N)."""
    obstacles: list[list[float]] = field(default_factory=list)
    """Per obstacle x, y, radius (m)."""
    cores: list[list[float]] = field(default_factory=list)
    """Per core x, y (m) and circulation (m^2/s), positive for clockwise."""
    vessel: VesselConfig = field(default_factory=VesselConfig)
    sensor: SensorConfig = field(default_factory=SensorConfig)
    reward: RewardConfig = field(default_factory=RewardConfig)
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    dt: float = 0.05
    """Length of a substep (s)."""
    substeps: int = 10
    """Substeps of a control step."""
    seed: int = 0
    """Seed that the scenario was drawn from, for the record."""


def _object(parent: dict[str, Any], name: str, key: str) -> dict[str, Any]:
    """A copy of the JSON object under a name."""
    value = parent[name]
    require(isinstance(value, dict), f"{key}.{name}", value, "a JSON object")
    return dict(value)


def _rows(key: str, values: Any, count: int | None = None, width: int | None = None) -> list[Any]:
    """The values, when they are ``count`` finite numbers or lists of ``width`` of them."""

    def fine(value: Any, length: int | None) -> bool:
        if length is None:
            return is_number(value)
        return isinstance(value, list) and len(value) == length and all(map(is_number, value))

    items = "finite numbers" if width is None else f"lists of {width} finite numbers"
    good = isinstance(values, list) and count in (None, len(values))
    require(good and all(fine(value, width) for value in values), key, values,
            f"a list of {items if count is None else f'{count} {items}'}")  # fmt: skip
    return list(values)


def _shared(key: str, values: list[Any]) -> Any:
    """The value that all robots share."""
    require(len({json.dumps(value) for value in values}) == 1, key, values, "equal for all robots")
    return values[0]


def _names(config: Any, theirs: dict[str, str]) -> set[str]:
    """The names under which a file may hold the fields of a config."""
    return {item.name for item in fields(config)} - _WORLD_ONLY | set(theirs)


def _stated(config: Any) -> dict[str, Any]:
    """The fields of a config that files have."""
    return {name: value for name, value in asdict(config).items() if name not in _WORLD_ONLY}


def _sections(entry: Any, key: str) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Copies of an entry's sections: the environment, the robots, and their perception."""
    require(isinstance(entry, dict), key, entry, "a JSON object")
    entry = entry.get("config", entry)
    require(isinstance(entry, dict), f"{key}.config", entry, "a JSON object")
    env, robots = _object(entry, "env", key), _object(entry, "robots", key)
    perception = _object(robots, "perception", f"{key}.robots")
    del robots["perception"]
    return env, robots, perception


def _count_robots(env: dict[str, Any], robots: dict[str, Any], key: str) -> int:
    """How many robots an entry has; the number it states is taken out."""
    start = robots["start"]
    fine = isinstance(start, list) and len(start) > 0
    require(fine, f"{key}.robots.start", start, "a list with at least one robot")
    found = env.pop("num_robots", len(start))
    allowed = f"{len(start)}, the number of robots given"
    require(found == len(start), f"{key}.env.num_robots", found, allowed)
    return len(start)


def _require_one_each(given: dict[str, Any], known: set[str], where: str, count: int) -> None:
    """Refuse a known key that does not hold one value for each robot."""
    for name in known & set(given):
        fine = isinstance(given[name], list) and len(given[name]) == count
        require(fine, f"{where}.{name}", given[name], f"a list with one value for each of {count}")


def _take_motion(robots: dict[str, Any], where: str, count: int) -> dict[str, Any]:
    """Take the initial motion out of the robots' section, as an Episode has it."""
    motion = {
        name: _rows(f"{where}.{name}", robots.pop(name), count, width)
        for name, width in _MOTION.items()
    }
    return {
        "start": motion["start"],
        "goal": motion["goal"],
        "heading": motion["init_theta"],
        "velocity": motion["init_velocity_r"],
        "thruster_angle": _pairs(motion["init_left_pos"], motion["init_right_pos"]),
        "thrust": _pairs(motion["init_left_thrust"], motion["init_right_thrust"]),
    }


def _take_vessel(robots: dict[str, Any], where: str) -> VesselConfig:
    """Take the vessels' parameters out of the robots' section."""
    for name in _COMMANDS:
        robots[name] = _shared(f"{where}.{name}", robots[name])
        _rows(f"{where}.{name}[0]", robots[name])
    vessel: VesselConfig = _take_config(VesselConfig, robots, _VESSEL_NAMES)
    return vessel


def _take_round_things(
    env: dict[str, Any], name: str, size: str, key: str
) -> tuple[list[list[float]], dict[str, Any]]:
    """Take obstacles or cores out of the environment's section.

    Returns:
        Position and size of each, and everything that is said about them.
    """
    given, where = _object(env, name, f"{key}.env"), f"{key}.env.{name}"
    del env[name]
    positions = _rows(f"{where}.positions", given["positions"], width=2)
    sizes = _rows(f"{where}.{size}", given[size], len(positions))
    fine = all(value >= 0.0 for value in sizes)
    require(fine, f"{where}.{size}", sizes, "at least 0")
    return [[*position, value] for position, value in zip(positions, sizes, strict=True)], given


def _take_cores(env: dict[str, Any], key: str) -> list[list[float]]:
    """Take the cores out of the environment's section; see Episode."""
    cores, given = _take_round_things(env, "cores", "Gamma", key)
    clockwise = given["clockwise"]
    fine = isinstance(clockwise, list) and len(clockwise) == len(cores)
    fine = fine and all(turn in (True, False) for turn in clockwise)
    allowed = f"a list of {len(cores)} truth values"
    require(fine, f"{key}.env.cores.clockwise", clockwise, allowed)
    return [
        [x, y, gamma if turn else -gamma]
        for (x, y, gamma), turn in zip(cores, clockwise, strict=True)
    ]


def _take_config(cls: Any, given: dict[str, Any], names: dict[str, str]) -> Any:
    """Build a config from the keys it knows, and take them out of ``given``."""
    known = _names(cls, {})
    ours = {names.get(name, name): (name, value) for name, value in given.items()}
    taken = {name: pair for name, pair in ours.items() if name in known}
    for name, _ in taken.values():
        del given[name]
    return cls(**{
        name: tuple(value) if isinstance(value, list) else value
        for name, (_, value) in taken.items()
    })  # fmt: skip


def _episode(entry: Any, key: str, unknown: set[str]) -> Episode:
    """Parse one entry; names of unknown keys are collected in ``unknown``."""
    env, robots, perception = _sections(entry, key)
    where = f"{key}.robots"
    count = _count_robots(env, robots, key)
    _require_one_each(robots, _names(VesselConfig, _VESSEL_NAMES) | {"dt", "N"}, where, count)
    sensor_keys = _names(SensorConfig, _SENSOR_NAMES)
    _require_one_each(perception, sensor_keys, f"{where}.perception", count)
    motion = _take_motion(robots, where, count)
    dt, substeps = (_shared(f"{where}.{name}", robots.pop(name)) for name in ("dt", "N"))
    world = WorldConfig(dt=dt, substeps=substeps)
    episode = Episode(
        **motion,
        obstacles=_take_round_things(env, "obstacles", "r", key)[0],
        cores=_take_cores(env, key),
        vessel=_take_vessel(robots, where),
        sensor=_take_config(SensorConfig, perception, _SENSOR_NAMES),
        reward=_take_config(RewardConfig, env, {}),
        scenario=_take_config(ScenarioConfig, env, _MAP_NAMES),
        dt=world.dt,
        substeps=world.substeps,
        seed=env.pop("seed", 0),
    )
    # The remaining keys are unknown.
    unknown |= {f"robots.{name}" for name in robots}
    unknown |= {f"robots.perception.{name}" for name in perception}
    unknown |= {f"env.{name}" for name in env if name not in _UNUSED}
    return episode


def _pairs(left: list[float], right: list[float]) -> list[list[float]]:
    return [list(pair) for pair in zip(left, right, strict=True)]


def parse_scenarios(entries: Any, name: str = "scenarios") -> list[Episode]:
    """Read episodes from what a scenario file holds.

    Args:
        entries: the parsed JSON.
        name: where it came from, for messages.

    Returns:
        The episodes. Keys that are not known are left out, with one warning that names them.

    Raises:
        ConfigError: when something is missing, of the wrong kind or out of range.
    """
    require(isinstance(entries, list) and len(entries) > 0, name, type(entries).__name__,
            "a JSON list of at least one episode")  # fmt: skip
    unknown: set[str] = set()
    episodes = []
    for number, entry in enumerate(entries):
        key = f"{name}[{number}]"
        try:
            episodes.append(_episode(entry, key, unknown))
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


def read_scenarios(path: str | Path) -> list[Episode]:
    """Read a scenario file; see parse_scenarios.

    Raises:
        ConfigError: when the file cannot be read or is not in the format.
    """
    try:
        entries = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: cannot be read as a scenario file ({error})") from error
    return parse_scenarios(entries, str(path))


def _entry(episode: Episode) -> dict[str, Any]:
    """The inverse of _episode."""
    count = len(episode.start)

    def listed(value: Any, number: int) -> list[Any]:
        return list(value[:number]) if isinstance(value, tuple) else [value] * number

    theirs = {ours: name for name, ours in (*_VESSEL_NAMES.items(), *_SENSOR_NAMES.items())}
    robots: dict[str, Any] = {"dt": [episode.dt] * count, "N": [episode.substeps] * count}
    for name, value in _stated(episode.vessel).items():
        per_robot = [list(value)] * count if name in _COMMANDS else listed(value, count)
        robots[theirs.get(name, name)] = per_robot
    columns: tuple[Any, ...] = (
        episode.start, episode.goal, episode.heading, episode.velocity,
        *zip(*episode.thruster_angle, strict=True), *zip(*episode.thrust, strict=True),
    )  # fmt: skip
    robots |= {name: list(column) for name, column in zip(_MOTION, columns, strict=True)}
    robots["perception"] = {
        theirs.get(name, name): listed(value, count)
        for name, value in _stated(episode.sensor).items()
    }
    map_values = asdict(episode.scenario)
    map_values["r"] = map_values.pop("core_radius")
    env = {
        "seed": episode.seed, **_UNUSED, **map_values, **_stated(episode.reward),
        "num_robots": count,
        "cores": {
            "positions": [core[:2] for core in episode.cores],
            "clockwise": [core[2] > 0.0 for core in episode.cores],
            "Gamma": [abs(core[2]) for core in episode.cores],
        },
        "obstacles": {
            "positions": [obstacle[:2] for obstacle in episode.obstacles],
            "r": [obstacle[2] for obstacle in episode.obstacles],
        },
    }  # fmt: skip
    return {"env": env, "robots": robots}


def write_scenarios(path: str | Path, episodes: Sequence[Episode]) -> None:
    """Write a scenario file that read_scenarios reads back to the same episodes.

    The format has one number for each robot, also where an episode has one for all of them.
    """
    text = json.dumps([_entry(episode) for episode in episodes])
    Path(path).write_text(text + "\n", encoding="utf-8")


def episodes_of(scenarios: Scenario, config: WorldConfig, seed: int = 0) -> list[Episode]:
    """Turn scenario tensors into episodes that can be written.

    Args:
        scenarios: batch [P]; masked slots are left out.
        config: the world they were drawn for.
        seed: for the record.
    """
    episodes = []
    for one in scenarios.cpu():
        robot, obstacle, core = one.robot_mask, one.obstacle_mask, one.core_circulation != 0.0
        kept = robot.nonzero().squeeze(-1).tolist()

        def select(value: PerRobot, kept: list[int] = kept) -> PerRobot:
            return tuple(value[index] for index in kept) if isinstance(value, tuple) else value

        vessel: dict[str, Any] = {
            name: value if name in _COMMANDS else select(value)
            for name, value in asdict(config.vessel).items()
        }
        sensor = {name: select(value) for name, value in _stated(config.sensor).items()}
        circles = torch.cat((one.obstacle_position, one.obstacle_radius[:, None]), -1)
        vortices = torch.cat((one.core_position, one.core_circulation[:, None]), -1)
        episodes.append(
            Episode(
                start=one.start[robot].tolist(),
                goal=one.goal[robot].tolist(),
                heading=one.heading[robot].tolist(),
                velocity=one.velocity[robot].tolist(),
                thruster_angle=one.thruster_angle[robot].tolist(),
                thrust=one.thrust[robot].tolist(),
                obstacles=circles[obstacle].tolist(),
                cores=vortices[core].tolist(),
                vessel=VesselConfig(**vessel),
                sensor=SensorConfig(**sensor),  # type: ignore[arg-type]
                reward=RewardConfig(**_stated(config.reward)),
                scenario=config.scenario,
                dt=config.dt,
                substeps=config.substeps,
                seed=seed,
            )
        )
    return episodes


def stack_episodes(
    episodes: Sequence[Episode], device: torch.device, dtype: torch.dtype
) -> tuple[Scenario, Parameters, Tensor]:
    """Turn episodes into tensors, padded to the largest.

    Args:
        episodes: N episodes.
        device: where the tensors live.
        dtype: their floating-point type.

    Returns:
        Scenarios [N], parameters [N], and the von Mises quantile table.
    """
    robots = max(len(episode.start) for episode in episodes)
    obstacles = max(len(episode.obstacles) for episode in episodes)
    cores = max(len(episode.cores) for episode in episodes)
    options: dict[str, Any] = {"device": device, "dtype": dtype}

    def padded(rows: list[list[list[float]]], slots: int, width: int) -> Tensor:
        blank = [0.0] * width
        full = [[*row, *[blank] * (slots - len(row))] for row in rows]
        return torch.tensor(full, **options).reshape(len(rows), slots, width)

    def exists(counts: list[int], slots: int) -> Tensor:
        return torch.arange(slots, device=device) < torch.tensor(counts, device=device)[:, None]

    circles = padded([episode.obstacles for episode in episodes], obstacles, 3)
    vortices = padded([episode.cores for episode in episodes], cores, 3)
    heading = padded([[[h] for h in episode.heading] for episode in episodes], robots, 1)
    scenario = Scenario(
        goal=padded([episode.goal for episode in episodes], robots, 2),
        start=padded([episode.start for episode in episodes], robots, 2),
        heading=heading.squeeze(-1),
        velocity=padded([episode.velocity for episode in episodes], robots, 3),
        thrust=padded([episode.thrust for episode in episodes], robots, 2),
        thruster_angle=padded([episode.thruster_angle for episode in episodes], robots, 2),
        robot_mask=exists([len(episode.start) for episode in episodes], robots),
        obstacle_position=circles[..., :2],
        obstacle_radius=circles[..., 2],
        obstacle_mask=exists([len(episode.obstacles) for episode in episodes], obstacles),
        core_position=vortices[..., :2],
        core_circulation=vortices[..., 2],
        level=torch.zeros(len(episodes), dtype=torch.int64, device=device),
        batch_size=[len(episodes)],
    )

    def pad_config(config: Any) -> Any:
        """Repeat the last robot's values for the slots that an episode lacks."""
        values = {
            name: value if name in _COMMANDS or not isinstance(value, tuple)
            else value + (value[-1],) * (robots - len(value))
            for name, value in _stated(config).items()
        }  # fmt: skip
        return type(config)(**values)

    worlds = [
        (pad_config(e.vessel), pad_config(e.sensor), e.reward, e.scenario.core_radius)
        for e in episodes
    ]
    return scenario, *build_parameters(worlds, robots, device, dtype)
