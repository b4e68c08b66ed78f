"""Settings that follow from a name: from a boat's in ``world.vessel``, and from a profile's in ``world.colregs``."""

from typing import Any

from marinenav_env.rules.profiles import profile_settings
from marinenav_env.support.validation import is_number, require
from marinenav_env.vessels import (
    PUBLISHED_VESSEL,
    VesselScale,
    complete_vessel,
    make_vessel,
    read_vessel_file,
    scale_of_vessel,
    scaled_settings,
)

BOAT_KEY = "world.vessel"
"""Key of the setting that names a boat, and of the section with the settings of the vessel."""
UNIT_SCALE = VesselScale(1.0, 1.0, 1.0)
"""Scale of the vessel of the original publication, from which other boats are scaled: all ratios are 1."""


def merge_boat_settings(
    file_settings: dict[str, Any], overrides: dict[str, Any], is_complete: bool
) -> tuple[dict[str, Any], VesselScale]:
    """Return the settings of a file and overrides with those of the boat that they name, and the scale of the boat.

    A boat named by the overrides replaces all vessel settings of the file. A vessel setting stated together with a name
    overrides that of the boat, unless it is null. Settings derived from the boat's size and speed apply unless stated.
    """
    prefix, is_named = f"{BOAT_KEY}.", False
    vessel: dict[str, Any] = {}
    for layer in (file_settings, overrides):
        name = layer.get(BOAT_KEY)
        if name not in (None, {}):
            allowed = f"the name or the file of a boat; its numbers are {BOAT_KEY}.m, ..."
            require(isinstance(name, str), BOAT_KEY, name, allowed)
            vessel, is_named = dict(read_vessel_file(name).settings), True
        stated = {key.removeprefix(prefix): value for key, value in layer.items() if key.startswith(prefix)}
        vessel |= {key: value for key, value in stated.items() if not (is_named and value is None)}
    scale, derived = UNIT_SCALE, dict[str, Any]()
    if is_named and vessel["name"] != PUBLISHED_VESSEL:
        vessel = complete_vessel(vessel)
        boat = make_vessel(vessel)
        scale = scale_of_vessel(boat)
        derived = {f"world.{name}": value for name, value in scaled_settings(boat).items()}
    read = (file_settings | derived if is_complete else derived | file_settings) | overrides
    others = {key: value for key, value in read.items() if not key.startswith(prefix)}
    return others | {f"{prefix}{name}": value for name, value in vessel.items()}, scale


def merge_profiles(read: dict[str, Any], file_settings: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Return settings with those of the profiles that a file and overrides name, except where others are stated.

    ``read`` are the settings of both, with those of their boat, whose scales apply to profiles.
    """
    scales = (read.get(f"world.scenario.{name}") for name in ("scale", "speed_scale"))
    length, speed = (value if is_number(value) and value > 0.0 else 1.0 for value in scales)  # others are refused later
    merged = dict(read)
    for layer, later in ((file_settings, overrides), (overrides, {})):
        named = profile_settings(str(layer.get("world.colregs.profile")), length, length / speed)
        settings = {f"world.colregs.{name}": value for name, value in named.items()}
        merged |= {key: value for key, value in settings.items() if key not in layer and key not in later}
    return merged
