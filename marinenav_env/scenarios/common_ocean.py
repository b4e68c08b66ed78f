"""Reader and writer of scenarios of CommonOcean (commonocean.cps.cit.tum.de) as XML.

The reader takes the initial state and the goal region of planning problems, which become the first vessels, dynamic
obstacles with their trajectories, which become the other vessels and are followed where they turn or change their
speed, static obstacles, and shallows. Circles become obstacles, rectangles and polygons shores. Waters, waterways,
signs, depths, hulls, waypoints and further goal states are left out.

CommonOcean has coordinates x and y, and orientations counter-clockwise from x. Here x is taken as north and y as west,
which preserves port and starboard, and the magnitudes of all numbers. A file that this module wrote has
``source="marinenav"``; its lengths and speeds are those of this world, so it is read without scaling, back to an equal
situation.
"""

import math
from collections import Counter
from decimal import Decimal
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from marinenav_env.scenarios.nodes import MAX_ELEMENTS, MAX_MAGNITUDE, XmlNode, parse_xml
from marinenav_env.scenarios.situations import (
    Point,
    Ship,
    Situation,
    TrackState,
    has_speed_changes,
    ships_at_first_time,
)
from marinenav_env.support.validation import ConfigError, require

Pose = tuple[Point, float]
"""Position: north and east (m); course (rad)."""
ROOT_TAG = "commonOcean"
SOURCE_NAME = "marinenav"
"""Value of the attribute ``source`` in files that this module writes."""
FORMAT_VERSION = "2022a"
MAX_SPEED = 100.0
"""Largest accepted speed (m/s)."""
MAX_TIME_STEP = 1e4
"""Largest accepted time step (s)."""
MAX_STEP_NUMBER = 10**6
"""Largest accepted number of a time step."""
MAX_STRAIGHT_DEVIATION = math.radians(5.0)
"""Largest deviation from the initial course (rad) at which a track still counts as straight."""
GOAL_RADIUS = 2.0
"""Radius of goal regions in written files (m)."""
DEFAULT_HULL = (5.0, 2.5)
"""Default length and width of vessels in written files (m)."""
MIN_AREA_SIDE = 100.0
"""Smallest side of the square navigable area in written files (m)."""


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
    times = [_initial_step(vessel.require("initialState")) for vessel in (*problems, *dynamic)]
    obstacles: list[tuple[float, float, float]] = []
    areas: list[tuple[Point, ...]] = []
    poses = [_static_pose(obstacle.require("initialState")) for obstacle in static]
    for element, pose in zip((*static, *shallow), (*poses, *[((0.0, 0.0), 0.0)] * len(shallow)), strict=True):
        circles, polygons = _read_shapes(element, pose)
        left_out["other shapes"] += len(element.every("shape/*")) - len(circles) - len(polygons)
        obstacles += circles
        areas += polygons
    for tag in ("waters", "waterway", "draft", "trafficSign"):
        left_out[tag] += len(root.every(tag))
    return Situation(
        root.value.get("benchmarkID") or name,
        ships_at_first_time(ships, times, time_step, left_out),
        tuple(obstacles),
        time_step,
        is_to_scale=root.value.get("source") == SOURCE_NAME,
        left_out=+left_out,
        areas=tuple(areas),
    )


def _initial_step(state: XmlNode) -> float:
    """Return the number of the time step of an initial state, 0 if it is not stated."""
    return 0.0 if state.get("time") is None else _state_value(state, "time", 0.0, MAX_STEP_NUMBER)


def _state_value(state: XmlNode, tag: str, low: float, high: float) -> float:
    """Return the value of a quantity of a state: the exact one, or its interval's middle."""
    value = state.require(tag)
    if value.get("exact") is not None:
        return value.require("exact").number(low, high)
    return 0.5 * sum(value.require(end).number(low, high) for end in ("intervalStart", "intervalEnd"))


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


def _read_pose(state: XmlNode) -> tuple[Point, float]:
    """Return the position (m) and the course (rad) of a state."""
    position = _region_centre(state.require("position"))
    if position is None:
        raise ConfigError(f"{state.place}: the element <position/point> is missing")
    return position, 0.0 - _state_value(state, "orientation", -MAX_MAGNITUDE, MAX_MAGNITUDE)


def _read_speed(state: XmlNode) -> float | None:
    """Return the speed of a state along its orientation (m/s); None if it is not stated."""
    return None if state.get("velocity") is None else _state_value(state, "velocity", 0.0, MAX_SPEED)


def _planned_ship(problem: XmlNode, left_out: Counter[str]) -> Ship:
    """Return the ship of a planning problem, and count features that are left out in ``left_out``."""
    state = problem.require("initialState")
    state.require("velocity")
    position, course = _read_pose(state)
    region = problem.require("goalState").get("position")
    left_out["further goal states"] += len(problem.every("goalState")) - 1
    left_out["waypoints"] += len(problem.every("waypoint"))
    return Ship(position, course, _read_speed(state) or 0.0, None if region is None else _region_centre(region))


def _dynamic_ship(obstacle: XmlNode, time_step: float, is_own: bool, left_out: Counter[str]) -> Ship:
    """Return the ship of a dynamic obstacle with its track, and count features that are left out in ``left_out``."""
    state = obstacle.require("initialState")
    position, course = _read_pose(state)
    speed = _read_speed(state)
    track: list[TrackState] = []
    first = _initial_step(state)
    before: TrackState = (first, *position, course, 0.0)
    for later in obstacle.every("trajectory/state"):
        where, heading = _read_pose(later)
        time, later_speed = _state_value(later, "time", 0.0, MAX_STEP_NUMBER), _read_speed(later)
        if time == before[0] and not track:  # some tracks begin with the initial state
            speed = later_speed if speed is None else speed
            continue
        require(time == int(time) and time > before[0], f"{later.place}.time", time, "increasing counts")
        if later_speed is None:
            later_speed = min(math.dist(where, before[1:3]) / ((time - before[0]) * time_step), MAX_SPEED)
        before = (time, *where, heading, later_speed)
        track.append((time - first, *before[1:]))
    require(speed is not None or len(track) > 0, obstacle.place, "...", "a vessel with a velocity or a trajectory")
    straight = all(abs(math.remainder(later[3] - course, 2.0 * math.pi)) <= MAX_STRAIGHT_DEVIATION for later in track)
    speed = track[0][4] if speed is None else speed
    changes = has_speed_changes([speed, *(later[4] for later in track)])
    if is_own:
        left_out["turns of tracks"] += not straight
        left_out["changes of speed"] += changes
    follows = not is_own and (changes or not straight)
    return Ship(position, course, speed, track=tuple(track), follows_track=follows)


def _static_pose(state: XmlNode) -> Pose:
    """Return the position (m) and the course (rad), 0 if not stated, of the state of a static obstacle."""
    if state.get("orientation") is not None:
        return _read_pose(state)
    return _region_centre(state.require("position")) or (0.0, 0.0), 0.0


def _placed(point: Point, pose: Pose) -> Point:
    """Return north and east (m) of a point that is given in the frame of a pose, ahead and to starboard."""
    (north, east), course = pose
    ahead, starboard = point
    north += ahead * math.cos(course) - starboard * math.sin(course)
    return north, east + ahead * math.sin(course) + starboard * math.cos(course)


def _read_shapes(element: XmlNode, pose: Pose) -> tuple[list[tuple[float, float, float]], list[tuple[Point, ...]]]:
    """Return the circles and the polygons (m), also those of rectangles, of an element whose shapes have a pose."""

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


# Writing ----------------------------------------------------------------------------------------


def write_common_ocean(path: str | Path, situation: Situation) -> None:
    """Write a situation in the lengths and speeds of this world as a scenario of CommonOcean.

    Ships with a track become dynamic obstacles, the others planning problems. ``situations.situation_from_episode`` and
    ``situations.scale_situation`` return such situations.
    """
    Path(path).write_text(common_ocean_text(situation), encoding="utf-8")


def common_ocean_text(situation: Situation, hull: tuple[float, float] = DEFAULT_HULL) -> str:
    """Return the XML of a situation to scale, in which vessels with a track have a length and width ``hull`` (m)."""
    require(situation.is_to_scale, "situation.to_scale", False, "true: lengths and speeds must be those of this world")
    planned = [not ship.track for ship in situation.ships]
    require(planned == sorted(planned, reverse=True), "situation.ships", "...", "those without a track first")
    stated = {
        "timeStepSize": _decimal_text(situation.time_step),
        "commonOceanVersion": FORMAT_VERSION,
        "author": SOURCE_NAME,
    }
    stated |= {"affiliation": "", "source": SOURCE_NAME, "benchmarkID": situation.name, "date": "2026-01-01"}
    root = Element(ROOT_TAG, stated)
    location = SubElement(root, "location")
    for tag in ("geoNameId", "gpsLatitude", "gpsLongitude"):
        SubElement(location, tag).text = "999" if tag.startswith("gps") else "-999"
    SubElement(SubElement(root, "scenarioTags"), "open_sea")
    _add_waters(root, situation)
    for identifier, (north, east, radius) in enumerate(situation.obstacles, 1):
        obstacle = SubElement(root, "staticObstacle", id=str(identifier))
        SubElement(obstacle, "type").text = "unknown"
        _add_numbers(SubElement(SubElement(obstacle, "shape"), "circle"), radius=radius)
        _add_state(obstacle, "initialState", (0, north, east, 0.0, None))
    first = len(situation.obstacles) + 1
    for identifier, ship in enumerate(situation.ships, first):
        if ship.track:
            _add_dynamic(root, str(identifier), ship, hull)
    for identifier, ship in enumerate(situation.ships, first):
        if not ship.track:
            _add_problem(root, str(identifier), ship)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _add_waters(root: Element, situation: Situation) -> None:
    """Add the navigable area, a square around everything, without which commonocean-io does not read a file."""
    points = [(north, east) for north, east, _ in situation.obstacles]
    for ship in situation.ships:
        points += [ship.position, *([ship.goal] if ship.goal else []), *(state[1:3] for state in ship.track)]
    rectangle = SubElement(SubElement(root, "navigationableArea"), "rectangle")
    side = 4.0 * max((abs(value) for point in points for value in point), default=0.0) + MIN_AREA_SIDE
    _add_numbers(rectangle, length=side, width=side, orientation=0.0)
    _add_point(SubElement(rectangle, "center"), (0.0, 0.0))


def _add_dynamic(root: Element, identifier: str, ship: Ship, hull: tuple[float, float]) -> None:
    """Add a ship with its track to the root element as a dynamic obstacle; ``hull`` is its length and width (m)."""
    obstacle = SubElement(root, "dynamicObstacle", id=identifier)
    SubElement(obstacle, "type").text = "motorvessel"
    rectangle = SubElement(SubElement(obstacle, "shape"), "rectangle")
    _add_numbers(rectangle, length=hull[0], width=hull[1])
    _add_state(obstacle, "initialState", (0, *ship.position, ship.course, ship.speed))
    trajectory = SubElement(obstacle, "trajectory")
    for state in ship.track:
        _add_state(trajectory, "state", state)


def _add_problem(root: Element, identifier: str, ship: Ship) -> None:
    """Add a ship with its goal, if it has one, as a planning problem."""
    problem = SubElement(root, "planningProblem", id=identifier)
    state = _add_state(problem, "initialState", (0, *ship.position, ship.course, ship.speed))
    _add_numbers(SubElement(state, "yawRate"), exact=0.0)
    goal = SubElement(problem, "goalState")
    if ship.goal is not None:
        circle = SubElement(SubElement(goal, "position"), "circle")
        _add_numbers(circle, radius=GOAL_RADIUS)
        _add_point(SubElement(circle, "center"), ship.goal)
    time = SubElement(goal, "time")
    SubElement(time, "intervalStart").text, SubElement(time, "intervalEnd").text = "0", str(MAX_STEP_NUMBER)


def _add_state(above: Element, tag: str, state: tuple[float, float, float, float, float | None]) -> Element:
    """Add a state: time step, north, east (m), course (rad), and speed (m/s) unless it is None."""
    time, north, east, course, speed = state
    element = SubElement(above, tag)
    _add_point(SubElement(SubElement(element, "position"), "point"), (north, east))
    _add_numbers(SubElement(element, "orientation"), exact=0.0 - course)
    SubElement(SubElement(element, "time"), "exact").text = str(round(time))
    if speed is not None:
        _add_numbers(SubElement(element, "velocity"), exact=speed)
    return element


def _add_point(element: Element, point: Point) -> None:
    """Add the x and y of a point that is given as north and east (m)."""
    _add_numbers(element, x=point[0], y=0.0 - point[1])


def _add_numbers(element: Element, **values: float) -> None:
    """Add one child element per keyword argument, with its name as tag and its number as text."""
    for tag, value in values.items():
        SubElement(element, tag).text = _decimal_text(value)


def _decimal_text(value: float) -> str:
    """Return a number as text with all its digits and without an exponent, which the format does not allow."""
    return format(Decimal(repr(float(value))), "f")
