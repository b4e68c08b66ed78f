"""Random scenarios and their constraints (world specification, section Scenario).

A scenario is a dict: starts and goals [(x, y)], headings [theta], obstacles [(x, y, radius)] and
cores [(x, y, clockwise, circulation)].
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .current import Core
from .perception import Obstacle

Point = tuple[float, float]
Scenario = dict[str, list[Any]]


@dataclass(frozen=True)
class Level:
    """What one curriculum level asks for."""

    robots: int
    cores: int
    obstacles: int
    min_start_goal_dis: float


LEVELS: dict[int, Level] = {
    1: Level(3, 0, 0, 30.0),
    2: Level(4, 0, 0, 35.0),
    3: Level(5, 0, 0, 40.0),
    4: Level(5, 0, 2, 40.0),
    5: Level(5, 0, 3, 40.0),
    6: Level(5, 0, 4, 40.0),
}


@dataclass(frozen=True)
class ScenarioParams:
    """The map and its clearances; the defaults are those of the world specification."""

    width: float = 55.0
    height: float = 55.0
    robot_margin: float = 2.0  # starts and goals keep this far from the edge
    obstacle_margin: float = 5.0
    clear_r: float = 10.0
    core_radius: float = 0.5
    v_range: tuple[float, float] = (3.0, 3.0)
    v_rel_max: float = 1.0
    p: float = 0.8
    obs_r_range: tuple[float, float] = (1.0, 1.0)
    budget: int = 500


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


def robot_fits(
    start: Point, goal: Point, starts: list[Point], goals: list[Point], level: Level, p: ScenarioParams
) -> bool:
    """Rule 1: a long enough way, clear of the accepted starts and goals."""
    return (
        distance(start, goal) >= level.min_start_goal_dis
        and all(distance(start, other) > p.clear_r for other in starts)
        and all(distance(goal, other) > p.clear_r for other in goals)
    )


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


def uniform_point(rng: random.Random, margin: float, p: ScenarioParams) -> Point:
    """A point uniform on the map less a margin."""
    return rng.uniform(margin, p.width - margin), rng.uniform(margin, p.height - margin)


def sample(level: Level, rng: random.Random, params: ScenarioParams = ScenarioParams()) -> Scenario:
    """Draw a scenario; a loop whose budget runs out leaves fewer than asked."""
    p = params
    starts: list[Point] = []
    goals: list[Point] = []
    headings: list[float] = []
    for _ in range(p.budget):
        if len(starts) == level.robots:
            break
        start = uniform_point(rng, p.robot_margin, p)
        goal = uniform_point(rng, p.robot_margin, p)
        if robot_fits(start, goal, starts, goals, level, p):
            starts.append(start)
            goals.append(goal)
            headings.append(2.0 * math.pi * rng.random())

    ends = starts + goals
    cores: list[Core] = []
    for _ in range(p.budget):
        if len(cores) == level.cores:
            break
        centre = uniform_point(rng, 0.0, p)
        clockwise = rng.random() < 0.5
        circulation = 2.0 * math.pi * p.core_radius * rng.uniform(*p.v_range)
        core = (*centre, clockwise, circulation)
        if core_fits(core, ends, cores, p):
            cores.append(core)

    obstacles: list[Obstacle] = []
    for _ in range(p.budget):
        if len(obstacles) == level.obstacles:
            break
        centre = uniform_point(rng, p.obstacle_margin, p)
        obstacle = (*centre, rng.uniform(*p.obs_r_range))
        if obstacle_fits(obstacle, ends, cores, obstacles, p):
            obstacles.append(obstacle)

    return {"starts": starts, "goals": goals, "headings": headings, "cores": cores, "obstacles": obstacles}


def within(value: float, low: float, high: float, tol: float) -> bool:
    """Whether low <= value <= high, with slack."""
    return low - tol <= value <= high + tol


def check_robots(s: Scenario, level: Level, p: ScenarioParams, tol: float) -> list[str]:
    """Violations of rule 1."""
    found = []
    starts, goals, headings = s["starts"], s["goals"], s["headings"]
    if not len(starts) == len(goals) == len(headings):
        found.append("starts, goals and headings differ in number")
    if len(starts) > level.robots:
        found.append(f"{len(starts)} robots, {level.robots} asked")
    low = p.robot_margin
    high_x, high_y = p.width - low, p.height - low
    for name, points in (("start", starts), ("goal", goals)):
        for i, (x, y) in enumerate(points):
            if not (within(x, low, high_x, tol) and within(y, low, high_y, tol)):
                found.append(f"{name} {i} outside its square")
            for j in range(i):
                if distance(points[i], points[j]) <= p.clear_r - tol:
                    found.append(f"{name}s {j} and {i} within clear_r")
    for i, (start, goal) in enumerate(zip(starts, goals, strict=False)):
        if distance(start, goal) < level.min_start_goal_dis - tol:
            found.append(f"robot {i}: goal too near its start")
    for i, heading in enumerate(headings):
        if not 0.0 <= heading < 2.0 * math.pi:
            found.append(f"heading {i} outside [0, 2 pi)")
    return found


def check_disc(
    name: str, disc: Sequence[float], radius: float, ends: list[Point], p: ScenarioParams, tol: float
) -> list[str]:
    """Violations common to cores and obstacles: inside the map, clear of starts and goals."""
    found = []
    x, y = disc[0], disc[1]
    if not (within(x, radius, p.width - radius, tol) and within(y, radius, p.height - radius, tol)):
        found.append(f"{name} leaves the map")
    for k, end in enumerate(ends):
        if distance(disc, end) <= radius + p.clear_r - tol:
            found.append(f"{name} too near start or goal {k}")
    return found


def check_cores(s: Scenario, level: Level, p: ScenarioParams, tol: float) -> list[str]:
    """Violations of rule 2."""
    found = []
    cores, ends = s["cores"], s["starts"] + s["goals"]
    if len(cores) > level.cores:
        found.append(f"{len(cores)} cores, {level.cores} asked")
    for i, core in enumerate(cores):
        found += check_disc(f"core {i}", core, p.core_radius, ends, p, tol)
        if not within(core[3] / (2.0 * math.pi * p.core_radius), *p.v_range, tol):
            found.append(f"core {i}: edge speed outside v_range")
        for j in range(i):
            if cores_clash(cores[j], core, p, tol):
                found.append(f"cores {j} and {i} clash")
    return found


def check_obstacles(s: Scenario, level: Level, p: ScenarioParams, tol: float) -> list[str]:
    """Violations of rule 3."""
    found = []
    obstacles, ends = s["obstacles"], s["starts"] + s["goals"]
    if len(obstacles) > level.obstacles:
        found.append(f"{len(obstacles)} obstacles, {level.obstacles} asked")
    low = p.obstacle_margin
    high_x, high_y = p.width - low, p.height - low
    for i, (x, y, r) in enumerate(obstacles):
        if not (within(x, low, high_x, tol) and within(y, low, high_y, tol)):
            found.append(f"obstacle {i} outside its square")
        if not within(r, *p.obs_r_range, tol):
            found.append(f"obstacle {i}: radius outside obs_r_range")
        found += check_disc(f"obstacle {i}", (x, y), r, ends, p, tol)
        for j, core in enumerate(s["cores"]):
            if distance((x, y), core) <= p.core_radius + r - tol:
                found.append(f"obstacle {i} touches core {j}")
        for j in range(i):
            if distance((x, y), obstacles[j]) <= obstacles[j][2] + r - tol:
                found.append(f"obstacles {j} and {i} touch")
    return found


def check(scenario: Scenario, level: Level, params: ScenarioParams = ScenarioParams(), tol: float = 1e-9) -> list[str]:
    """Every violated constraint, as text; fewer robots, cores or obstacles than asked is legal.

    tol is the slack of each comparison: raise it for scenarios rounded to float32.
    """
    return (
        check_robots(scenario, level, params, tol)
        + check_cores(scenario, level, params, tol)
        + check_obstacles(scenario, level, params, tol)
    )
