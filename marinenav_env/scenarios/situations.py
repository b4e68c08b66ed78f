"""Traffic situations of other programs, and their scaling to the vessels and sensors of this world.

A situation has ships in metres and metres per second, the own ship first. ``scaled_episode`` converts it to an episode
by multiplying all speeds by one factor and all lengths by another, so times are multiplied by the ratio of the two.
This preserves bearings, courses, ratios of speeds, and which vessels meet where. The factors are

- of speeds: the own vessel (the fastest one, if the own vessel is at rest) has the speed OWN_SPEED, or less where the
  fastest vessel would otherwise exceed the share MAX_SPEED_SHARE of its top speed;
- of lengths: the smallest factor with all others at least MIN_DISTANCE_FROM_OWN from the own vessel at the start, the
  last closest approach to the own vessel at LATEST_APPROACH or before, the first at EARLIEST_APPROACH or after, and no
  two vessels closer than MIN_DISTANCE at the start. If limits conflict, the later one in this list applies. Without
  other vessels, the distance to the goal is LONE_VESSEL_DISTANCE.

The first closest approach is then delayed to fall midway between two control steps. A goal lies
DISTANCE_BEYOND_APPROACH beyond the closest approach, unless the situation states it. Vessels slower than the own vessel
get thrusters that sustain SPEED_RESERVE times their speed; the others have the thrusters of the world. Areas become
shores, except those on which a vessel that actions control starts or has its goal. Other ships that turn or change
their speed follow their tracks, whose lengths and times are scaled as the rest. What episodes cannot represent is left
out: turns and changes of speed of the own ship, which are counted in ``left_out``, and sizes and types of ships, and
depths.
"""

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from marinenav_env.config import MAX_WAYPOINTS, SHORE_SIZES, ScenarioConfig, VesselConfig, WorldConfig
from marinenav_env.scenarios.encounter_sampler import SAME_SPEED_SHARE
from marinenav_env.scenarios.episode import Episode, map_per_robot
from marinenav_env.scenarios.scenario_file import MAX_MAGNITUDE
from marinenav_env.support.nodes import Node
from marinenav_env.support.validation import ConfigError, require
from marinenav_env.vessels import holding_setpoints, largest_value, max_thrust_for_top_speed, top_speed, value_for_robot
from marinenav_env.waters.shapes import Floats, contains, edges_of, segment_distances, unite
from marinenav_env.waters.simplify import simplify

# These lengths, speeds and times are those of the default vessel; others have them times ``scenario.scale`` and so on.
OWN_SPEED = 2.0
"""Speed of the own vessel (m/s)."""
MAX_SPEED_SHARE = 0.9
"""Largest initial speed of a vessel, as a share of its top speed."""
MIN_DISTANCE_FROM_OWN = 25.0
"""Smallest initial distance of the other vessels from the own vessel (m)."""
MIN_DISTANCE = 10.0
"""Smallest initial distance of any two vessels (m)."""
EARLIEST_APPROACH = 12.0
"""Earliest time of the first closest approach of another vessel to the own vessel (s)."""
LATEST_APPROACH = 30.0
"""Latest time of the last closest approach of another vessel to the own vessel (s)."""
DISTANCE_BEYOND_APPROACH = 20.0
"""Distance that a vessel sails from the closest approach to its goal (m)."""
LONE_VESSEL_DISTANCE = 40.0
"""Distance from the start to the goal in a situation without other vessels (m)."""
MAP_MARGIN = 10.0
"""Distance from starts, goals and obstacles to the edge of the map (m)."""
SPEED_RESERVE = 1.25
"""Top speed of a vessel slower than the own vessel, relative to its initial speed."""
MIN_THRUSTER_SPEED = 0.3
"""Smallest speed that the thrusters of a vessel are made for (m/s)."""
MIN_TURN = math.radians(1.0)
"""Smallest difference of the courses of two legs that counts as a turn (rad)."""
MAX_STEADY_SPEED_DIFFERENCE = 0.05
"""Largest difference of the speeds of a ship that does not count as a change of speed, relative to the initial one."""
MIN_TRACK_SPEED = 0.1
"""Speed below which a ship is at rest at the end of its track (m/s)."""

Point = tuple[float, float]
"""Position: north and east (m)."""
TrackPoint = tuple[float, float, float]
"""Point of a track: time (s), north and east (m)."""


@dataclass(frozen=True)
class Ship:
    """Initial state of a ship of a situation, with its goal and later way if stated."""

    position: Point
    """Initial position, north and east (m)."""
    course: float
    """Initial course over ground (rad, clockwise from north)."""
    speed: float
    """Initial speed over ground (m/s)."""
    goal: Point | None = None
    """North and east of the ship's goal (m); None if not stated."""
    track: tuple[TrackPoint, ...] = ()
    """Later points that the ship follows, because it turns or changes its speed there; else empty."""
    route: tuple[Point, ...] = ()
    """Waypoints before the goal of a ship that is not bound to a track (m); empty: straight to the goal."""


@dataclass(frozen=True)
class Situation:
    """A traffic situation, as read from files of other programs."""

    name: str
    """Name of the situation, such as the title in its file."""
    ships: tuple[Ship, ...]
    """Ships, the own ship first."""
    obstacles: tuple[tuple[float, float, float], ...] = ()
    """North, east and radius of each obstacle (m)."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of features of the file that episodes cannot represent, by their type in words."""
    areas: tuple[tuple[Point, ...], ...] = ()
    """Polygons of land or of water that is too shallow, each by the positions of its corners (m)."""


def bearing(start: Point, end: Point) -> float:
    """Return the direction from one point to another (rad, clockwise from north)."""
    return math.atan2(end[1] - start[1], end[0] - start[0])


def moved(point: Point, course: float, distance: float) -> Point:
    """Return the point at a distance (m) from another in a direction (rad, clockwise from north)."""
    return point[0] + distance * math.cos(course), point[1] + distance * math.sin(course)


def waypoints_ahead(position: Point, waypoints: Sequence[Point]) -> list[Point]:
    """Return the waypoints that a ship has not passed; ships of other programs are guided along them, in order.

    A waypoint is passed if it is within 1 m, or the ship is on the leg from it to the next one, or beyond that leg.
    """
    north, east = position
    ahead, is_beyond = list(waypoints), False
    for (x, y), (next_x, next_y) in pairwise(waypoints):
        is_on_leg = (x - north) * (next_x - north) + (y - east) * (next_y - east) < 0.0
        is_beyond = (next_x - north) * (next_x - x) + (next_y - east) * (next_y - y) < 0.0
        if not (is_on_leg or is_beyond):
            break
        del ahead[0]
        if not is_beyond:
            break  # it has not come to the next legs, also where the route turns back
    if is_beyond:
        del ahead[0]  # the last one
    while ahead and math.dist(position, ahead[0]) <= 1.0:
        del ahead[0]
    return ahead


def guided_ship(
    node: Node,
    position: Point,
    waypoints: Sequence[Point],
    degrees: float | None,
    speeds: Sequence[float | None],
    is_own: bool,
    left_out: Counter[str],
) -> Ship:
    """Return a ship on the course to its first waypoint ahead, or on ``degrees``, if known, where none is ahead.

    The first of the speeds (m/s) is the initial one, the others, where known, hold from each waypoint on. A ship that
    turns or changes its speed ahead follows its waypoints; the own ship has them as its route to the last one, if they
    are not too many. ``left_out`` counts what is lost.
    """
    ahead = waypoints_ahead(position, waypoints)
    if not ahead and degrees is None:
        raise ConfigError(f"{node.place}: the course is missing, and there is no waypoint ahead")
    initial, later = speeds[0], [*speeds[1:], *[None] * len(waypoints)]
    assert initial is not None
    legs = [initial]
    for leg in range(len(waypoints) - len(ahead), len(waypoints)):
        known = later[leg - 1] if leg else None
        legs.append(legs[-1] if known is None else known)
    turns = count_turns([position, *ahead])
    changes = has_speed_changes(legs if ahead else [speed for speed in speeds if speed is not None])
    ship = Ship(position, bearing(position, ahead[0]) if ahead else math.radians(degrees or 0.0), initial)
    if ahead and not is_own and (turns or changes):
        return replace(ship, track=_track_along(position, ahead, legs[1:]))
    left_out["changes of speed"] += changes
    if is_own and turns and len(ahead) <= MAX_WAYPOINTS:
        return replace(ship, goal=ahead[-1], route=tuple(ahead[:-1]))
    left_out["turns at waypoints"] += turns
    return ship


def _track_along(start: Point, waypoints: Sequence[Point], speeds: Sequence[float]) -> tuple[TrackPoint, ...]:
    """Return the points of the track of a ship from a start along waypoints; it stays where its speed is 0."""
    time, points = 0.0, list[TrackPoint]()
    for place, point, speed in zip([start, *waypoints[:-1]], waypoints, speeds, strict=True):
        if speed < 1e-3:
            return (*points, (time + 1.0, *place))
        if math.dist(place, point) > 1e-3:
            time += math.dist(place, point) / speed
            points.append((time, *point))
    return tuple(points)


def count_turns(waypoints: Sequence[Point]) -> int:
    """Return how often the course along waypoints changes by more than MIN_TURN."""
    courses = [bearing(start, end) for start, end in pairwise(waypoints) if start != end]
    turns, before = 0, courses[0] if courses else 0.0
    for course in courses:
        if abs(math.remainder(course - before, 2.0 * math.pi)) > MIN_TURN:
            turns, before = turns + 1, course
    return turns


def ships_at_first_time(ships: Sequence[Ship], times: Sequence[float], left_out: Counter[str]) -> tuple[Ship, ...]:
    """Return ships at the earliest of the times (s) of their initial states, and count the later ones."""
    placed = []
    for ship, time in zip(ships, times, strict=True):
        delay, (north, east), speed = time - min(times), ship.position, _velocity_of_ship(ship)
        left_out["later starts"] += delay > 0.0
        track = tuple((seconds + delay, x, y) for seconds, x, y in ship.track)
        if track and delay > 0.0:
            track = ((delay, *ship.position), *track)
        placed.append(replace(ship, position=(north - delay * speed[0], east - delay * speed[1]), track=track))
    return tuple(placed)


def has_speed_changes(speeds: Sequence[float]) -> bool:
    """Return whether speeds differ by more than MAX_STEADY_SPEED_DIFFERENCE; the first is the initial one."""
    return max(speeds) - min(speeds) > MAX_STEADY_SPEED_DIFFERENCE * speeds[0]


# Similarity -------------------------------------------------------------------------------------


def _velocity_of_ship(ship: Ship) -> Point:
    """Return the velocity of a ship to the north and to the east (m/s)."""
    return ship.speed * math.cos(ship.course), ship.speed * math.sin(ship.course)


def time_to_closest_approach(own: Ship, other: Ship) -> float | None:
    """Return the time until two ships of constant velocity are closest (s); None if past, or for equal velocities."""
    place = [b - a for a, b in zip(own.position, other.position, strict=True)]
    speed = [b - a for a, b in zip(_velocity_of_ship(own), _velocity_of_ship(other), strict=True)]
    closing = math.hypot(*speed)
    if closing < 1e-3 * max(own.speed, other.speed, 1e-3):
        return None
    time = -(place[0] * speed[0] + place[1] * speed[1]) / closing**2
    return time if time > 0.0 else None


def similarity_factors(situation: Situation, world: WorldConfig) -> tuple[float, float]:
    """Return the factors on lengths and on speeds that scale a situation to a world, as the module docstring states."""
    own, *others = situation.ships
    length, pace = world.scenario.scale, world.scenario.speed_scale
    fastest, speeds = max(ship.speed for ship in situation.ships), 1.0
    if fastest > 1e-3:
        limits = [
            max(MAX_SPEED_SHARE * top_speed(world.vessel, robot), MIN_THRUSTER_SPEED * pace) / ship.speed
            for robot, ship in enumerate(situation.ships)
            if ship.speed > 0.0
        ]
        speeds = min(OWN_SPEED * pace / (own.speed or fastest), *limits)
    if not others:
        way = math.dist(own.position, own.goal) if own.goal else 0.0
        return (LONE_VESSEL_DISTANCE * length / way if way > 0.0 else speeds), speeds
    places = [ship.position for ship in situation.ships]
    nearest = min(math.dist(a, b) for index, a in enumerate(places) for b in places[:index])
    if nearest <= 1e-6:
        raise ConfigError(f"{situation.name}: two ships start at the same place")
    apart = MIN_DISTANCE_FROM_OWN * length / min(math.dist(own.position, other.position) for other in others)
    clear = MIN_DISTANCE * length / nearest
    times = [time for other in others if (time := time_to_closest_approach(own, other)) is not None]
    if not times:
        return max(apart, clear), speeds
    earliest, latest = (limit * world.scenario.time_scale for limit in (EARLIEST_APPROACH, LATEST_APPROACH))
    lengths = max(min(apart, latest * speeds / max(times)), earliest * speeds / min(times), clear)
    # Midway between two control steps, so that no two vessels are at one point when collisions are detected.
    step = world.control_step
    first = step * (math.ceil(min(times) * lengths / speeds / step - 1e-6) + 0.5)
    return first * speeds / min(times), speeds


# Episodes ---------------------------------------------------------------------------------------


def _scaled(situation: Situation, world: WorldConfig) -> Situation:
    """Return a situation scaled to the vessels of a world, with the own ship at the origin."""
    lengths, speeds = similarity_factors(situation, world)
    origin = situation.ships[0].position

    def scaled(point: Point) -> Point:
        return lengths * (point[0] - origin[0]), lengths * (point[1] - origin[1])

    ships = [
        Ship(
            scaled(ship.position),
            ship.course,
            speeds * ship.speed,
            ship.goal and scaled(ship.goal),
            tuple((lengths / speeds * time, *scaled((north, east))) for time, north, east in ship.track),
            tuple(map(scaled, ship.route)),
        )
        for ship in situation.ships
    ]
    obstacles = tuple((*scaled((north, east)), lengths * radius) for north, east, radius in situation.obstacles)
    return Situation(
        situation.name, tuple(ships), obstacles, areas=tuple(tuple(map(scaled, a)) for a in situation.areas)
    )


def _goals(ships: Sequence[Ship], scale: ScenarioConfig) -> list[Point]:
    """Return the goals of ships: the stated one, or beyond the closest approach; of tracks see ``goal_after_track``."""
    times = [time_to_closest_approach(ships[0], other) for other in ships[1:]]
    last = max((time for time in times if time is not None), default=EARLIEST_APPROACH * scale.time_scale)
    beyond, goals = DISTANCE_BEYOND_APPROACH * scale.scale, []
    for ship, time in zip(ships, [last, *times], strict=True):
        end = moved(ship.position, ship.course, ship.speed * (last if time is None else time) + beyond)
        goals.append(goal_after_track(_whole_track(ship), beyond) if ship.track else ship.goal or end)
    return goals


def goal_after_track(points: Sequence[Sequence[float]], reach: float) -> Point:
    """Return the goal of a vessel on a track of [time, x, y]: the end of the track, if it comes there only at the end.

    Otherwise, as at the end of a round trip or of a track at rest, the goal is ``reach`` (m) farther away than the
    track goes, so that the vessel does not end at it.
    """
    track = np.array(points)
    places, end = track[:, 1:], track[-1, 1:]
    legs = np.diff(track, axis=0)
    is_near = segment_distances(end, np.concatenate([places[:-1], places[1:]], -1))[0] < 0.5 * reach
    first = int(is_near.argmax())
    arrives = is_near[first:].all() and math.dist(places[first], end) >= 0.5 * reach
    if arrives and math.hypot(*legs[-1, 1:]) >= MIN_TRACK_SPEED * legs[-1, 0]:
        return float(end[0]), float(end[1])
    course, length = math.atan2(legs[-1, 2], legs[-1, 1]), float(np.hypot(*legs[:, 1:].T).sum())
    return moved((float(end[0]), float(end[1])), course, length + reach)


def _whole_track(ship: Ship) -> list[TrackPoint]:
    """Return the track of a ship from its initial position on; empty if it follows none."""
    return [(0.0, *ship.position), *ship.track] if ship.track else []


def scaled_episode(situation: Situation, world: WorldConfig) -> Episode:
    """Convert a situation to an episode of a world, whose vessels start with the thrust that keeps their speed.

    A situation with two ships at one place, or with distances that differ too much to be scaled, is refused.
    """
    scaled = _scaled(situation, world)
    ships, obstacles, count = scaled.ships, scaled.obstacles, len(scaled.ships)
    goals, tracks = _goals(ships, world.scenario), [_whole_track(ship) for ship in ships]
    corners = [*(ship.position for ship in ships), *goals, *(place for track in tracks for _, *place in track)]
    corners += [point for way in (*(ship.route for ship in ships), *scaled.areas) for point in way]
    corners += [(n + sign * r, e + sign * r) for n, e, r in obstacles for sign in (-1.0, 1.0)]
    if not all(abs(value) <= MAX_MAGNITUDE for corner in corners for value in corner):
        raise ConfigError(f"{situation.name}: the map must be at most {MAX_MAGNITUDE:g} m wide, in these lengths")
    low, high = ([fit(axis) for axis in zip(*corners, strict=True)] for fit in (min, max))
    margin = MAP_MARGIN * world.scenario.scale
    width, height = (b - a + 2.0 * margin for a, b in zip(low, high, strict=True))

    def moved(point: Iterable[float]) -> list[float]:
        return [value + (margin - least) for value, least in zip(point, low, strict=True)]

    world = map_per_robot(world, lambda values: values[:count] + values[-1:] * (count - len(values)))
    thrust = [_clipped_setpoints(world.vessel, ship.speed, robot) for robot, ship in enumerate(ships)]
    slow = _with_slow_thrusters(world.vessel, ships, MIN_THRUSTER_SPEED * world.scenario.speed_scale)
    world = replace(world, vessel=slow, scenario=replace(world.scenario, width=width, height=height))
    paths: dict[str, Any] = {}
    if any(tracks):
        paths["behaviour"], paths["onset"] = ["track" if track else "" for track in tracks], [0.0] * count
        paths["track"] = [[[time, *moved(point)] for time, *point in track] for track in tracks]
    if any(ship.route for ship in ships):
        paths["route"] = [list(map(moved, ship.route)) for ship in ships]
    steered = [(ship.position, goal) for ship, goal in zip(ships, goals, strict=True) if not ship.track]
    ends = np.array([moved(point) for pair in steered for point in pair])
    areas = [np.array([moved(point) for point in area]) for area in scaled.areas]
    return Episode(
        **paths,
        shores=_shores_around(areas, ends, world, situation.name),
        start=[moved(ship.position) for ship in ships],
        goal=list(map(moved, goals)),
        heading=[ship.course for ship in ships],
        velocity=[[*_velocity_of_ship(ship), 0.0] for ship in ships],
        thruster_angle=[[0.0, 0.0]] * count,
        thrust=thrust,
        obstacles=[[*moved(obstacle[:2]), obstacle[2]] for obstacle in obstacles],
        world=world,
        states_penalty=False,
    )


def _shores_around(areas: Sequence[Floats], ends: Floats, world: WorldConfig, name: str) -> list[list[float]]:
    """Return the shores around areas (m), with land on their left, except areas at the ends of voyages [N, 2] (m)."""
    clearance = 1.5 * largest_value(world.vessel.radius)
    edges = [edges_of([area], 0.01, closed=True) for area in areas]
    kept = [
        area
        for area, sides in zip(areas, edges, strict=True)
        if len(sides) and not contains([sides], ends).any()
        if segment_distances(ends[:, None], sides)[0].min() > clearance
    ]
    if len(kept) < len(areas):
        warnings.warn(f"{name}: left out {len(areas) - len(kept)} areas at starts or goals of vessels", stacklevel=4)
    if not kept:
        return []
    corner = np.concatenate(kept).min(0) - 1.0
    width, height = (np.concatenate(kept).max(0) - corner + 1.0).tolist()
    try:
        lines = list(unite([[area - corner] for area in kept], [], (width, height)).chains())
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    shores, _ = simplify(lines, SHORE_SIZES[-1], 0.02, 0.01 * max(width, height))
    require(len(shores) <= SHORE_SIZES[-1], f"{name}: shores", len(shores), f"at most {SHORE_SIZES[-1]} segments")
    return np.round(shores + np.tile(corner, 2), 2).tolist()


def _clipped_setpoints(vessel: VesselConfig, speed: float, robot: int) -> list[float]:
    """Return the two setpoints (N) with which a robot keeps a speed, within the limits of its thrusters."""
    low, high = (value_for_robot(value, robot) for value in (vessel.min_thrust, vessel.max_thrust))
    return [min(max(value, low), high) for value in holding_setpoints(vessel, speed, robot)]


def _with_slow_thrusters(vessel: VesselConfig, ships: Sequence[Ship], slowest: float) -> VesselConfig:
    """Return the settings of the vessels, with a smaller ``max_thrust`` for those slower than the own vessel."""
    base = [value_for_robot(vessel.max_thrust, robot) for robot in range(len(ships))]
    limits = [
        min(limit, max_thrust_for_top_speed(vessel, SPEED_RESERVE * max(ship.speed, slowest), robot))
        if ship.speed < SAME_SPEED_SHARE * ships[0].speed
        else limit
        for robot, (limit, ship) in enumerate(zip(base, ships, strict=True))
    ]
    return vessel if limits == base else replace(vessel, max_thrust=tuple(limits))
