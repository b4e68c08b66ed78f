"""Reader of traffic situations of DNV's ship-traffic-generator (the package ``trafficgen``), as JSON.

Generated situations have ``ownShip`` and ``targetShips`` with waypoints. Inputs of the generator have ``encounters``
instead of targets; these determine where the targets start if bearing, relative speed and vector time are numbers. Keys
are read in camelCase and in snake_case. Speeds are in knots, positions in degrees of latitude and longitude, which
are converted to metres on the plane that touches the WGS 84 ellipsoid at the own ship. A file whose angles are all
within 2 pi has them in radians and its speeds in m/s, as some versions of the generator wrote them.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from marinenav_env.scenarios.situations import Point, Ship, Situation, bearing, guided_ship, moved
from marinenav_env.support.nodes import Node
from marinenav_env.support.validation import ConfigError, is_number
from marinenav_env.waters.projection import LocalPlane

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


@dataclass(frozen=True)
class _StatedShip:
    """A ship in the units of its file: degrees and knots, or radians and m/s."""

    node: Node
    places: list[Point]
    """Latitude and longitude of the initial position, then of the waypoints."""
    course: float | None
    speeds: list[float | None]
    """Initial speed, then the speeds from each waypoint on; None where unknown."""


def is_dnv(content: Any) -> bool:
    """Return whether parsed JSON is a traffic situation of DNV."""
    return isinstance(content, dict) and not content.keys().isdisjoint({"ownShip", "own_ship"})


def parse_dnv(content: Any, name: str) -> Situation:
    """Convert a traffic situation of DNV's generator, or an input of the generator, to a situation."""
    root = Node(content, name)
    title, targets = root.get("title"), root.get("targetShips", "targetShip")
    encounters = [] if targets else root.require("encounters", "encounter").items(least=1)
    ships = [_read_ship(root.require("ownShip")), *map(_read_ship, targets.items(least=1) if targets else [])]
    angles = [angle for ship in ships for angle in (*sum(ship.places, ()), ship.course or 0.0)]
    angles += [beta.value for encounter in encounters if (beta := encounter.get("beta")) and is_number(beta.value)]
    degree, knot = 1.0, 1.0
    if all(abs(angle) <= 2.0 * math.pi for angle in angles):
        degree, knot = math.degrees(1.0), 1.0 / KNOT
        warnings.warn(f"{name}: read as radians and m/s, since no angle exceeds 2 pi", stacklevel=2)
    left_out: Counter[str] = Counter()
    origin = ships[0].places[0]
    own, *others = (_placed_ship(ship, origin, degree, knot, ship is ships[0], left_out) for ship in ships)
    others += [_target_ship(encounter, own, degree) for encounter in encounters]
    return Situation(name if title is None else title.text(), (own, *others), left_out=+left_out)


def _read_ship(ship: Node) -> _StatedShip:
    """Return what a file states of a ship; in earlier versions of the format its initial state is the ship itself."""
    initial, stated = ship.get("initial", "startPose") or ship, ship.get("waypoints")
    waypoints = [] if stated is None else stated.items()
    start = initial.get("position") or (waypoints[0] if waypoints else initial.require("position"))
    speed = initial.get("sog", "speed") or (_speed_at_waypoint(waypoints[0]) if waypoints else None)
    course = initial.get("cog", "course") or initial.get("heading")
    speeds: list[float | None] = [(speed or initial.require("sog")).number(0.0, MAX_SHIP_SPEED)]
    for later in map(_speed_at_waypoint, waypoints):
        speeds.append(None)
        with suppress(ConfigError):  # such as 102.3, which is "not available" in AIS
            speeds[-1] = None if later is None else later.number(0.0, MAX_SHIP_SPEED)
    places = [_latitude_and_longitude(place) for place in (start, *waypoints)]
    return _StatedShip(ship, places, None if course is None else course.number(-360.0, 360.0), speeds)


def _latitude_and_longitude(place: Node) -> Point:
    """Return the latitude and longitude of a position, or of the position of a waypoint."""
    position = place.get("position") or place
    longitude = position.require("lon", "longitude").number(-180.0, 360.0)
    return position.require("lat", "latitude").number(-89.0, 89.0), longitude


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


def _placed_ship(
    ship: _StatedShip, origin: Point, degree: float, knot: float, is_own: bool, left_out: Counter[str]
) -> Ship:
    """Return a ship in metres from ``origin``; ``degree`` and ``knot`` convert the units of the file to these."""
    radii = LocalPlane(degree * origin[0], degree * origin[1]).radii()
    points = [
        (
            degree * (latitude - origin[0]) * radii[0],
            ((degree * (longitude - origin[1]) + 180.0) % 360.0 - 180.0) * radii[1],
        )
        for latitude, longitude in ship.places
    ]
    if any(math.hypot(*point) > 1e6 for point in points):
        raise ConfigError(f"{ship.node.place}: must be within 1,000 km of the own ship")
    course = None if ship.course is None else degree * ship.course
    speeds = [None if speed is None else KNOT * (knot * speed) for speed in ship.speeds]
    return guided_ship(ship.node, points[0], points[1:], course, speeds, is_own, left_out)


def _target_ship(encounter: Node, own: Ship, degree: float) -> Ship:
    """Return the other ship of an encounter, placed so that it meets the own ship after the encounter's vector time."""
    kind = encounter.require("desiredEncounterType")
    if kind.value not in [*ENCOUNTER_ABBREVIATIONS]:
        raise kind.error_for(f"one of {', '.join(ENCOUNTER_ABBREVIATIONS)}")
    limits = {"beta": (-360.0, 360.0), "relativeSpeed": (0.01, 100.0), "vectorTime": (0.01, 1e4)}
    numbers = []
    for key, bounds in limits.items():
        member = encounter.get(key)
        if member is None or isinstance(member.value, list):
            raise ConfigError(
                f"{encounter.place}: {key} must be one number, as trafficgen draws it otherwise; "
                "read the situations that it generates"
            )
        numbers.append(member.number(*bounds))
    direction, time = own.course + math.radians(degree * numbers[0]), 60.0 * numbers[2]
    speed, way = numbers[1] * own.speed, own.speed * time
    beside = (speed * time) ** 2 - (way * math.sin(direction - own.course)) ** 2
    middle = way * math.cos(direction - own.course)
    roots = [middle + sign * math.sqrt(max(beside, 0.0)) for sign in (-1.0, 1.0)]
    distances = [root for root in roots if root > 0.0 and beside >= 0.0]
    if not distances:
        raise ConfigError(f"{encounter.place}: no ship on this bearing meets the own one at these speeds")
    distance = distances[0] if kind.value == "overtaking-give-way" else distances[-1]
    place, met = moved(own.position, direction, distance), moved(own.position, own.course, way)
    return Ship(place, bearing(place, met), speed)
