"""Scalar oracle of a row of the observation entry ``duties``: a vessel's encounter with one other vessel."""

import math
from typing import Any

from .angles import wrap_pi
from .encounters import Encounter, Frame

ROLES = ("head-on", "give-way", "stand-on", "overtaking", "overtaken")
NOTHING = [0.0] * 12


def duty_row(encounter: Encounter, own: Frame, other: Frame, rules: Any, reach: float = 20.0) -> list[float]:
    """The row after a frame that the encounter has seen and judged; ``reach``: the distance (m) that counts as 1."""
    if not encounter.is_open:
        return NOTHING
    now, is_confirmed = encounter.now, encounter.phase == "confirmed"
    turn, speed = wrap_pi(own[2] - now.heading), math.hypot(own[3], own[4])
    left = math.hypot(own[0] - other[0], own[1] - other[1]) - (now.soon if is_confirmed else 0.0)
    numbers = [
        now.since * encounter.step / rules.horizon,
        turn / (3.0 * rules.substantial_turn),
        speed / max(now.speed, 1e-6) - 1.0,
        left / reach,
    ]
    flags = [now.acted, now.free or now.released]
    return [
        *(float(now.role == role) for role in ROLES),
        float(is_confirmed),
        *(min(max(number, -1.0), 1.0) for number in numbers),
        *map(float, flags),
    ]
