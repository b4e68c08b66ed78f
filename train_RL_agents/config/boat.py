"""A boat by name among the settings: ``world.vessel=otter``, or a file, and the settings that follow from it."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from marinenav_env.support.validation import require
from marinenav_env.vessels import PUBLISHED, Scale, complete_vessel, make_vessel, read_vessel_file, scale_of
from marinenav_env.vessels import scaled_settings as settings_of_size

KEY = "world.vessel"


@dataclass(frozen=True)
class Boat:
    """Boat that the settings name."""

    derived: dict[str, Any]
    """Settings that follow from its size and speed, by dotted key, where none are stated."""
    scale: Scale | None
    """Ratios to the published vessel; None for that one."""


def take_boat(layers: Sequence[MutableMapping[str, Any]]) -> bool:
    """Replace the name of a boat by the settings of its file, and return whether one is named.

    A boat that a layer names takes the place of all settings of the vessel in the layers below; those beside its name
    are laid over its own.

    Args:
        layers: settings by dotted key, each laid over those before; changed.

    Raises:
        ConfigError: when there is no such boat, or its file is damaged or absurd.
    """
    is_named = False
    for number, layer in enumerate(layers):
        if layer.get(KEY) in (None, {}):
            continue
        name = layer.pop(KEY)
        require(isinstance(name, str), KEY, name, "the name or the file of a boat; its numbers are world.vessel.m, ...")
        for lower in layers[:number]:
            for key in [key for key in lower if key.startswith(f"{KEY}.")]:
                del lower[key]
        for key, value in read_vessel_file(str(name)).settings.items():
            layer.setdefault(f"{KEY}.{key}", value)
        is_named = True
    return is_named


def boat_of(read: Mapping[str, Any]) -> Boat:
    """Return the boat of settings by dotted key, all layers of them together.

    Raises:
        ConfigError: when a number of the boat is out of range.
    """
    start = f"{KEY}."
    stated = {
        key.removeprefix(start): value for key, value in read.items() if key.startswith(start) and value is not None
    }
    if stated["name"] == PUBLISHED:
        return Boat({}, None)
    settings = complete_vessel(stated)
    vessel = make_vessel(settings)
    follow = {f"{start}{key}": value for key, value in settings.items() if key not in stated}
    follow |= {f"world.{key}": value for key, value in settings_of_size(vessel).items()}
    return Boat(follow, scale_of(vessel))
