"""The COLREGs turn angle (world specification, section COLREGs term)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .angles import to_body, wrap_pi


@dataclass(frozen=True)
class ColregsParams:
    """Zones of the term; the defaults are those of the world specification."""

    min_speed: float = 0.5
    crossing_x: tuple[float, float] = (-9.0, 12.0)
    crossing_y: tuple[float, float] = (-17.0, 0.0)
    crossing_corner: tuple[float, float] = (12.0, -7.0)  # the line cutting off the zone starts here
    crossing_slope: float = -7.0 / 12.0
    crossing_psi: tuple[float, float] = (math.pi / 4.0, 3.0 * math.pi / 4.0)
    head_on_x: tuple[float, float] = (0.0, 17.0)
    head_on_y: float = 4.5
    head_on_psi: float = 3.0 * math.pi / 4.0
    margin: float = 1.0


def crossing_from_left(x: float, y: float, psi: float, p: ColregsParams) -> bool:
    """Whether the ego, at (x, y) heading psi in the object's frame, comes from its left."""
    in_box = p.crossing_x[0] <= x <= p.crossing_x[1] and p.crossing_y[0] <= y <= p.crossing_y[1]
    corner_x, corner_y = p.crossing_corner
    cut_off = y - corner_y > p.crossing_slope * (x - corner_x)
    return in_box and not cut_off and p.crossing_psi[0] <= psi <= p.crossing_psi[1]


def head_on(x: float, y: float, psi: float, p: ColregsParams) -> bool:
    """Whether the ego, at (x, y) heading psi in the object's frame, meets it head-on."""
    in_box = p.head_on_x[0] <= x <= p.head_on_x[1] and abs(y) <= p.head_on_y
    return in_box and abs(psi) > p.head_on_psi


def turn_angle(
    objects: Sequence[Sequence[float]],
    mask: Sequence[bool],
    own_velocity_body: tuple[float, float],
    own_radius: float = 0.5 * math.hypot(5.0, 2.5),
    params: ColregsParams = ColregsParams(),
) -> tuple[bool, float]:
    """(applies, phi) of the first kept object, nearest first, that the term applies to."""
    own_speed = math.hypot(*own_velocity_body)
    own_direction = math.atan2(own_velocity_body[1], own_velocity_body[0])
    for (p_x, p_y, v_x, v_y, radius), real in zip(objects, mask, strict=True):
        if not real or own_speed < params.min_speed or math.hypot(v_x, v_y) < params.min_speed:
            continue
        object_direction = math.atan2(v_y, v_x)
        x, y = to_body(object_direction, -p_x, -p_y)  # the ego, seen from the object
        psi = wrap_pi(own_direction - object_direction)
        if not (crossing_from_left(x, y, psi, params) or head_on(x, y, psi, params)):
            continue
        clear = radius + params.margin
        distance = math.hypot(p_x, p_y)
        if distance < clear:
            continue  # inside the margin there is no tangent to steer for
        tangent = math.asin(clear / distance)
        own_width = math.atan2(own_radius, math.sqrt(distance**2 - clear**2))
        desired = math.atan2(p_y, p_x) + tangent + own_width
        phi = wrap_pi(desired - own_direction)
        if phi > 0.0:
            return True, phi
    return False, 0.0
