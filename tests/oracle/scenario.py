"""Constraints of random scenarios (world specification, section Scenario)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .current import Core
from .perception import Obstacle

Point = tuple[float, float]


@dataclass(frozen=True)
class ScenarioParams:
    """The map and its clearances, with the names of ScenarioConfig; the defaults are those of the world
    specification."""

    width: float = 55.0
    height: float = 55.0
    start_margin: float = 2.0  # starts and goals keep this far from the edge
    obstacle_margin: float = 5.0
    clear_r: float = 10.0
    core_radius: float = 0.5
    v_range: tuple[float, float] = (3.0, 3.0)
    v_rel_max: float = 1.0
    p: float = 0.8
    obs_r_range: tuple[float, float] = (1.0, 1.0)
    draws: int = 500


def distance(a: Sequence[float], b: Sequence[float]) -> float:
    """Distance between the first two coordinates."""
    return math.hypot(a[0] - b[0], a[1] - b[1])


def leaves_map(centre: Sequence[float], radius: float, p: ScenarioParams) -> bool:
    """Whether a disc leaves the map."""
    x, y = centre[0], centre[1]
    return x < radius or y < radius or x > p.width - radius or y > p.height - radius


def cores_clash(a: Core, b: Core, p: ScenarioParams, tol: float = 0.0) -> bool:
    """Whether two cores are too close: the rule depends on whether they turn the same way."""
    d = distance(a, b)
    if a[2] == b[2]:
        return d < (a[3] + b[3]) / (2.0 * math.pi * p.v_rel_max) - tol
    strong, weak = max(a[3], b[3]), min(a[3], b[3])
    gap = d - 2.0 * p.core_radius
    if gap == 0.0:
        return True  # the speed at the boundary is infinite
    # Literally as specified: overlapping cores (a negative gap) never exceed the bound.
    bound = p.p * weak / (2.0 * math.pi * p.core_radius)
    return strong / (2.0 * math.pi * gap) > bound + tol


def robot_fits(start: Point, goal: Point, others: list[tuple[Point, Point]], way: float, p: ScenarioParams) -> bool:
    """Rule 1: a long enough way, clear of the accepted starts and goals."""
    clear = all(distance(start, its) > p.clear_r and distance(goal, end) > p.clear_r for its, end in others)
    return distance(start, goal) >= way and clear


def core_fits(core: Core, ends: list[Point], cores: list[Core], p: ScenarioParams) -> bool:
    """Rule 2: in the map, clear of starts and goals, compatible with the accepted cores."""
    return not (
        leaves_map(core, p.core_radius, p)
        or any(distance(core, end) <= p.core_radius + p.clear_r for end in ends)
        or any(cores_clash(core, other, p) for other in cores)
    )


def obstacle_fits(
    obstacle: Obstacle, ends: list[Point], cores: list[Core], obstacles: list[Obstacle], p: ScenarioParams
) -> bool:
    """Rule 3: in the map, clear of starts and goals, touching no core and no obstacle."""
    r = obstacle[2]
    return not (
        leaves_map(obstacle, r, p)
        or any(distance(obstacle, end) <= r + p.clear_r for end in ends)
        or any(distance(obstacle, core) <= p.core_radius + r for core in cores)
        or any(distance(obstacle, other) <= other[2] + r for other in obstacles)
    )
