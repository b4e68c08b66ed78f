"""Levels of training and of evaluation, and how they are read and saved."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from marinenav_env import Level
from marinenav_env.levels import NAMED_LEVELS
from marinenav_env.support.validation import (
    ConfigError,
    NonNegative,
    Whole,
    brief,
    require,
)
from marinenav_env.vessels import Scale, scaled_level
from train_RL_agents.utils.closest import closest, did_you_mean

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


def as_levels(kind: type[AnyLevel], levels: Iterable[Level]) -> tuple[AnyLevel, ...]:
    """Return the same levels as those of another kind."""
    names = {item.name for item in fields(kind)}
    return tuple(kind(**{name: value for name, value in vars(level).items() if name in names}) for level in levels)


def make_level(kind: type[AnyLevel], stated: Any, key: str, scale: Scale | None = None) -> AnyLevel:
    """Make a level of its fields, and of those of the level that it is like.

    Args:
        kind: TrainingLevel or EvalLevel.
        stated: fields by name, perhaps with ``like``, or a level.
        key: name of the level in messages.
        scale: scale of the vessel, by which the lengths of the level that it is like are changed; None: as they are.

    Raises:
        ConfigError: when there is no such field or level to be like, or a value cannot be used.
    """
    names = [item.name for item in fields(kind)]
    if isinstance(stated, Level):
        stated = {name: value for name, value in vars(stated).items() if name in names}
    require(isinstance(stated, dict), key, stated, 'an object such as {"like": "crossing"}')
    like, values = stated.get("like"), {name: value for name, value in stated.items() if name != "like"}
    is_valid = like is None or (isinstance(like, str) and like in NAMED_LEVELS)
    allowed = f"one of {', '.join(NAMED_LEVELS)}"
    require(is_valid, f"{key}: like", like, f"{allowed}{did_you_mean(like, NAMED_LEVELS)}")
    for name, value in values.items():
        if name not in names:
            near = "".join(f"; the closest: {other}" for other in closest(name, names, 1))
            raise ConfigError(f"{key}: {name}={brief(value)}: there is no such setting{near}")
    base = vars(scaled(NAMED_LEVELS[like] if like is not None else kind(), scale)) if like or scale else {}
    try:
        return kind(**base | values)
    except ConfigError as error:
        raise ConfigError(str(error).replace("level.", f"{key}: ", 1)) from error


def scaled(level: AnyLevel, scale: Scale | None) -> AnyLevel:
    """Return a level with its lengths and its current changed by the scale of a vessel; None: as it is."""
    return level if scale is None else scaled_level(level, scale.length, scale.speed)


def level_dict(level: Level) -> dict[str, Any]:
    """Return a level as saved: its sizes, and what differs from the defaults."""
    return {
        item.name: getattr(level, item.name)
        for item in fields(level)
        if item.name in (*SIZES, "num_episodes") or getattr(level, item.name) != item.default
    }
