"""Vessels by name or from a file, and the settings of the world that follow from a vessel's size and speed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from marinenav_env.config import ActuatorConfig, PerRobot, VesselConfig, WorldConfig
from marinenav_env.levels import Level
from marinenav_env.support.files import read_json
from marinenav_env.support.validation import ConfigError, is_number, is_printable_text, require

AnyLevel = TypeVar("AnyLevel", bound=Level)
Speed = TypeVar("Speed", float, Tensor)
"""Type of a speed or thrust, a number or a tensor of any shape."""

VESSEL_FILE_FORMAT, VESSEL_FILE_VERSION = "marinenav vessel", 1
"""Values of the keys ``format`` and ``version`` of a vessel file."""
PUBLISHED_VESSEL = "published"
"""Name of the default vessel, that of arXiv 2412.09466, which has no file."""
UNITS_BY_SETTING = {
    name: unit
    for unit, names in {
        "m": "length width radius detect_radius goal_distance cross_flow_length spacing position propeller_diameter",
        "N": "min_thrust max_thrust",
        "N/s": "max_thrust_rate left_thrust_change right_thrust_change",
        "kg": "m xDotU yDotV yRV yVR nVV nUV",
        "kg m^2": "Izz nDotR nRR",
        "kg m": "yDotR nDotV yRR nRV nVR",
        "kg/s": "xU yV",
        "kg/m": "xUU yVV rudder_lift",
        "kg m/s": "yR nV",
        "kg s/m^2": "xUUU yVVV",
        "kg/m^2": "cross_flow",
        "kg m^2/s": "nR",
        "kg m^2 s": "nRRR",
        "1": "power_coefficient single_rotation speed_exponent dead_band left_limit right_limit left_strength "
        "right_strength",
        "s": "lag",
        "rad": "angle_limit",
        "rad/s": "angle_rate",
    }.items()
    for name in names.split()
}
"""Unit of every number of a vessel file, by name; names of VesselConfig or ActuatorConfig."""
_ACTUATOR_SETTINGS = tuple(item.name for item in fields(ActuatorConfig))
_VESSEL_SETTINGS = tuple(item.name for item in fields(VesselConfig) if item.name not in ("name", "actuators"))
HYDRODYNAMIC_COEFFICIENTS = tuple(name for name in _VESSEL_SETTINGS if name[0] in "xyn" and name[1] in "DUVR")
"""Names of the added masses and damping coefficients of a vessel; those that a vessel file does not state are 0."""
_REQUIRED_SETTINGS = ("length", "width", "m", "Izz", "min_thrust", "max_thrust")
_DAMPING_COEFFICIENTS = ("xU", "xUU", "xUUU", "yV", "yVV", "yVVV", "nR", "nRR", "nRRR")
"""Names of the damping coefficients of surge, sway and yaw, each due to that motion itself; all must be at most 0."""
_SHARED_SETTINGS = ("left_thrust_change", "right_thrust_change")
"""Settings that are one list of numbers for all robots; in other settings a list has a number for each robot."""
_TEXT_KEYS = ("name", "about", "source", "licence")
_FILE_KEYS = ("format", "version", *_TEXT_KEYS, "approximated", "vessel")
_FULL_THRUST_TIME = 1.0
"""Time in which the default vessel reaches full thrust ahead from zero (s)."""
_MIN_LENGTH, _MAX_LENGTH = 0.1, 500.0
"""Bounds of the length of a plausible vessel (m)."""
_MIN_TOP_SPEED, _MAX_TOP_SPEED = 1.0 / 30.0, 50.0
"""Bounds of the top speed of a plausible vessel: the lower one in hull lengths per second, the upper one in m/s."""
_MAX_LAG, _MAX_ADDED_MASS_RATIO = 60.0, 25.0
"""Largest plausible time constant of the shaft speeds (s), and largest plausible ratio of added mass to mass (1)."""


class VesselFile(NamedTuple):
    """Content of a JSON file that describes a vessel."""

    name: str
    """Name of the vessel."""
    about: str
    """Description in one line."""
    source: str
    """Source of the numbers."""
    licence: str
    """Licence of the source."""
    approximated: tuple[str, ...]
    """Statements on what differs from the source."""
    settings: dict[str, Any]
    """Settings below ``world.vessel`` by dotted name: those that the file states, 0 for other hydrodynamic
    coefficients, and 1 for single_rotation unless it is stated."""

    @property
    def vessel(self) -> VesselConfig:
        """Configuration of the vessel, completed with the settings that follow from its size and thrust."""
        return make_vessel(complete_vessel(self.settings))


@dataclass(frozen=True)
class VesselScale:
    """Ratios of a vessel's length, top speed and largest thrust to those of the default vessel."""

    length: float
    """Ratio of the hull lengths (1); if robots differ, the longest counts."""
    speed: float
    """Ratio of the top speeds (1); if robots differ, the fastest counts."""
    thrust: float
    """Ratio of the largest thrusts (1); if robots differ, the strongest counts."""

    @property
    def time(self) -> float:
        """Ratio of the times (1) that the vessel and the default one take for their own length at top speed."""
        return self.length / self.speed


# Files ------------------------------------------------------------------------------------------


@cache
def vessel_files() -> dict[str, Path]:
    """Return the paths of the vessel files that come with the package, by vessel name."""
    package = Path(__file__).parent
    # setup.py adds the folder to a wheel; in a checkout it is next to the packages.
    inside = package / "shipped" / "vessels"
    folder = inside if inside.is_dir() else package.parent / "configs" / "vessels"
    return {file.stem: file for file in sorted(folder.glob("*.json"))}


def read_vessel(name: str | Path) -> VesselConfig:
    """Return the configuration of a vessel, given its name (``published``, or one of vessel_files) or its JSON file."""
    return read_vessel_file(name).vessel


def read_vessel_file(name: str | Path) -> VesselFile:
    """Return the content of a vessel file, or of the published vessel.

    Args:
        name: ``published``, the name of a vessel that comes with the package (see vessel_files), or a JSON file.

    Raises:
        ConfigError: when there is no such vessel, or its file is damaged or its numbers are not plausible.
    """
    if str(name) == PUBLISHED_VESSEL:
        about = "the vessel of the published world"
        return VesselFile(PUBLISHED_VESSEL, about, "arXiv 2412.09466", "", (), _all_settings(VesselConfig()))
    known = vessel_files()
    path = known.get(str(name), Path(name))
    is_file = path.suffix == ".json" or path.exists()
    require(is_file, "world.vessel", str(name), f"a JSON file or one of {', '.join((PUBLISHED_VESSEL, *known))}")
    content = read_json(path, "a vessel file")
    try:
        return _parse_vessel_file(content)
    except ConfigError as error:
        raise ConfigError(f"{path}: {str(error).removeprefix('world.vessel.')}") from error


def _all_settings(vessel: VesselConfig) -> dict[str, Any]:
    """Return all settings of a vessel by dotted name, such as ``length`` and ``actuators.lag``."""
    own = {name: value for name, value in vars(vessel).items() if name != "actuators"}
    return own | {f"actuators.{name}": value for name, value in vars(vessel.actuators).items()}


def make_vessel(settings: Mapping[str, Any]) -> VesselConfig:
    """Return the configuration of a vessel from settings by dotted name, such as ``actuators.lag``."""
    prefix = "actuators."
    actuators = {name.removeprefix(prefix): value for name, value in settings.items() if name.startswith(prefix)}
    own = {name: value for name, value in settings.items() if not name.startswith(prefix)}
    return VesselConfig(**own, actuators=ActuatorConfig(**actuators))


def _parse_vessel_file(content: Any) -> VesselFile:
    """Convert the parsed JSON of a vessel file to a VesselFile.

    Raises:
        ConfigError: when it is damaged or its numbers are not plausible.
    """
    require(isinstance(content, dict), "vessel file", content, "a JSON object")
    require(content.get("format") == VESSEL_FILE_FORMAT, "format", content.get("format"), VESSEL_FILE_FORMAT)
    require(content.get("version") == VESSEL_FILE_VERSION, "version", content.get("version"), str(VESSEL_FILE_VERSION))
    for key in content:
        require(key in _FILE_KEYS, "key", key, f"one of {', '.join(_FILE_KEYS)}")
    texts = {name: content.get(name, "") for name in _TEXT_KEYS}
    for name, text in texts.items():
        require(is_printable_text(text), name, text, "text without control characters")
    check_vessel_name(texts["name"])
    notes = content.get("approximated", [])
    require(isinstance(notes, list) and all(map(is_printable_text, notes)), "approximated", notes, "a list of texts")
    numbers = content.get("vessel")
    require(isinstance(numbers, dict), "vessel", numbers, "an object with numbers such as m")
    settings = dict(_read_numbers(numbers, _VESSEL_SETTINGS, ""))
    actuators = numbers.get("actuators", {})
    require(isinstance(actuators, dict), "actuators", actuators, "an object with numbers such as lag")
    settings |= dict(_read_numbers(actuators, _ACTUATOR_SETTINGS, "actuators."))
    for name in _REQUIRED_SETTINGS:
        require(name in settings, name, None, f"stated, in {UNITS_BY_SETTING[name]}")
    usual = dict.fromkeys(HYDRODYNAMIC_COEFFICIENTS, 0.0) | {"single_rotation": 1.0}
    settings = usual | settings | {"name": texts["name"]}
    _check_plausibility(make_vessel(settings))
    return VesselFile(texts["name"], texts["about"], texts["source"], texts["licence"], tuple(notes), settings)


def check_vessel_name(name: str, key: str = "name") -> None:
    """Refuse a name that a vessel file cannot have.

    Args:
        name: name of a vessel.
        key: key or option that states the name, for the message.

    Raises:
        ConfigError: when the name is empty, is PUBLISHED_VESSEL, or has control characters.
    """
    is_allowed = is_printable_text(name) and name not in ("", PUBLISHED_VESSEL)
    require(is_allowed, key, name, f"a name other than {PUBLISHED_VESSEL}, without control characters")


def _read_numbers(stated: dict[str, Any], names: tuple[str, ...], prefix: str) -> Iterator[tuple[str, Any]]:
    """Yield the dotted name and the value of each setting in a section of a vessel file, and check the stated units.

    Args:
        stated: settings of the section: values, or objects with the keys value, unit and source.
        names: names that are allowed in the section.
        prefix: prefix of the dotted names, empty or ``actuators.``.

    Raises:
        ConfigError: for an unknown name, a wrong unit, or a value that is not a number.
    """
    for name, given in stated.items():
        if not prefix and name == "actuators":
            continue
        key = prefix + name
        require(name in names, "setting", key, f"one of {', '.join(names)}")
        value, source = given, ""
        if isinstance(given, dict):
            require(given.keys() <= {"value", "unit", "source"}, key, given, "an object of value, unit and source")
            require("value" in given, key, given, "an object with a value")
            value, source, unit = given["value"], given.get("source", ""), given.get("unit")
            is_unit = unit is None or unit == UNITS_BY_SETTING.get(name)
            require(is_unit, f"{key}: unit", unit, UNITS_BY_SETTING.get(name, "left out"))
        require(is_printable_text(source), f"{key}: source", source, "text")
        values = value if isinstance(value, list) else [value]
        if name == "steering":
            require(bool(values), key, value, "a kind of steering, or a list of them")
        else:
            require(bool(values) and all(map(is_number, values)), key, value, "a number, or a list of numbers")
        yield key, value


def _check_plausibility(vessel: VesselConfig) -> None:
    """Raise an error for a vessel whose numbers are not plausible for a boat.

    Raises:
        ConfigError: when a number is not plausible.
    """
    for boat in _robot_settings(vessel):
        _check_hull_of_robot(boat)
        _check_actuators_of_robot(boat)
        speed = _robot_top_speed(boat)
        doubt = f"the top speed of {speed:.3g} m/s is not plausible"
        require(speed <= _MAX_TOP_SPEED, "xU", boat["xU"], f"larger in size: {doubt}")
        is_fast = speed >= _MIN_TOP_SPEED * boat["length"]
        require(is_fast, "max_thrust", boat["max_thrust"], f"larger: {doubt}")


def _check_hull_of_robot(boat: dict[str, Any]) -> None:
    """Raise ConfigError for implausible size, mass, damping or thrust of one robot, from its settings by name."""
    plausible = f"from {_MIN_LENGTH:g} to {_MAX_LENGTH:g} m"
    require(_MIN_LENGTH <= boat["length"] <= _MAX_LENGTH, "length", boat["length"], plausible)
    narrow = 0.02 * boat["length"] <= boat["width"] <= 3.0 * boat["length"]
    require(narrow, "width", boat["width"], f"from 0.02 to 3 lengths ({boat['length']:g} m)")
    density = boat["m"] / (boat["length"] ** 2 * boat["width"])
    require(density <= 1e3, "m", boat["m"], f"smaller: for its size it would be {density:.3g} kg/m^3")
    require(boat["max_thrust"] > 0.0, "max_thrust", boat["max_thrust"], "above 0")
    gyration = math.sqrt(boat["Izz"] / boat["m"])
    is_inside = 0.02 * boat["length"] <= gyration <= boat["length"]
    reach = f"such that sqrt(Izz / m), {gyration:.3g} m, is from 0.02 to 1 lengths"
    require(is_inside, "Izz", boat["Izz"], reach)
    for name in _DAMPING_COEFFICIENTS:
        require(boat[name] <= 0.0, name, boat[name], "at most 0: damping opposes the motion")
    for motion, names in (("surge", _DAMPING_COEFFICIENTS[:3]), ("yaw", (*_DAMPING_COEFFICIENTS[6:], "cross_flow"))):
        require(any(boat[name] for name in names), names[0], 0.0, f"below 0, or another damping of {motion}")
    sway, yaw = boat["m"] - boat["yDotV"], boat["Izz"] - boat["nDotR"]
    for name, whole in (("xDotU", boat["m"]), ("yDotV", boat["m"]), ("nDotR", boat["Izz"])):
        require(boat[name] <= 0.0, name, boat[name], "at most 0: water adds to the mass that accelerates")
        least = -_MAX_ADDED_MASS_RATIO * whole
        allowed = f"at least {least:g}, {_MAX_ADDED_MASS_RATIO:g} times what accelerates without water"
        require(boat[name] >= least, name, boat[name], allowed)
    for name in ("radius", "detect_radius", "cross_flow_length"):
        require(boat[name] <= 10.0 * boat["length"], name, boat[name], f"at most 10 lengths ({boat['length']:g} m)")
    is_positive = sway * yaw > boat["yDotR"] * boat["nDotV"]
    require(is_positive, "yDotR", boat["yDotR"], "such that the mass matrix can be inverted")


def _check_actuators_of_robot(boat: dict[str, Any]) -> None:
    """Raise ConfigError for implausible actuators of one robot, given its settings by dotted name."""
    lag, exponent, band = (boat[f"actuators.{name}"] for name in ("lag", "speed_exponent", "dead_band"))
    require(lag <= _MAX_LAG, "actuators.lag", lag, f"at most {_MAX_LAG:g} s")
    require(0.1 <= exponent <= 10.0, "actuators.speed_exponent", exponent, "from 0.1 to 10")
    require(band < 1.0, "actuators.dead_band", band, "below 1: the propellers would never turn")
    steering, lift = boat["actuators.steering"], boat["actuators.rudder_lift"]
    sides = ("left", "right") if steering == "thrusters" else ("left",)
    for name in ("limit", "strength"):
        shares = [boat[f"actuators.{side}_{name}"] for side in sides]
        require(any(shares), f"actuators.{sides[0]}_{name}", shares[0], "above 0 on one side: the boat has no thrust")
    for name in ("actuators.spacing", "actuators.position"):
        allowed = f"at most 3 lengths ({boat['length']:g} m) in size"
        require(abs(boat[name]) <= 3.0 * boat["length"], name, boat[name], allowed)
    require(steering != "rudder" or lift > 0.0, "actuators.rudder_lift", lift, "above 0 for a boat with a rudder")


# Sizes and speeds -------------------------------------------------------------------------------


def value_for_robot(value: Any, robot: int) -> Any:
    """Return the value of a setting for a robot, given its index; further robots have the last value of a tuple."""
    return value[min(robot, len(value) - 1)] if isinstance(value, tuple) else value


def _robot_settings(vessel: VesselConfig) -> list[dict[str, Any]]:
    """Return the settings of each robot by dotted name; one dict if all robots share all settings."""
    settings = _all_settings(vessel)
    values = [value for name, value in settings.items() if name not in _SHARED_SETTINGS]
    count = max(len(value) if isinstance(value, tuple) else 1 for value in values)
    return [{name: value_for_robot(value, robot) for name, value in settings.items()} for robot in range(count)]


@lru_cache(maxsize=256)
def top_speed(vessel: VesselConfig, robot: int | None = None) -> float:
    """Return the speed straight ahead under full thrust (m/s), of one robot, or of the fastest if ``robot`` is None."""
    robots = _robot_settings(vessel)
    return (
        max(map(_robot_top_speed, robots)) if robot is None else _robot_top_speed(robots[min(robot, len(robots) - 1)])
    )


def num_thrusters(steering: str) -> int:
    """Return the number of thrusters of a vessel, 1 or 2, given its type of steering (one of config.STEERING_TYPES)."""
    return 2 if steering == "thrusters" else 1


def holding_setpoints(vessel: VesselConfig, speed: Speed, robot: int = 0) -> tuple[Speed, Speed]:
    """Return the setpoints with which a robot with ideal actuators keeps a forward speed (m/s) in still water.

    Returns:
        Left and right thrust (N); with a single thruster its thrust, and 0 for its angle.
    """
    linear, quadratic, cubic, steering = (
        value_for_robot(value, robot) for value in (vessel.xU, vessel.xUU, vessel.xUUU, vessel.actuators.steering)
    )
    thrusters = num_thrusters(steering)
    thrust = -(linear + (quadratic + cubic * speed) * speed) / thrusters * speed
    return thrust, thrust if thrusters == 2 else 0.0 * thrust


def max_thrust_for_top_speed(vessel: VesselConfig, speed: float, robot: int = 0) -> float:
    """Return the ``max_thrust`` (N) with which a speed (m/s) is a robot's top speed; infinite if it has no thrust."""
    robots = _robot_settings(vessel)
    thrusters = _num_full_thrusters(robots[min(robot, len(robots) - 1)])
    return sum(holding_setpoints(vessel, speed, robot)) / thrusters if thrusters else math.inf


def _num_full_thrusters(boat: Mapping[str, Any]) -> float:
    """Return the total thrust of one robot under full commands over the largest thrust of a side (1).

    It is the number of thrusters unless their limits or strengths differ from 1.
    """
    count, total = num_thrusters(boat["actuators.steering"]), 0.0
    for side in ("left", "right")[:count]:
        shaft_speed = boat[f"actuators.{side}_limit"] ** boat["actuators.speed_exponent"]
        turns = shaft_speed >= boat["actuators.dead_band"]
        total += boat[f"actuators.{side}_strength"] * shaft_speed**2 * turns
    return total


def _robot_top_speed(boat: Mapping[str, Any]) -> float:
    """Return the speed of one robot at which drag balances full thrust (m/s), by bisection."""
    thrust = boat["max_thrust"] * _num_full_thrusters(boat)
    low, high = 0.0, 1e4
    for _ in range(100):
        speed = 0.5 * (low + high)
        drag = -(boat["xU"] + (boat["xUU"] + boat["xUUU"] * speed) * speed) * speed
        low, high = (speed, high) if drag < thrust else (low, speed)
    return 0.5 * (low + high)


def stopping_distance(vessel: VesselConfig) -> float:
    """Return the distance (m) from top speed to rest under full thrust astern; if robots differ, the longest."""
    return max(map(_robot_stopping_distance, _robot_settings(vessel)))


def _robot_stopping_distance(boat: Mapping[str, Any]) -> float:
    """Return the stopping distance of one robot (m), integrated over small time steps."""
    top, lag, sides = _robot_top_speed(boat), boat["actuators.lag"], _num_full_thrusters(boat)
    if sides * boat["max_thrust"] == 0.0:
        return 0.0
    mass, ahead, astern = boat["m"] - boat["xDotU"], sides * boat["max_thrust"], -sides * boat["min_thrust"]
    step = 1e-3 * (mass * top / ahead + lag)
    reached, speed, shaft, way = 1.0 - math.exp(-step / lag) if lag else 1.0, top, 1.0, 0.0
    # A vessel without thrust astern never quite stops, so a twentieth of the top speed counts as rest.
    while speed > 0.05 * top and way < 1e3 * boat["length"]:
        shaft += reached * (-1.0 - shaft)
        thrust = (astern if shaft < 0.0 else ahead) * shaft * abs(shaft)
        drag = -(boat["xU"] + (boat["xUU"] + boat["xUUU"] * speed) * speed) * speed
        way += step * speed
        speed += step * (thrust - drag) / mass
    return way


def scale_of_vessel(vessel: VesselConfig) -> VesselScale:
    """Return the ratios of a vessel's length, top speed and largest thrust to those of the default vessel.

    Raises:
        ConfigError: when no robot has any thrust.
    """
    usual, fastest = VesselConfig(), top_speed(vessel)
    without_thrust = "above 0, like one limit and one strength of the thrusters: the boat has no thrust"
    require(fastest > 1e-9, "world.vessel.max_thrust", vessel.max_thrust, without_thrust)
    return VesselScale(
        _largest(vessel.length) / _largest(usual.length),
        fastest / top_speed(usual),
        _largest(vessel.max_thrust) / _largest(usual.max_thrust),
    )


def observation_scale(vessel: VesselConfig) -> VesselScale:
    """Return the factors on the typical magnitudes (Entry.scale) of observed lengths, speeds and thrusts of a vessel.

    They are 1 for a vessel with the name ``published``, else those of ``scale_of_vessel``.
    """
    return VesselScale(1.0, 1.0, 1.0) if vessel.name == PUBLISHED_VESSEL else scale_of_vessel(vessel)


def _largest(value: PerRobot) -> float:
    """Return a number, or the largest number of a tuple."""
    return max(value) if isinstance(value, tuple) else value


def _round_digits(value: float, digits: int = 3) -> float:
    """Round a number to a few significant digits."""
    return float(f"{value:.{digits}g}")


def _map_numbers(change: Callable[[float], float], value: Any) -> Any:
    """Apply a function to a number, or to every number of a tuple or list."""
    return tuple(map(change, value)) if isinstance(value, tuple | list) else change(value)


def _scale_numbers(value: Any, factor: float) -> Any:
    """Multiply a number, or every number of a tuple, by a factor and round the result."""
    return _map_numbers(lambda number: _round_digits(number * factor), value)


def complete_vessel(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a vessel by dotted name, completed with missing radii, goal distance and thrust rates."""
    vessel, usual = make_vessel(settings), VesselConfig()
    scale = scale_of_vessel(vessel)
    sizes = vessel.length, vessel.width
    counts = [len(size) for size in sizes if isinstance(size, tuple)]
    radii = [
        _round_digits(0.5 * math.hypot(*(value_for_robot(size, robot) for size in sizes)), 4)
        for robot in range(min(counts, default=1))
    ]
    radius = tuple(radii) if counts else radii[0]
    reached = _largest(usual.goal_distance) / _largest(usual.length)
    derived: dict[str, Any] = {
        "radius": radius,
        "detect_radius": radius,
        "goal_distance": _scale_numbers(vessel.length, reached),
        "max_thrust_rate": _map_numbers(
            lambda thrust: _round_digits(thrust / (_FULL_THRUST_TIME * scale.time)), vessel.max_thrust
        ),
    }
    rate = _largest(settings.get("max_thrust_rate", derived["max_thrust_rate"]))
    share = {number / _largest(usual.max_thrust_rate): None for number in usual.left_thrust_change}
    changes = tuple(_round_digits(part * rate, 4) for part in share)
    derived |= {"left_thrust_change": changes, "right_thrust_change": changes}
    return derived | dict(settings)


_LENGTH_SETTINGS = (
    "sensor.range",
    "sensor.scan_range",
    "colregs.crossing_x",
    "colregs.crossing_y",
    "colregs.crossing_corner_y",
    "colregs.head_on_x",
    "colregs.head_on_half_width",
    "colregs.clearance",
    "colregs.domain",
    "colregs.stand_on_until",
    "scenario.width",
    "scenario.height",
    "scenario.start_margin",
    "scenario.obstacle_margin",
    "scenario.clear_r",
    "scenario.core_radius",
    "scenario.obs_r_range",
    "scenario.scale",
    "weather.hull_height",
    "reward.timestep_penalty",
)
"""Settings below ``world`` that scaled_settings multiplies by the ratio of lengths."""
_SPEED_SETTINGS = ("colregs.min_speed", "scenario.v_rel_max", "scenario.v_range", "scenario.speed_scale")
"""Settings below ``world`` that scaled_settings multiplies by the ratio of speeds."""
_TIME_SETTINGS = ("colregs.horizon",)
"""Settings below ``world`` that scaled_settings multiplies by the ratio of times."""


def scaled_settings(vessel: VesselConfig) -> dict[str, Any]:
    """Return the settings below ``world`` that follow from a vessel's length and top speed, by dotted name.

    Lengths are those of the published world times the ratio of the lengths of the vessels, and speeds are those of the
    published world times the ratio of the top speeds. Times, among them the control step, are scaled by the ratio of
    both, so that a vessel crosses its map in as many control steps as the published one. (Froude's law would scale
    speeds by the root of the length, but small boats have stronger thrusters.) The reward of every step is scaled as a
    length, like the progress that a vessel makes in a step; other rewards, noise, number of steps, wind and waves stay.

    The sensor range is at least twice the distance that two such boats need to stop when they meet at full speed, hulls
    included, but is not extended beyond the width of the map for this.
    """
    usual, scale = WorldConfig(), scale_of_vessel(vessel)
    settings: dict[str, Any] = {"dt": _round_digits(usual.dt * scale.time, 2)}
    factors = dict.fromkeys(_LENGTH_SETTINGS, scale.length) | dict.fromkeys(_SPEED_SETTINGS, scale.speed)
    for name, factor in (factors | dict.fromkeys(_TIME_SETTINGS, scale.time)).items():
        settings[name] = _scale_numbers(attrgetter(name)(usual), factor)
    needed = min(4.0 * (stopping_distance(vessel) + _largest(vessel.radius)), settings["scenario.width"])
    for name in ("sensor.range", "sensor.scan_range"):
        settings[name] = max(settings[name], _round_digits(needed))
    return settings


def scaled_world(vessel: VesselConfig | str | Path, **changes: Any) -> WorldConfig:
    """Return the published world with another vessel, and with lengths, speeds and times scaled by scaled_settings.

    Args:
        vessel: configuration of the vessel, or its name or file as in read_vessel.
        **changes: fields of WorldConfig that override the scaled ones, such as ``max_steps`` or ``sensor``.

    Raises:
        ConfigError: when the vessel cannot be read; see read_vessel.
    """
    if not isinstance(vessel, VesselConfig):
        vessel = read_vessel(vessel)
    world, sections = WorldConfig(vessel=vessel), dict[str, dict[str, Any]]()
    for name, value in scaled_settings(vessel).items():
        section, dot, field_name = name.partition(".")
        sections.setdefault(section if dot else "", {})[field_name if dot else name] = value
    own = sections.pop("")
    parts = {section: replace(getattr(world, section), **values) for section, values in sections.items()}
    return replace(world, **own | parts | changes)


def scaled_level(level: AnyLevel, length: float, speed: float) -> AnyLevel:
    """Return a level with its start-to-goal distance, map size and current speed multiplied by factors.

    Args:
        level: level for the published vessel.
        length: factor on the lengths of the level.
        speed: factor on the speeds of the level.
    """
    return replace(
        level,
        min_start_goal_dis=_round_digits(level.min_start_goal_dis * length),
        map_size=_round_digits(level.map_size * length),
        core_speed=_round_digits(level.core_speed * speed),
    )


def describe_vessel(world: WorldConfig, levels: tuple[Level, ...] = ()) -> list[str]:
    """Return a summary of a vessel and of the settings that follow from its size, as lines "name: value".

    The list is empty for the published vessel.

    Args:
        world: configuration whose values the lines state, whether derived or given.
        levels: levels whose distances between starts and goals the lines state.
    """
    vessel, area = world.vessel, world.scenario
    if vessel.name == PUBLISHED_VESSEL:
        return []

    def shown(value: Any) -> str:
        return " to ".join(f"{number:g}" for number in value) if isinstance(value, tuple) else f"{value:g}"

    kinds = vessel.actuators.steering
    distances = sorted({level.min_start_goal_dis for level in levels if not level.encounter})
    lines = {
        "boat": f"{vessel.name}, {shown(vessel.length)} x {shown(vessel.width)} m, "
        f"{kinds if isinstance(kinds, str) else ', '.join(kinds)}, top speed {top_speed(vessel):.2f} m/s",
        "collision radius": f"{shown(vessel.radius)} m",
        "detected radius": f"{shown(vessel.detect_radius)} m",
        "goal distance": f"{shown(vessel.goal_distance)} m",
        "sensor range": f"{shown(world.sensor.range)} m",
        "passing distances": f"domain {world.colregs.domain:g} m, clearance {world.colregs.clearance:g} m, "
        f"head-on up to {world.colregs.head_on_x[1]:g} m ahead",
        "map": f"{area.width:g} x {area.height:g} m, obstacles of {shown(area.obs_r_range)} m, "
        f"{area.clear_r:g} m between starts",
        "start to goal": f"at least {', '.join(f'{distance:g}' for distance in distances)} m" if distances else "",
        "control step": f"{world.control_step:g} s",
        "reward of a step": f"{world.reward.timestep_penalty:g}",
    }
    return [f"{name}: {text}" for name, text in lines.items() if text]
