"""Reader of scenarios of NTNU's colav-simulator, as YAML or JSON.

Ships have ``csog_state`` (north and east in metres, speed in metres per second, course in degrees), ``waypoints``
(a list of norths and a list of easts) and ``speed_plan``. A ship is guided along its waypoints, so its course is that
of its first leg; the course of ``csog_state`` is used only where there is no waypoint ahead. ``goal_csog_state`` is its
goal. A ship with ``t_start`` (s) appears then. Maps, trackers, sensors and controllers are left out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from marinenav_env.scenarios.nodes import Node
from marinenav_env.scenarios.situations import (
    Point,
    Ship,
    Situation,
    count_turns,
    first_course,
    has_speed_changes,
    ships_at_first_time,
    waypoints_ahead,
)
from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import ConfigError

SHIP_LIST_KEY = "ship_list"
"""Key of the list of ships in scenarios of colav-simulator."""
MAX_YAML_CHARACTERS = 2**20
"""Largest number of characters accepted in a YAML file, because the YAML parser is slow."""
MAX_SHIP_SPEED = 100.0
"""Largest accepted speed of a ship (m/s)."""


def is_colav(content: Any) -> bool:
    """Return whether parsed YAML or JSON is a scenario of colav-simulator."""
    return isinstance(content, dict) and SHIP_LIST_KEY in content


def parse_yaml(text: str, name: str) -> Any:
    """Parse YAML of plain values; object tags, anchors and aliases raise an error.

    Args:
        text: YAML text.
        name: source of the text, for error messages.

    Raises:
        ConfigError: if the text is too long or is not such YAML, or PyYAML is not installed.
    """
    if len(text) > MAX_YAML_CHARACTERS:
        raise ConfigError(f"{name}: cannot be read as YAML (it has more than {MAX_YAML_CHARACTERS:,} characters)")
    yaml = import_optional("yaml", "yaml")
    try:
        # A few nested aliases could expand to more values than memory can hold.
        if any(isinstance(token, yaml.AnchorToken | yaml.AliasToken) for token in yaml.scan(text)):
            raise ConfigError(f"{name}: cannot be read as YAML (anchors and aliases are not read)")
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise ConfigError(f"{name}: cannot be read as YAML ({reason})") from error


def parse_colav(content: Any, name: str) -> Situation:
    """Convert a scenario of colav-simulator to a situation.

    Args:
        content: parsed YAML or JSON.
        name: source of the content, for error messages and as the name of a situation without one.

    Raises:
        ConfigError: if the content is invalid, or leaves the state of a ship for the simulator to draw.
    """
    root = Node(content, name)
    stated = root.get("name")
    left_out: Counter[str] = Counter()
    ships, times = [], []
    for ship in root.require(SHIP_LIST_KEY).items(least=1):
        state, waypoints = ship.get("csog_state"), ship.get("waypoints")
        points = [] if waypoints is None else _waypoint_positions(waypoints)
        plan = ship.get("speed_plan")
        speeds = [] if plan is None else [speed.number(0.0, MAX_SHIP_SPEED) for speed in plan.items()]
        degrees = None
        if state is not None:
            numbers = state.items(4, 4)
            position = _state_position(state)
            speed, degrees = numbers[2].number(0.0, MAX_SHIP_SPEED), numbers[3].number(-360.0, 360.0)
        elif points and speeds:
            position, speed = points[0], speeds[0]
        else:
            raise ConfigError(f"{ship.place}: the key 'csog_state' is missing, or waypoints with a speed_plan are")
        ahead, goal, start = waypoints_ahead(position, points), ship.get("goal_csog_state"), ship.get("t_start")
        course = first_course(position, ahead, degrees)
        if course is None:
            raise ConfigError(f"{ship.place}: there is no waypoint ahead")
        ships.append(Ship(position, course, speed, None if goal is None else _state_position(goal)))
        times.append(0.0 if start is None else start.number(0.0))
        left_out["turns at waypoints"] += count_turns([position, *ahead])
        left_out["changes of speed"] += has_speed_changes([speed, *speeds])
    drawn = root.get("n_random_ships")
    left_out["ships to be drawn"] += 0 if drawn is None else max(int(drawn.number(0.0)) + 1 - len(ships), 0)
    placed = ships_at_first_time(ships, times, left_out)
    return Situation(name if stated is None else stated.text(), placed, left_out=+left_out)


def _state_position(state: Node) -> Point:
    """Return the position, (north, east) in m, of a state of four numbers."""
    north, east, *_ = state.items(4, 4)
    return north.number(), east.number()


def _waypoint_positions(waypoints: Node) -> list[Point]:
    """Return positions, each (north, east) in m, from a list of the norths and a list of the easts of waypoints.

    Raises:
        ConfigError: if the lists differ in length.
    """
    norths, easts = (axis.items() for axis in waypoints.items(2, 2))
    if len(norths) != len(easts):
        raise waypoints.error_for("two lists of the same length, norths and easts")
    return [(north.number(), east.number()) for north, east in zip(norths, easts, strict=True)]
