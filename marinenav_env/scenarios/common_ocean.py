"""Reader of scenarios of CommonOcean (commonocean.cps.cit.tum.de) as XML.

The reader takes the initial state and the goal region of planning problems, which become the first vessels, dynamic
obstacles with their trajectories, which become the other vessels and are followed where they turn or change their
speed, static obstacles, and shallows. Circles become obstacles, rectangles and polygons shores. Waters, waterways,
signs, depths, hulls, waypoints and further goal states are left out.

CommonOcean has coordinates x and y, and orientations counter-clockwise from x. Here x is taken as north and y as west,
which preserves port and starboard, and the magnitudes of all numbers.
"""

import math
from collections import Counter
from xml.etree.ElementTree import Element

from marinenav_env.scenarios.situations import (
    Point,
    Ship,
    Situation,
    TrackPoint,
    has_speed_changes,
    ships_at_first_time,
)
from marinenav_env.support.nodes import MAX_ELEMENTS, MAX_MAGNITUDE, XmlNode, parse_xml
from marinenav_env.support.validation import ConfigError, require

Pose = tuple[Point, float]
"""Position: north and east (m); course (rad)."""
ORIGIN: Pose = ((0.0, 0.0), 0.0)
ROOT_TAG = "commonOcean"
MAX_SPEED = 100.0
"""Largest accepted speed (m/s)."""
MAX_TIME_STEP = 1e4
"""Largest accepted time step (s)."""
_LIMITS = {"time": (0.0, 1e6), "velocity": (0.0, MAX_SPEED), "orientation": (-MAX_MAGNITUDE, MAX_MAGNITUDE)}
"""Smallest and largest accepted value of quantities of a state."""
MAX_STRAIGHT_DEVIATION = math.radians(5.0)
"""Largest deviation from the initial course (rad) at which a track still counts as straight."""


def parse_common_ocean(text: str, name: str) -> Situation:
    """Convert the XML of a CommonOcean scenario to a situation; ``name`` is the source of the text, for messages."""
    root = parse_xml(text, name)
    require(root.value.tag == ROOT_TAG, f"{name}: root element", root.value.tag, ROOT_TAG)
    stated = Element("timeStepSize")
    stated.text = root.value.get("timeStepSize", "")
    time_step = XmlNode(stated, f"{name}.timeStepSize").number(1e-9, MAX_TIME_STEP)
    problems, dynamic, static = (root.every(tag) for tag in ("planningProblem", "dynamicObstacle", "staticObstacle"))
    shallow = root.every("shallow")
    most = max(map(len, (problems, dynamic, static, shallow)))
    has_vessels = len(problems) + len(dynamic) > 0 and most <= MAX_ELEMENTS
    require(has_vessels, name, "...", f"a scenario with a vessel and at most {MAX_ELEMENTS} of each kind")
    left_out: Counter[str] = Counter()
    ships = [_planned_ship(problem, left_out) for problem in problems]
    for obstacle in dynamic:  # the first vessel is the own ship
        ships.append(_dynamic_ship(obstacle, time_step, not ships, left_out))
    states = [vessel.require("initialState") for vessel in (*problems, *dynamic)]
    times = [time_step * (_state_value(state, "time") or 0.0) for state in states]
    obstacles: list[tuple[float, float, float]] = []
    areas: list[tuple[Point, ...]] = []
    for element in (*static, *shallow):
        circles, polygons = _read_shapes(element)
        left_out["other shapes"] += len(element.every("shape/*")) - len(circles) - len(polygons)
        obstacles += circles
        areas += polygons
    for tag in ("waters", "waterway", "draft", "trafficSign"):
        left_out[tag] += len(root.every(tag))
    return Situation(
        root.value.get("benchmarkID") or name,
        ships_at_first_time(ships, times, left_out),
        tuple(obstacles),
        left_out=+left_out,
        areas=tuple(areas),
    )


def _state_value(state: XmlNode, tag: str) -> float | None:
    """Return a quantity of a state: the exact one, or the middle of its interval; None if it is not stated."""
    value = state.get(tag)
    if value is None:
        return None
    if value.get("exact") is not None:
        return value.require("exact").number(*_LIMITS[tag])
    return 0.5 * sum(value.require(end).number(*_LIMITS[tag]) for end in ("intervalStart", "intervalEnd"))


def _read_point(element: XmlNode) -> Point:
    """Return north and east (m) of an element with the children x and y."""
    return element.require("x").number(), 0.0 - element.require("y").number()


def _region_centre(position: XmlNode) -> Point | None:
    """Return the point of a position, or the centre of the first shape of its region; None if there is neither."""
    for path in ("point", "circle/center", "rectangle/center"):
        if position.get(path) is not None:
            return _read_point(position.require(path))
    points = [_read_point(point) for point in position.every("polygon/point")]
    if not points:
        return None
    north, east = (sum(axis) / len(points) for axis in zip(*points, strict=True))
    return north, east


def _read_pose(state: XmlNode, is_vessel: bool = True) -> Pose:
    """Return the position (m) and the course (rad) of a state; those of an obstacle are 0 if they are not stated."""
    position, orientation = _region_centre(state.require("position")), _state_value(state, "orientation")
    if is_vessel and position is None:
        raise ConfigError(f"{state.place}: the element <position/point> is missing")
    if is_vessel:
        state.require("orientation")
    return position or (0.0, 0.0), 0.0 - (orientation or 0.0)


def _planned_ship(problem: XmlNode, left_out: Counter[str]) -> Ship:
    """Return the ship of a planning problem, and count features that are left out in ``left_out``."""
    state = problem.require("initialState")
    state.require("velocity")
    position, course = _read_pose(state)
    region = problem.require("goalState").get("position")
    left_out["further goal states"] += len(problem.every("goalState")) - 1
    left_out["waypoints"] += len(problem.every("waypoint"))
    return Ship(
        position, course, _state_value(state, "velocity") or 0.0, None if region is None else _region_centre(region)
    )


def _dynamic_ship(obstacle: XmlNode, time_step: float, is_own: bool, left_out: Counter[str]) -> Ship:
    """Return the ship of a dynamic obstacle with its track, and count features that are left out in ``left_out``."""
    state = obstacle.require("initialState")
    (position, course), speed, first = _read_pose(state), _state_value(state, "velocity"), _state_value(state, "time")
    first = first or 0.0
    track: list[TrackPoint] = []
    courses, speeds, before = [course], [speed], (first, position)
    for later in obstacle.every("trajectory/state"):
        (place, heading), pace = _read_pose(later), _state_value(later, "velocity")
        later.require("time")
        time = _state_value(later, "time") or 0.0
        if time == first and not track:  # some tracks begin with the initial state
            speeds[0] = pace if speed is None else speed
            continue
        require(time == int(time) and time > before[0], f"{later.place}.time", time, "increasing counts")
        way = math.dist(place, before[1])
        speeds.append(min(way / ((time - before[0]) * time_step), MAX_SPEED) if pace is None else pace)
        before = time, place
        track.append((time_step * (time - first), *place))
        courses.append(heading)
    known = [each for each in speeds if each is not None]
    require(len(known) > 0, obstacle.place, "...", "a vessel with a velocity or a trajectory")
    turns = any(abs(math.remainder(each - course, 2.0 * math.pi)) > MAX_STRAIGHT_DEVIATION for each in courses)
    changes = has_speed_changes(known)
    if is_own:
        left_out["turns of tracks"] += turns
        left_out["changes of speed"] += changes
    return Ship(position, course, known[0], track=() if is_own or not (turns or changes) else tuple(track))


def _placed(point: Point, pose: Pose) -> Point:
    """Return north and east (m) of a point that is given in the frame of a pose, ahead and to starboard."""
    (north, east), course = pose
    ahead, starboard = point
    north += ahead * math.cos(course) - starboard * math.sin(course)
    return north, east + ahead * math.sin(course) + starboard * math.cos(course)


def _read_shapes(element: XmlNode) -> tuple[list[tuple[float, float, float]], list[tuple[Point, ...]]]:
    """Return the circles and the polygons (m), also those of rectangles, of a static obstacle or a shallow."""
    pose = _read_pose(element.require("initialState"), False) if element.value.tag == "staticObstacle" else ORIGIN

    def centre_of(shape: XmlNode) -> Point:
        centre = shape.get("center")
        return (0.0, 0.0) if centre is None else _read_point(centre)

    circles = [
        (*_placed(centre_of(circle), pose), circle.require("radius").number(0.0))
        for circle in element.every("shape/circle")
    ]
    polygons = []
    for box in element.every("shape/rectangle"):
        length, width = (0.5 * box.require(tag).number(0.0) for tag in ("length", "width"))
        turn = box.get("orientation")
        inner = (centre_of(box), 0.0 if turn is None else 0.0 - turn.number())
        corners = ((length, width), (-length, width), (-length, -width), (length, -width))
        polygons.append(tuple(_placed(_placed(corner, inner), pose) for corner in corners))
    for polygon in element.every("shape/polygon"):
        points = [_read_point(point) for point in polygon.every("point")]
        require(3 <= len(points) <= MAX_ELEMENTS, polygon.place, len(points), f"3 to {MAX_ELEMENTS} points")
        polygons.append(tuple(_placed(point, pose) for point in points))
    return circles, polygons
