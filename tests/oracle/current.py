"""The current: a sum of Rankine vortices (world specification, section Current)."""

import math
from collections.abc import Sequence

Core = tuple[float, float, bool, float]  # x, y, clockwise, circulation


def current_at(x: float, y: float, cores: Sequence[Core], core_radius: float) -> tuple[float, float]:
    """Water velocity at (x, y) in the world frame.

    A core turns the water like a solid body within its radius and like a free vortex outside.
    """
    total_x, total_y = 0.0, 0.0
    for core_x, core_y, clockwise, circulation in cores:
        to_core_x, to_core_y = core_x - x, core_y - y
        distance = math.hypot(to_core_x, to_core_y)
        if distance == 0.0:
            continue  # no direction there, and the solid-body speed is zero
        e_x, e_y = to_core_x / distance, to_core_y / distance
        if clockwise:
            tangent_x, tangent_y = -e_y, e_x
        else:
            tangent_x, tangent_y = e_y, -e_x
        if distance <= core_radius:
            speed = circulation * distance / (2.0 * math.pi * core_radius**2)
        else:
            speed = circulation / (2.0 * math.pi * distance)
        total_x += speed * tangent_x
        total_y += speed * tangent_y
    return total_x, total_y
