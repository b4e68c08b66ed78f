"""Detection of implausible starts, goals and initial motions of robots, and currents, in an episode."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from marinenav_env.scenarios.encounter_sampler import MAX_PLACE_OFFSET
from marinenav_env.scenarios.episode import Episode
from marinenav_env.vessels import top_speed, value_for_robot
from marinenav_env.waters.shapes import ways_are_clear

Points = Sequence[Sequence[float]]
_VESSEL_SETTINGS = ("radius", "min_thrust", "max_thrust")

GOAL_IN_OBSTACLE = "goals in an obstacle"
START_ON_OBSTACLE = "starts that touch an obstacle"
START_IN_CONTACT = "starts that touch another robot"
START_OFF_MAP = "starts off the map"
GOAL_OFF_MAP = "goals off the map"
GOAL_OUT_OF_REACH = "goals farther than vessels get before the episode ends"
ANGLE_IN_DEGREES = "initial angles beyond a whole turn (in degrees?)"
ROUTE_OVER_LAND = "stated routes over land"
TOO_FAST = "initial speeds beyond twice the top speed"
THRUST_BEYOND_LIMITS = "initial thrusts beyond the limits of the thrusters"
CURRENT_TOO_FAST = "vortices with currents of more than 100 m/s"
_TOUCHING = 0.01
"""Distance from shores (m) below which a route is over land."""
MAX_CURRENT_SPEED = 100.0
"""Largest plausible speed of the water at the edge of a vortex core (m/s)."""


def count_implausible_starts(episode: Episode) -> Counter[str]:
    """Return how many robots, or vortices, of an episode have each problem, by the problem in words.

    Vessels touch as in the world. If the lines from start to goal all cross the centre of the map, the episode counts
    as an encounter, whose vessels may start and end off a small map.
    """
    start, goal, obstacles, vessel = episode.start, episode.goal, episode.obstacles, episode.world.vessel
    scenario = episode.world.scenario
    area, seconds = (scenario.width, scenario.height), episode.world.max_steps * episode.world.control_step
    shores = np.array(episode.shores).reshape(-1, 4)
    met = _is_encounter(start, goal, area, scenario.scale * MAX_PLACE_OFFSET)

    def checks(number: int) -> dict[str, bool]:
        begin, end, velocity, thrust = start[number], goal[number], episode.velocity[number], episode.thrust[number]
        hull, least, most = (value_for_robot(getattr(vessel, name), number) for name in _VESSEL_SETTINGS)
        others = [other for other in range(len(start)) if other != number]
        stated = episode.route[number : number + 1]
        points = [begin, *chain.from_iterable(stated), end]
        way, legs = sum(map(math.dist, points[:-1], points[1:])), np.array(points)
        leaves = episode.behaviour[number : number + 1] == ["track"]  # it may come from, and go, off the map
        gaps = [math.dist(begin, start[other]) - value_for_robot(vessel.radius, other) for other in others]
        angles = (episode.heading[number], velocity[2], *episode.thruster_angle[number])
        return {
            GOAL_IN_OBSTACLE: any(math.dist(end, disc[:2]) < disc[2] for disc in obstacles),
            START_ON_OBSTACLE: any(math.dist(begin, disc[:2]) <= disc[2] + hull for disc in obstacles),
            START_IN_CONTACT: any(gap <= hull for gap in gaps),
            START_OFF_MAP: not met and not leaves and _is_off_map(begin, area),
            GOAL_OFF_MAP: not met and not leaves and _is_off_map(end, area),
            GOAL_OUT_OF_REACH: not leaves and way > seconds * top_speed(vessel, number),
            ANGLE_IN_DEGREES: any(abs(angle) > 2.01 * math.pi for angle in angles),
            ROUTE_OVER_LAND: any(stated) and not ways_are_clear(legs[:-1], legs[1:], shores, _TOUCHING).all(),
            TOO_FAST: math.hypot(*velocity[:2]) > 2.0 * top_speed(vessel, number),
            THRUST_BEYOND_LIMITS: not all(1.01 * least <= side <= 1.01 * most for side in thrust),
        }

    counts = Counter(kind for number in range(len(start)) for kind, applies in checks(number).items() if applies)
    strongest = 2.0 * math.pi * scenario.core_radius * MAX_CURRENT_SPEED
    counts[CURRENT_TOO_FAST] = sum(abs(core[2]) > strongest for core in episode.cores)
    return +counts


def _is_off_map(point: Sequence[float], area: tuple[float, float]) -> bool:
    """Return whether a point is outside the map, whose width and height are ``area`` (m)."""
    return not all(0.0 <= place <= side for place, side in zip(point, area, strict=True))


def _is_encounter(start: Points, goal: Points, area: tuple[float, float], offset: float) -> bool:
    """Return whether all lines from start to goal cross the map's centre as in an encounter; ``area`` is its size."""
    centre_x, centre_y = 0.5 * area[0], 0.5 * area[1]
    farthest = 1.01 * math.sqrt(2.0) * offset
    for (x, y), (goal_x, goal_y) in zip(start, goal, strict=True):
        dx, dy = goal_x - x, goal_y - y
        share = (dx * (centre_x - x) + dy * (centre_y - y)) / ((dx * dx + dy * dy) or 1.0)
        share = min(max(share, 0.0), 1.0)
        if math.dist((x + share * dx, y + share * dy), (centre_x, centre_y)) > farthest:
            return False
    return True
