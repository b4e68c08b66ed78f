"""A boat by name among the settings: ``world.vessel=otter``, or a file, and the settings that follow from it."""

from __future__ import annotations

from typing import Any

from marinenav_env.support.validation import require
from marinenav_env.vessels import (
    PUBLISHED,
    Scale,
    complete_vessel,
    make_vessel,
    read_vessel_file,
    scale_of,
    scaled_settings,
)

KEY = "world.vessel"
"""Setting that names a boat."""
UNSCALED = Scale(1.0, 1.0, 1.0)
"""Scale of the published vessel."""


def merged_with_boat(file: dict[str, Any], last: dict[str, Any], whole: bool) -> tuple[dict[str, Any], Scale]:
    """Return settings by dotted key laid over one another, with those of a boat that is named.

    A boat that the last settings name takes the place of all settings of the vessel in a file; those beside its name
    are laid over its own, and null leaves these as they are. What follows from its size and speed counts unless stated.

    Args:
        file: settings of a file.
        last: settings laid over these.
        whole: the settings of the file are a whole configuration, of which it is not known what was stated.

    Returns:
        The settings, and the scale of the boat: UNSCALED if none is named, or the published one.

    Raises:
        ConfigError: when there is no such boat, its file is damaged or absurd, or a number is out of range.
    """
    prefix, is_named = f"{KEY}.", False
    vessel: dict[str, Any] = {}
    for layer in (file, last):
        name = layer.get(KEY)
        if name not in (None, {}):
            require(isinstance(name, str), KEY, name, f"the name or the file of a boat; its numbers are {KEY}.m, ...")
            vessel, is_named = dict(read_vessel_file(name).settings), True
        stated = {key.removeprefix(prefix): value for key, value in layer.items() if key.startswith(prefix)}
        vessel |= {key: value for key, value in stated.items() if not (is_named and value is None)}
    scale, derived = UNSCALED, dict[str, Any]()
    if is_named and vessel["name"] != PUBLISHED:
        vessel = complete_vessel(vessel)
        boat = make_vessel(vessel)
        scale = scale_of(boat)
        derived = {f"world.{name}": value for name, value in scaled_settings(boat).items()}
    read = (file | derived if whole else derived | file) | last
    others = {key: value for key, value in read.items() if not key.startswith(prefix)}
    return others | {f"{prefix}{name}": value for name, value in vessel.items()}, scale
