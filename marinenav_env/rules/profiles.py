"""Named sets of definitions of encounters and duties, for the published vessel; docs/evaluation.md has the sources."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

from marinenav_env.config import ColregsConfig

_JUDGED = ("domain", "horizon", "stand_on_until")
_FIRST = [item.name for item in fields(ColregsConfig)].index("profile")
DEFINITIONS = (*_JUDGED, *(item.name for item in fields(ColregsConfig)[_FIRST + 1 :]))
"""Names of the settings that a profile gives values."""
LENGTHS = ("domain", "stand_on_until", "urgent_distance", "clear_distance")
"""Those of DEFINITIONS that are lengths (m), which are scaled with the vessel."""
TIMES = ("horizon", "confirm", "urgent_time", "act_within", "clear_time")
"""Those of DEFINITIONS that are times (s), which are scaled likewise."""
_AT_ONCE = {"confirm": 0.0, "urgent_time": 0.0, "urgent_distance": 0.0}
PROFILES: dict[str, dict[str, float]] = {
    "default": {},
    # commonocean-rules 1.0.3, times divided by 20: a control step is its time step of 10 s.
    "tum": {
        "domain": 10.0,
        "horizon": 21.0,
        "stand_on_until": 0.0,
        "head_on_courses": math.radians(175.0),
        "stern_bearing": math.radians(135.0),
        "confirm": 3.0,
        "urgent_time": 0.0,
        "urgent_distance": 0.0,
        "substantial_turn": math.radians(20.0),
        "substantial_slowing": 1.0,
        "stand_on_turn": math.radians(10.0),
        "act_within": 6.0,
    },
    # Hagen et al., Ocean Engineering 288 (2023), ranges divided by 70: the stand-on vessel may act within 700 m. It and
    # the next ask for both bearings; vessels of equal speed that would collide have each other half as far off.
    "hagen2023": {
        **_AT_ONCE,
        "head_on_courses": math.radians(154.0),
        "overtaking_bearing": math.radians(45.0),
        "substantial_turn": math.radians(30.0),
        "substantial_slowing": 0.25,
        "stand_on_turn": math.radians(30.0),
        "clear_distance": 28.5,
    },
    # BHV_AvdColregsV22 of MOOS-IvP, ranges divided by 9: it may act within 75 m (max_util_cpa_dist) if it stands on,
    # and vessels that move apart beyond 10 m (min_util_cpa_dist) are released at once.
    "moos": _AT_ONCE
    | {"head_on_courses": math.radians(156.0), "stand_on_until": 8.3, "clear_time": 0.5, "clear_distance": 1.1},
}
"""Settings of each profile that differ from the defaults."""


def profile_settings(name: str, length: float = 1.0, time: float = 1.0) -> dict[str, float]:
    """Return the settings of a profile, with lengths and times multiplied by factors; empty for an unknown name."""
    if name not in PROFILES:
        return {}
    factors = dict.fromkeys(LENGTHS, length) | dict.fromkeys(TIMES, time)
    settings = {setting: getattr(ColregsConfig(), setting) for setting in DEFINITIONS} | PROFILES[name]
    return {setting: value * factors.get(setting, 1.0) for setting, value in settings.items()}


def with_profile(rules: ColregsConfig, name: str, length: float = 1.0, time: float = 1.0) -> ColregsConfig:
    """Return rules of the sea with the definitions of a profile; arguments as in ``profile_settings``."""
    settings: dict[str, Any] = profile_settings(name, length, time) | {"profile": name}
    return replace(rules, **settings)
