"""Reader of traffic situations of DNV's ship-traffic-generator (the package ``trafficgen``), as JSON.

Generated situations have ``ownShip`` and ``targetShips`` with waypoints; keys are in camelCase or in snake_case. Speeds
are in knots, positions in degrees of latitude and longitude, which are converted to metres on the plane that touches
the WGS 84 ellipsoid at the own ship.
"""

import math
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

from marinenav_env.scenarios.nodes import Node
from marinenav_env.scenarios.situations import Point, Ship, Situation, guided_ship
from marinenav_env.support.validation import ConfigError

KNOT = 1852.0 / 3600.0
"""Speed of one knot (m/s)."""
MAX_SHIP_SPEED = 100.0
"""Largest accepted speed of a ship (knots)."""
ENCOUNTER_ABBREVIATIONS = {
    "head-on": "HO",
    "crossing-give-way": "CR-GW",
    "crossing-stand-on": "CR-SO",
    "overtaking-give-way": "OT-GW",
    "overtaking-stand-on": "OT-SO",
}
"""Abbreviation of each type of encounter, as used in the titles of situations."""
_EQUATORIAL_RADIUS, _ECCENTRICITY = 6_378_137.0, 0.0818191908426
"""Semi-major axis of the WGS 84 ellipsoid (m), and its eccentricity."""


def is_dnv(content: Any) -> bool:
    """Return whether parsed JSON is a traffic situation of DNV."""
    return isinstance(content, dict) and not content.keys().isdisjoint({"ownShip", "own_ship"})


def parse_dnv(content: Any, name: str) -> Situation:
    """Convert a traffic situation of DNV's generator to a situation."""
    root = Node(content, name)
    title, targets = root.get("title"), root.require("targetShips").items(least=1)
    nodes, left_out = (root.require("ownShip"), *targets), Counter[str]()
    origin = _latitude_and_longitude(_initial_place(nodes[0]))
    ships = tuple(_read_ship(node, origin, left_out) for node in nodes)
    return Situation(name if title is None else title.text(), ships, left_out=+left_out)


def _waypoints(ship: Node) -> list[Node]:
    stated = ship.get("waypoints")
    return [] if stated is None else stated.items()


def _initial_place(ship: Node) -> Node:
    """Return the object with the initial position of a ship: its initial state, or else its first waypoint."""
    initial, waypoints = ship.require("initial"), _waypoints(ship)
    return waypoints[0] if waypoints and initial.get("position") is None else initial


def _latitude_and_longitude(place: Node) -> Point:
    """Return the latitude and longitude of an object with a position (degrees)."""
    position = place.require("position")
    longitude = position.require("lon", "longitude").number(-180.0, 360.0)
    return position.require("lat", "latitude").number(-89.0, 89.0), longitude


def _read_ship(ship: Node, origin: Point, left_out: Counter[str]) -> Ship:
    """Return a ship in metres from ``origin``, and count what is left out of it."""
    initial, waypoints = ship.require("initial"), _waypoints(ship)
    course, legs = initial.get("cog") or initial.get("heading"), [waypoint.get("leg") for waypoint in waypoints]
    stated = [None if leg is None else leg.get("sog") for leg in legs]
    first = initial.get("sog") or (stated[0] if stated else None)
    speeds = [(first or initial.require("sog")).number(0.0, MAX_SHIP_SPEED)]
    for later in filter(None, stated):
        with suppress(ConfigError):  # such as 102.3, which is "not available" in AIS; these speeds are not used
            speeds.append(later.number(0.0, MAX_SHIP_SPEED))
    start, *points = (_metres_from(origin, place) for place in (_initial_place(ship), *waypoints))
    if any(math.hypot(*point) > 1e6 for point in (start, *points)):
        raise ConfigError(f"{ship.place}: must be within 1,000 km of the own ship")
    degrees = None if course is None else course.number(-360.0, 360.0)
    placed = guided_ship(ship, start, points, degrees, speeds, left_out)
    return replace(placed, speed=KNOT * placed.speed)


def _metres_from(origin: Point, place: Node) -> Point:
    """Return the position of an object in metres north and east of an origin in degrees."""
    latitude, longitude = _latitude_and_longitude(place)
    sine = math.sin(math.radians(origin[0]))
    curvature = 1.0 - (_ECCENTRICITY * sine) ** 2
    prime = _EQUATORIAL_RADIUS / math.sqrt(curvature)
    meridian = prime * (1.0 - _ECCENTRICITY**2) / curvature
    north, east = latitude - origin[0], (longitude - origin[1] + 180.0) % 360.0 - 180.0
    return meridian * math.radians(north), prime * math.sqrt(1.0 - sine**2) * math.radians(east)
