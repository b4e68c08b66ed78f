"""Settings that follow from a boat named in ``world.vessel``, such as ``world.vessel=otter`` or a vessel file."""

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
"""Key of the setting that names a boat."""
UNSCALED = Scale(1.0, 1.0, 1.0)
"""Scale of the published vessel."""


def merged_with_boat(file: dict[str, Any], last: dict[str, Any], whole: bool) -> tuple[dict[str, Any], Scale]:
    """Merge the settings of a file with overrides, and add those of the boat that they name.

    A boat named by the overrides replaces all vessel settings of the file. A vessel setting stated together with a name
    overrides that of the boat, unless it is null. Settings derived from the boat's size and speed apply unless they are
    stated.

    Args:
        file: settings of a file, by dotted key.
        last: settings that override those of the file, by dotted key.
        whole: whether the file has a complete configuration, in which stated settings cannot be told from defaults.

    Returns:
        The settings by dotted key, and the scale of the boat (UNSCALED if none or the published one is named).

    Raises:
        ConfigError: when there is no such boat, its file is damaged or implausible, or a number is out of range.
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
