"""Levels of the training and evaluation schedules: their fields, and how they are read and saved."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from marinenav_env.levels import LEVELS, NAMED_LEVELS, RANDOM_MAPS, Level
from marinenav_env.support.validation import ConfigError, NonNegativeFloat, NonNegativeInt, require
from marinenav_env.vessels import VesselScale, scaled_level
from train_RL_agents.config.overrides import flatten, unknown_setting_message
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.files import read_json
from train_RL_agents.utils.shipped import find_shipped, shipped_paths

LevelType = TypeVar("LevelType", bound=Level)

SIZE_FIELDS = ("num_robots", "num_cores", "num_obstacles", "min_start_goal_dis")
"""Names of the fields of a level that ``level_to_dict`` always saves: numbers of objects, and distance to the goal."""
_EVAL_LEVEL_FIELDS = (*SIZE_FIELDS, "encounter", "core_speed", "separation", "maps")
"""Names of the fields that an evaluation level may set; the others vary vessels and sizes, which evaluations do not."""


@dataclass(frozen=True)
class TrainingLevel(Level):
    """Level of a training schedule, with a weight or start."""

    weight: NonNegativeFloat = 1.0
    """Relative weight of this level among the scenarios if all levels are trained on at once."""
    starts_at: NonNegativeInt = 0
    """Env-steps at which training on this level alone begins, 0 for the first level; if 0 for all levels, all are
    trained on at once."""


@dataclass(frozen=True)
class EvalLevel(Level):
    """Level of an evaluation, with a number of scenarios."""

    num_episodes: NonNegativeInt = 10
    """Number of scenarios of the level."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for item in fields(Level):
            value = getattr(self, item.name)
            is_valid = item.name in _EVAL_LEVEL_FIELDS or value == item.default
            require(is_valid, f"level.{item.name}", value, f"{item.default} in an evaluation")


LEVEL_CLASSES: dict[str, type[Level]] = {"training_schedule": TrainingLevel, "eval_schedule": EvalLevel}
"""Class of the levels of each schedule, by section of the configuration."""
_SIZE_COLUMNS = {name: name for name in SIZE_FIELDS}
LEVEL_COLUMNS = {
    "training_schedule": _SIZE_COLUMNS | {"timesteps": "starts_at"},
    "eval_schedule": _SIZE_COLUMNS | {"num_episodes": "num_episodes"},
}
"""Field of a level that each column of a schedule fills in files of the original project, by section and column."""


def convert_levels(kind: type[LevelType], levels: Iterable[Level]) -> tuple[LevelType, ...]:
    """Convert levels to the class ``kind``, a subclass of Level or Level itself; fields that it lacks are dropped."""
    names = {item.name for item in fields(kind)}
    return tuple(kind(**{name: value for name, value in vars(level).items() if name in names}) for level in levels)


def read_levels(section: str, layers: Iterable[Mapping[str, Any]], scale: VesselScale) -> tuple[Level, ...]:
    """Return the levels of a schedule, which the settings state as objects or as columns.

    The name of a configuration in place of objects stands for its levels of this schedule. A column, such as
    ``num_robots`` in files of the original project, is a list with a number for each level, which overrides a field of
    the levels. Columns of all SIZE_FIELDS replace the levels by new ones.
    """
    kind, key = LEVEL_CLASSES[section], f"{section}.levels"
    rows: list[Any] = [scaled_level(level, scale.length, scale.speed) for level in LEVELS]
    for layer in layers:
        if layer.get(key) is not None:
            rows = _as_list(_find_levels(section, layer[key]))
        stated = {name: layer.get(f"{section}.{name}") for name in LEVEL_COLUMNS[section]}
        columns = {name: _as_list(column) for name, column in stated.items() if column is not None}
        if columns.keys() >= {*SIZE_FIELDS}:
            rows = [{}] * len(columns["num_robots"])
        rows = [_stated_fields(kind, row, f"{key}: level {number}") for number, row in enumerate(rows, 1)]
        for name, column in columns.items():
            allowed = f"{len(rows)} long, one for each level; levels of another number are {key}"
            require(len(column) == len(rows), f"{section}.{name}", tuple(column), allowed)
            rows = [row | {LEVEL_COLUMNS[section][name]: value} for row, value in zip(rows, column, strict=True)]
    return tuple(_make_level(kind, row, f"{key}: level {number}", scale) for number, row in enumerate(rows, 1))


def _find_levels(section: str, levels: Any) -> Any:
    """Return the stated levels of a schedule; if the name of a configuration is stated, return the levels it lists."""
    if not isinstance(levels, str):
        return levels
    key, file = f"{section}.levels", find_shipped("configs", Path(levels))
    hint = "" if file.is_file() else did_you_mean(levels, shipped_paths("configs"))
    listed = flatten(read_json(file)).get(key) if file.is_file() else None
    require(isinstance(listed, list), key, levels, f"a list of levels, or a configuration that has one{hint}")
    return listed


def _as_list(value: Any) -> list[Any]:
    """Return a list or tuple as a list, and a single value as a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _stated_fields(kind: type[Level], level: Any, key: str) -> dict[str, Any]:
    """Return the stated fields of a level by name: entries of an object, or fields of a Level that ``kind`` has."""
    require(isinstance(level, dict | Level), key, level, 'an object such as {"like": "crossing"}')
    names = [item.name for item in fields(kind)]
    if isinstance(level, Level):
        return {name: value for name, value in vars(level).items() if name in names}
    for name, value in level.items():
        if name not in (*names, "like"):
            raise ConfigError(f"{key}: {unknown_setting_message(name, value, names)}")
    return level


def _make_level(kind: type[LevelType], stated: dict[str, Any], key: str, scale: VesselScale) -> LevelType:
    """Make a level from its stated fields; the others are those of the level named by ``like``, or the defaults.

    The path of its maps becomes absolute, since a run may go on in another folder.
    """
    like, values = stated.get("like"), {name: value for name, value in stated.items() if name != "like"}
    maps = values.get("maps")
    if isinstance(maps, str) and maps not in ("", RANDOM_MAPS):
        values["maps"] = str(Path(maps).expanduser().absolute())
    is_valid = like is None or (isinstance(like, str) and like in NAMED_LEVELS)
    allowed = f"one of {', '.join(NAMED_LEVELS)}"
    require(is_valid, f"{key}: like", like, f"{allowed}{did_you_mean(like, NAMED_LEVELS)}")
    base = kind() if like is None else NAMED_LEVELS[like]
    try:
        return kind(**vars(scaled_level(base, scale.length, scale.speed)) | values)
    except ConfigError as error:
        raise ConfigError(str(error).replace("level.", f"{key}: ", 1)) from error


def level_to_dict(level: Level) -> dict[str, Any]:
    """Return the fields of a level to save, by name: its sizes, and those that differ from their defaults."""
    return {
        item.name: getattr(level, item.name)
        for item in fields(level)
        if item.name in (*SIZE_FIELDS, "num_episodes") or getattr(level, item.name) != item.default
    }
