"""Reader of scenarios of NTNU's colav-simulator, as YAML or JSON.

Ships have ``csog_state`` (north and east in metres, speed in metres per second, course in degrees), ``waypoints``
(a list of norths and a list of easts) and ``speed_plan``. A ship is guided along its waypoints, so its course is that
of its first leg; the course of ``csog_state`` is used only where there is no waypoint ahead. A speed of the plan holds
from its waypoint on. ``goal_csog_state`` is its goal. A ship with ``t_start`` (s) appears then. Maps, trackers, sensors
and controllers are left out.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from marinenav_env.scenarios.situations import Point, Ship, Situation, guided_ship, ships_at_first_time
from marinenav_env.support.extras import import_optional
from marinenav_env.support.nodes import Node
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
    """Parse YAML of plain values; object tags, anchors and aliases, and too long a text, raise a ConfigError."""
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
    """Convert a scenario of colav-simulator, as parsed YAML or JSON, to a situation."""
    root = Node(content, name)
    stated = root.get("name")
    left_out: Counter[str] = Counter()
    stated_ships = root.require(SHIP_LIST_KEY).items(least=1)
    ships = [_read_ship(ship, ship is stated_ships[0], left_out) for ship in stated_ships]
    starts = [ship.get("t_start") for ship in stated_ships]
    times = [0.0 if start is None else start.number(0.0) for start in starts]
    drawn = root.get("n_random_ships", "n_random_ships_range")
    if drawn is not None:
        most = max(number.number(0.0) for number in (drawn.items(2, 2) if isinstance(drawn.value, list) else [drawn]))
        left_out["ships to be drawn"] = max(int(most) + 1 - len(ships), 0)
    left_out["files with ships of AIS"] = root.get("ais_data_file") is not None
    placed = ships_at_first_time(ships, times, left_out)
    return Situation(name if stated is None else stated.text(), placed, left_out=+left_out)


def _read_ship(ship: Node, is_own: bool, left_out: Counter[str]) -> Ship:
    """Return a ship at its own time of start, and count what is left out of it."""
    state, waypoints, plan, goal = (
        ship.get(key) for key in ("csog_state", "waypoints", "speed_plan", "goal_csog_state")
    )
    points = [] if waypoints is None else _waypoint_positions(waypoints)
    speeds = [] if plan is None else [speed.number(0.0, MAX_SHIP_SPEED) for speed in plan.items()]
    degrees = None
    if state is not None:
        position, numbers = _state_position(state), state.items(4, 4)
        speeds, degrees = [numbers[2].number(0.0, MAX_SHIP_SPEED), *speeds], numbers[3].number(-360.0, 360.0)
    elif points and speeds:
        position, speeds = points[0], [speeds[0], *speeds]
    else:
        raise ConfigError(f"{ship.place}: the key 'csog_state' is missing, or waypoints with a speed_plan are")
    placed = guided_ship(ship, position, points, degrees, speeds, is_own, left_out)
    return placed if goal is None else replace(placed, goal=_state_position(goal))


def _state_position(state: Node) -> Point:
    """Return the position, (north, east) in m, of a state of four numbers."""
    north, east, *_ = state.items(4, 4)
    return north.number(), east.number()


def _waypoint_positions(waypoints: Node) -> list[Point]:
    """Return positions, each (north, east) in m, from a list of the norths and a list of the easts of waypoints."""
    norths, easts = (axis.items() for axis in waypoints.items(2, 2))
    if len(norths) != len(easts):
        raise waypoints.error_for("two lists of the same length, norths and easts")
    return [(north.number(), east.number()) for north, east in zip(norths, easts, strict=True)]
