"""Detection of implausible starts and goals of robots in an episode."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from marinenav_env.scenarios.encounter_sampler import ENCOUNTER_OFFSET
from marinenav_env.scenarios.scenario_file import Episode

Points = Sequence[Sequence[float]]

IN_OBSTACLE = "goals in an obstacle"
ON_OBSTACLE = "starts that touch an obstacle"
IN_CONTACT = "starts that touch another robot"
STARTS_OFF, GOALS_OFF = "starts off the map", "goals off the map"


def odd_starts(episode: Episode) -> Counter[str]:
    """Count the robots of an episode with an implausible start or goal, by the problem in words.

    Vessels touch as in the world, as circles of the collision radius. If the lines from start to goal all cross the
    centre of the map, the episode counts as an encounter, whose vessels may start and end off a small map.
    """
    start, goal, obstacles = episode.start, episode.goal, episode.obstacles
    hull_radius, scenario = episode.world.vessel.radius, episode.world.scenario
    area = (scenario.width, scenario.height)
    radius = hull_radius if isinstance(hull_radius, tuple) else (hull_radius,) * len(start)
    met = _is_encounter(start, goal, area, scenario.scale * ENCOUNTER_OFFSET)

    def checks(number: int) -> dict[str, bool]:
        hull, begin, end = radius[number], start[number], goal[number]
        others = [other for other in range(len(start)) if other != number]
        return {
            IN_OBSTACLE: any(math.dist(end, disc[:2]) < disc[2] for disc in obstacles),
            ON_OBSTACLE: any(math.dist(begin, disc[:2]) <= disc[2] + hull for disc in obstacles),
            IN_CONTACT: any(math.dist(begin, start[other]) <= radius[other] + hull for other in others),
            STARTS_OFF: not met and _is_off(begin, area),
            GOALS_OFF: not met and _is_off(end, area),
        }

    return Counter(kind for number in range(len(start)) for kind, applies in checks(number).items() if applies)


def _is_off(point: Sequence[float], area: tuple[float, float]) -> bool:
    """Return whether a point is outside the map, whose width and height are ``area`` (m)."""
    return not all(0.0 <= place <= side for place, side in zip(point, area, strict=True))


def _is_encounter(start: Points, goal: Points, area: tuple[float, float], offset: float) -> bool:
    """Return whether all lines from start to goal cross the centre of the map as in an encounter.

    Starts and goals deviate from such lines by up to ``offset`` (m) along either axis.
    """
    centre_x, centre_y = 0.5 * area[0], 0.5 * area[1]
    farthest = 1.01 * math.sqrt(2.0) * offset
    for (x, y), (goal_x, goal_y) in zip(start, goal, strict=True):
        dx, dy = goal_x - x, goal_y - y
        share = (dx * (centre_x - x) + dy * (centre_y - y)) / ((dx * dx + dy * dy) or 1.0)
        share = min(max(share, 0.0), 1.0)
        if math.dist((x + share * dx, y + share * dy), (centre_x, centre_y)) > farthest:
            return False
    return True
