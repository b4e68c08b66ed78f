"""Levels of training and of evaluation, and levels with a name that others are like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from marinenav_env import LEVELS, Level
from marinenav_env.support.validation import (
    ConfigError,
    NonNegative,
    Whole,
    brief,
    require,
)
from train_RL_agents.utils.closest import closest, did_you_mean

AnyLevel = TypeVar("AnyLevel", bound=Level)

CROSSING = Level(2, 0, 0, 0.0, encounter=True)
NAMED: dict[str, Level] = {
    **{f"published_{number}": level for number, level in enumerate(LEVELS, 1)},
    "crossing": CROSSING,
    "traffic": Level(2, 0, 0, 0.0, encounter=True, traffic=0.6),
    "narrow_crossing": Level(2, 0, 0, 0.0, encounter=True, traffic=0.05, separation=0.12),
    "currents": Level(6, 8, 8, 40.0),
    "crowd": Level(10, 0, 6, 40.0, map_size=60.0),
}
"""Levels that others may be like: published ones, encounters, vortices, a crowd on its own map."""
SIZES = ("num_robots", "num_cores", "num_obstacles", "min_start_goal_dis")
"""Fields that every level has a number of; columns of all of them make new levels."""
_VARIED = ("map_size", "traffic", "slow_vessel", "noise", "vessel_spread", "weather")
"""Fields that evaluations, whose vessels and maps are the world's, do not know."""


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
        for name in _VARIED:
            value, usual = getattr(self, name), getattr(Level, name)
            require(value == usual, f"level.{name}", value, f"{usual} in an evaluation")


def as_levels(kind: type[AnyLevel], levels: Iterable[Level]) -> tuple[AnyLevel, ...]:
    """Return the same levels as those of another kind."""
    names = {item.name for item in fields(kind)}
    return tuple(kind(**{name: value for name, value in vars(level).items() if name in names}) for level in levels)


def make_level(kind: type[AnyLevel], given: Any, key: str) -> AnyLevel:
    """Make a level of its fields, and of those of the level that it is like.

    Args:
        kind: TrainingLevel or EvalLevel.
        given: fields by name, perhaps with ``like``.
        key: what messages call the level.

    Raises:
        ConfigError: when a field or a name is not known, or a value cannot be used.
    """
    require(isinstance(given, dict), key, given, 'an object such as {"like": "crossing"}')
    values = dict(given)
    like, names = values.pop("like", None), [item.name for item in fields(kind)]
    fine = like is None or (isinstance(like, str) and like in NAMED)
    allowed = f"one of {', '.join(NAMED)}"
    require(fine, f"{key}: like", like, f"{allowed}{did_you_mean(like, NAMED)}")
    for name, value in values.items():
        if name not in names:
            near = f"; the closest: {found[0]}" if (found := closest(name, names, 1)) else ""
            raise ConfigError(f"{key}: {name}={brief(value)}: there is no such setting{near}")
    base = vars(NAMED[like]) if like is not None else {}
    try:
        return kind(**base | values)
    except ConfigError as error:
        raise ConfigError(str(error).replace("level.", f"{key}: ", 1)) from error


def level_dict(level: Level) -> dict[str, Any]:
    """Return a level as saved: its sizes, and what differs from the defaults."""
    return {
        item.name: getattr(level, item.name)
        for item in fields(level)
        if item.name in (*SIZES, "num_episodes") or getattr(level, item.name) != item.default
    }


def short_dict(level: Level) -> dict[str, Any]:
    """Return the fewest fields that make a level, ``like`` another or not."""
    options = [level_dict(level)]
    for name, base in NAMED.items():
        usual = {item.name: item.default for item in fields(level)} | vars(base)
        changed = {key: value for key, value in vars(level).items() if value != usual[key]}
        options.append({"like": name, **changed})
    return min(options, key=len)
