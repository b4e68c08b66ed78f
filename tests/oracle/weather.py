"""Force of wind and waves on one vessel, in plain floats; moments of waves by summing strips."""

import math
from collections.abc import Sequence

from .angles import to_body

Vector = list[float]
Wave = tuple[float, float, float]  # amplitude (m), frequency (rad/s), phase (rad)
STRIPS = 400


def wind_force(
    wind: Sequence[float], ground: Sequence[float], heading: float, length: float, width: float, height: float
) -> Vector:
    """Surge, sway and yaw (Fossen, ch. 10.1): gamma is the angle of attack of the relative wind."""
    u_w, v_w = to_body(heading, wind[0], wind[1])
    u, v = to_body(heading, ground[0], ground[1])
    u_rw, v_rw = u - u_w, v - v_w
    gamma = -math.atan2(v_rw, u_rw)
    pressure = 0.5 * 1.225 * (u_rw**2 + v_rw**2)
    frontal, lateral = width * height, length * height
    return [
        -0.7 * math.cos(gamma) * pressure * frontal,
        0.8 * math.sin(gamma) * pressure * lateral,
        0.1 * math.sin(2.0 * gamma) * pressure * lateral * length,
    ]


def wave_force(
    waves: Sequence[Wave],
    direction: float,
    seconds: float,
    pose: Sequence[float],
    mass: float,
    length: float,
    width: float,
) -> Vector:
    """Surge, sway and yaw: every piece of the hull is accelerated as the water would be there."""
    x, y, heading = pose[:3]
    total = [0.0, 0.0, 0.0]
    for i in range(STRIPS):
        along = length * ((i + 0.5) / STRIPS - 0.5)
        for j in range(STRIPS // 10):
            across = width * ((j + 0.5) / (STRIPS // 10) - 0.5)
            north = x + along * math.cos(heading) - across * math.sin(heading)
            east = y + along * math.sin(heading) + across * math.cos(heading)
            run = north * math.cos(direction) + east * math.sin(direction)
            pull = sum(a * w**2 * math.sin(w**2 / 9.81 * run - w * seconds + phase) for a, w, phase in waves)
            ahead, aside = to_body(heading, pull * math.cos(direction), pull * math.sin(direction))
            for k, each in enumerate((ahead, aside, along * aside)):
                total[k] += mass * each / (STRIPS * (STRIPS // 10))
    return total
