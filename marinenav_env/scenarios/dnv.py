"""Reader of traffic situations of DNV's ship-traffic-generator (the package ``trafficgen``), as JSON.

Generated situations have ``ownShip`` and ``targetShips`` with waypoints. Inputs of the generator have ``encounters``
instead of targets; these determine where the targets start if bearing, relative speed and vector time are numbers. Keys
are read in camelCase and in snake_case. Speeds are in knots, positions in degrees of latitude and longitude, which
are converted to metres on the plane that touches the WGS 84 ellipsoid at the own ship.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from typing import Any

from marinenav_env.scenarios.nodes import Node
from marinenav_env.scenarios.situations import (
    Point,
    Ship,
    Situation,
    bearing,
    count_turns,
    first_course,
    has_speed_changes,
    waypoints_ahead,
)
from marinenav_env.support.validation import ConfigError

KNOT = 1852.0 / 3600.0
"""Speed of one knot (m/s)."""
MINUTE = 60.0
"""Duration of one minute (s)."""
MAX_SHIP_SPEED = 100.0
"""Largest accepted speed of a ship (knots)."""
_EQUATORIAL_RADIUS, _ECCENTRICITY = 6_378_137.0, 0.0818191908426
"""Semi-major axis of the WGS 84 ellipsoid (m), and its eccentricity."""
ENCOUNTER_ABBREVIATIONS = {
    "head-on": "HO",
    "crossing-give-way": "CR-GW",
    "crossing-stand-on": "CR-SO",
    "overtaking-give-way": "OT-GW",
    "overtaking-stand-on": "OT-SO",
}
"""Abbreviation of each type of encounter, as used in the titles of situations."""


def is_dnv(content: Any) -> bool:
    """Return whether parsed JSON is a traffic situation of DNV."""
    return isinstance(content, dict) and not content.keys().isdisjoint({"ownShip", "own_ship"})


def parse_dnv(content: Any, name: str) -> Situation:
    """Convert a traffic situation of DNV's generator, or an input of the generator, to a situation.

    Args:
        content: parsed JSON.
        name: source of the content, for error messages.

    Raises:
        ConfigError: if the content is invalid, or does not determine where the ships start.
    """
    root = Node(content, name)
    own = root.require("ownShip")
    title = root.get("title")
    origin = _latitude_and_longitude(_position(own))
    left_out: Counter[str] = Counter()
    own_ship = _read_ship(own, origin, left_out)
    targets = root.get("targetShips", "targetShip")
    if targets is not None:
        others = [_read_ship(target, origin, left_out) for target in targets.items(least=1)]
    else:
        encounters = root.get("encounters", "encounter")
        if encounters is None:
            raise ConfigError(f"{name}: the key 'targetShips' or 'encounters' is missing")
        others = [_target_ship(encounter, own_ship) for encounter in encounters.items(least=1)]
    return Situation(name if title is None else title.text(), (own_ship, *others), left_out=+left_out)


def _initial_state(ship: Node) -> Node:
    """Return the initial state of a ship, which in earlier versions of the format is the ship itself."""
    return ship.get("initial", "startPose") or ship


def _waypoints(ship: Node) -> list[Node]:
    """Return the waypoints of a ship; an empty list if it has none."""
    waypoints = ship.get("waypoints")
    return [] if waypoints is None else waypoints.items()


def _position(ship: Node) -> Node:
    """Return the initial position of a ship or, if it is not stated, the position of its first waypoint."""
    position, waypoints = _initial_state(ship).get("position"), _waypoints(ship)
    if position is None and waypoints:
        return waypoints[0].require("position")
    return _initial_state(ship).require("position") if position is None else position


def _latitude_and_longitude(position: Node) -> Point:
    """Return the latitude and longitude of a position (degrees)."""
    return position.require("lat", "latitude").number(-89.0, 89.0), position.require("lon", "longitude").number(
        -180.0, 180.0
    )


def _local_position(position: Node, origin: Point) -> Point:
    """Convert a position to north and east (m) of ``origin``, a latitude and longitude (degrees)."""
    latitude, longitude = _latitude_and_longitude(position)
    north, east = (math.radians(value) for value in (latitude - origin[0], (longitude - origin[1] + 180) % 360 - 180))
    sine = math.sin(math.radians(origin[0]))
    curvature = 1.0 - (_ECCENTRICITY * sine) ** 2
    prime = _EQUATORIAL_RADIUS / math.sqrt(curvature)
    meridian = prime * (1.0 - _ECCENTRICITY**2) / curvature
    place = meridian * north, prime * math.sqrt(1.0 - sine**2) * east
    if math.hypot(*place) > 1e6:
        raise position.error_for("within 1,000 km of the own ship")
    return place


def _read_ship(ship: Node, origin: Point, left_out: Counter[str]) -> Ship:
    """Return a ship on the course of its first leg, and count its turns at waypoints and changes of speed.

    Args:
        ship: own ship or target ship.
        origin: latitude and longitude of the position (0, 0) (degrees).
        left_out: number of features that are left out, by their type in words, to which the counts are added.
    """
    initial, waypoints = _initial_state(ship), _waypoints(ship)
    position = _local_position(_position(ship), origin)
    speed = initial.get("sog", "speed") or (_speed_at_waypoint(waypoints[0]) if waypoints else None)
    if speed is None:
        raise ConfigError(f"{ship.place}: the key 'sog' is missing")
    stated = initial.get("cog", "course") or initial.get("heading")
    points = [_local_position(waypoint.require("position"), origin) for waypoint in waypoints]
    degrees = None if stated is None else stated.number(-360.0, 360.0)
    ahead = waypoints_ahead(position, points)
    course = first_course(position, ahead, degrees)
    if course is None:
        raise ConfigError(f"{ship.place}: the key 'cog' is missing, and there is no waypoint ahead")
    speeds = [speed.number(0.0, MAX_SHIP_SPEED)]
    for stated_speed in filter(None, map(_speed_at_waypoint, waypoints)):
        with suppress(ConfigError):  # such as 102.3, which is "not available" in AIS; these speeds are not used
            speeds.append(stated_speed.number(0.0, MAX_SHIP_SPEED))
    left_out["turns at waypoints"] += count_turns([position, *ahead])
    left_out["changes of speed"] += has_speed_changes(speeds)
    return Ship(position, course, KNOT * speeds[0])


def _speed_at_waypoint(waypoint: Node) -> Node | None:
    """Return the speed at a waypoint, which versions of the format state in different places; None if none does."""
    for place in (waypoint.get("leg"), waypoint):
        if place is None:
            continue
        data = place.get("data")
        nested = None if data is None else data.get("sog")
        speed = place.get("sog") or (None if nested is None else nested.get("value"))
        if speed is not None:
            return speed
    return None


def _target_ship(encounter: Node, own: Ship) -> Ship:
    """Return the other ship of an encounter, placed so that it meets the own ship after the encounter's vector time.

    The bearing and the two speeds allow one or two such starts. For ``overtaking-give-way`` the closer one is taken,
    from which the other's course is more like the own ship's; otherwise the farther one.

    Raises:
        ConfigError: if a number is missing or is a range, from which the generator draws, or no start is possible.
    """
    kind = encounter.require("desiredEncounterType")
    if kind.value not in [*ENCOUNTER_ABBREVIATIONS]:
        raise kind.error_for(f"one of {', '.join(ENCOUNTER_ABBREVIATIONS)}")
    limits = {"beta": (-360.0, 360.0), "relativeSpeed": (0.01, 100.0), "vectorTime": (0.01, 1e4)}
    numbers = []
    for key, (low, high) in limits.items():
        member = encounter.get(key)
        if member is None or isinstance(member.value, list):
            raise ConfigError(
                f"{encounter.place}: {key} must be one number, as trafficgen draws it otherwise; "
                "read the situations that it generates"
            )
        numbers.append(member.number(low, high))
    direction, time = own.course + math.radians(numbers[0]), MINUTE * numbers[2]
    speed = numbers[1] * own.speed
    way, reach = own.speed * time, speed * time
    beside = reach**2 - (way * math.sin(direction - own.course)) ** 2
    middle = way * math.cos(direction - own.course)
    roots = [middle + sign * math.sqrt(max(beside, 0.0)) for sign in (-1.0, 1.0)]
    distances = [root for root in roots if root > 0.0 and beside >= 0.0]
    if not distances:
        raise ConfigError(f"{encounter.place}: no ship on this bearing meets the own one at these speeds")
    distance = distances[0] if kind.value == "overtaking-give-way" else distances[-1]
    north, east = own.position
    place = (north + distance * math.cos(direction), east + distance * math.sin(direction))
    met = (north + way * math.cos(own.course), east + way * math.sin(own.course))
    return Ship(place, bearing(place, met), speed)
