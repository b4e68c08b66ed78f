"""Levels of training and of evaluation, and how they are read and saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from marinenav_env import LEVELS, Level
from marinenav_env.levels import NAMED_LEVELS
from marinenav_env.support.validation import ConfigError, NonNegative, Whole, require
from marinenav_env.vessels import Scale, scaled_level
from train_RL_agents.config.overrides import flatten, unknown
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.files import read_json
from train_RL_agents.utils.shipped import find_shipped, shipped

AnyLevel = TypeVar("AnyLevel", bound=Level)

SIZES = ("num_robots", "num_cores", "num_obstacles", "min_start_goal_dis")
"""Fields that every level has a number of; columns of all of them make new levels."""
_EVALUATED = (*SIZES, "encounter", "core_speed", "separation")
"""Fields that evaluations know; the others vary vessels and maps, which there are the world's."""


@dataclass(frozen=True)
class TrainingLevel(Level):
    """A level that is trained on."""

    weight: NonNegative = 1.0
    """Share of the scenarios where all levels are trained on at once, beside the other weights."""
    starts_at: Whole = 0
    """Env-steps from which this level alone is trained on, 0 for the first; 0 for all levels: all
    at once."""


@dataclass(frozen=True)
class EvalLevel(Level):
    """A level of the evaluations."""

    num_episodes: Whole = 10
    """Scenarios."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for item in fields(Level):
            value = getattr(self, item.name)
            is_valid = item.name in _EVALUATED or value == item.default
            require(is_valid, f"level.{item.name}", value, f"{item.default} in an evaluation")


LEVEL_KINDS: dict[str, type[Level]] = {"training_schedule": TrainingLevel, "eval_schedule": EvalLevel}
"""Levels of each schedule."""
_SIZES = {name: name for name in SIZES}
COLUMNS = {
    "training_schedule": _SIZES | {"timesteps": "starts_at"},
    "eval_schedule": _SIZES | {"num_episodes": "num_episodes"},
}
"""Columns of files of the original project, by section, with the field of a level that each fills."""


def as_levels(kind: type[AnyLevel], levels: Iterable[Level]) -> tuple[AnyLevel, ...]:
    """Return the same levels as those of another kind."""
    names = {item.name for item in fields(kind)}
    return tuple(kind(**{name: value for name, value in vars(level).items() if name in names}) for level in levels)


def read_levels(section: str, layers: Iterable[Mapping[str, Any]], scale: Scale) -> tuple[Level, ...]:
    """Return the levels of a schedule, of the objects or of the columns that are stated.

    In place of objects, a configuration may be named whose levels of this schedule are taken. Columns, such as
    ``num_robots`` with a number for each level, are laid over levels; files of the original project have them. Columns
    of all sizes make new levels.

    Args:
        section: training_schedule or eval_schedule.
        layers: settings by dotted key, each laid over those before.
        scale: scale of the vessel, by which lengths and currents that are not stated are changed.

    Raises:
        ConfigError: when columns are not as long as the levels, or levels cannot be made of what is stated.
    """
    kind, key = LEVEL_KINDS[section], f"{section}.levels"
    rows: list[Any] = [scaled_level(level, scale.length, scale.speed) for level in LEVELS]
    for layer in layers:
        if layer.get(key) is not None:
            rows = _listed(_content(section, layer[key]))
        stated = {name: layer.get(f"{section}.{name}") for name in COLUMNS[section]}
        columns = {name: _listed(column) for name, column in stated.items() if column is not None}
        if columns.keys() >= {*SIZES}:
            rows = [{}] * len(columns["num_robots"])
        rows = [_stated(kind, row, f"{key}: level {number}") for number, row in enumerate(rows, 1)]
        for name, column in columns.items():
            allowed = f"{len(rows)} long, one for each level; levels of another number are {key}"
            require(len(column) == len(rows), f"{section}.{name}", tuple(column), allowed)
            rows = [row | {COLUMNS[section][name]: value} for row, value in zip(rows, column, strict=True)]
    return tuple(_make_level(kind, row, f"{key}: level {number}", scale) for number, row in enumerate(rows, 1))


def _content(section: str, levels: Any) -> Any:
    """Return levels as stated, those of a configuration where its name stands in their place.

    Raises:
        ConfigError: when there is no such file, or it lists no levels itself.
    """
    if not isinstance(levels, str):
        return levels
    key, file = f"{section}.levels", find_shipped("configs", Path(levels))
    hint = "" if file.is_file() else did_you_mean(levels, shipped("configs"))
    listed = flatten(read_json(file)).get(key) if file.is_file() else None
    require(isinstance(listed, list), key, levels, f"a list of levels, or a configuration that has one{hint}")
    return listed


def _listed(value: Any) -> list[Any]:
    """Return a list or tuple as a list, and a single value as a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _stated(kind: type[Level], level: Any, key: str) -> dict[str, Any]:
    """Return the stated fields of a level by name, perhaps with ``like``; of a Level those that the kind has."""
    require(isinstance(level, dict | Level), key, level, 'an object such as {"like": "crossing"}')
    names = [item.name for item in fields(kind)]
    if isinstance(level, Level):
        return {name: value for name, value in vars(level).items() if name in names}
    for name, value in level.items():
        if name not in (*names, "like"):
            raise ConfigError(f"{key}: {unknown(name, value, names)}")
    return level


def _make_level(kind: type[AnyLevel], stated: dict[str, Any], key: str, scale: Scale) -> AnyLevel:
    """Make a level of its fields, and of those of the level that it is like.

    Args:
        kind: TrainingLevel or EvalLevel.
        stated: fields by name, perhaps with ``like``.
        key: name of the level in messages.
        scale: see read_levels.

    Raises:
        ConfigError: when there is no such field or level to be like, or a value cannot be used.
    """
    like, values = stated.get("like"), {name: value for name, value in stated.items() if name != "like"}
    is_valid = like is None or (isinstance(like, str) and like in NAMED_LEVELS)
    allowed = f"one of {', '.join(NAMED_LEVELS)}"
    require(is_valid, f"{key}: like", like, f"{allowed}{did_you_mean(like, NAMED_LEVELS)}")
    base = kind() if like is None else NAMED_LEVELS[like]
    try:
        return kind(**vars(scaled_level(base, scale.length, scale.speed)) | values)
    except ConfigError as error:
        raise ConfigError(str(error).replace("level.", f"{key}: ", 1)) from error


def level_dict(level: Level) -> dict[str, Any]:
    """Return a level as saved: its sizes, and what differs from the defaults."""
    return {
        item.name: getattr(level, item.name)
        for item in fields(level)
        if item.name in (*SIZES, "num_episodes") or getattr(level, item.name) != item.default
    }
