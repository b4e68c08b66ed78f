"""Distances along beams, one ray and one disc at a time (SensorConfig.scan_*)."""

import math
from collections.abc import Sequence

from .perception import Obstacle, Robot

Disc = tuple[float, float, float]  # x, y, radius


def beam_angles(beams: int, field: float) -> list[float]:
    """The middle of each of the beams' sectors, from port to starboard, relative to the bow."""
    sector = field / beams
    return [-field / 2.0 + sector / 2.0 + k * sector for k in range(beams)]


def distance_along(origin: tuple[float, float], angle: float, disc: Disc) -> float | None:
    """Distance from the origin to a disc in a direction (rad, world frame); None: no hit.

    By the law of cosines: the first root of d^2 - 2 d c cos(off) + c^2 - r^2 = 0.
    """
    x, y, radius = disc
    away_x, away_y = x - origin[0], y - origin[1]
    centre = math.hypot(away_x, away_y)
    if centre <= radius:
        return 0.0
    off = math.atan2(away_y, away_x) - angle
    discriminant = radius**2 - (centre * math.sin(off)) ** 2
    if discriminant < 0.0 or math.cos(off) < 0.0:
        return None
    return centre * math.cos(off) - math.sqrt(discriminant)


def scan(
    ego_index: int, robots: Sequence[Robot], obstacles: Sequence[Obstacle], beams: int, field: float, longest: float
) -> list[float]:
    """What one robot would measure without noise."""
    ego = robots[ego_index]
    discs: list[Disc] = list(obstacles)
    for index, robot in enumerate(robots):
        if index != ego_index and robot.active:
            discs.append((robot.state[0], robot.state[1], robot.radius))
    found = []
    for angle in beam_angles(beams, field):
        hits = [distance_along((ego.state[0], ego.state[1]), ego.state[2] + angle, disc) for disc in discs]
        found.append(min([longest, *(hit for hit in hits if hit is not None)]))
    return found
