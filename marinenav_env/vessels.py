"""Vessels by name or from a file, and the settings of the world that follow from a vessel's size and speed."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from marinenav_env.config import ActuatorConfig, PerRobot, VesselConfig, WorldConfig
from marinenav_env.levels import Level
from marinenav_env.support.files import read_json
from marinenav_env.support.validation import ConfigError, is_number, is_printable_text, replace_settings, require

if TYPE_CHECKING:
    from torch import Tensor

AnyLevel = TypeVar("AnyLevel", bound=Level)
Speed = TypeVar("Speed", float, "Tensor")
"""Type of a speed or thrust, a number or a tensor of any shape."""

VESSEL_FILE_FORMAT, VESSEL_FILE_VERSION = "marinenav vessel", 1
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
_MIN_TOP_SPEED, _MAX_TOP_SPEED = 1.0 / 30.0, 50.0
"""Bounds of the top speed of a plausible vessel: the lower one in hull lengths per second, the upper one in m/s."""


class VesselFile(NamedTuple):
    """Content of a JSON file that describes a vessel: its name, a description, the source of its numbers, and these."""

    name: str
    about: str
    source: str
    licence: str
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
    """Ratios (1) of the length, top speed and thrust of vessels (the largest of any robot) to the default vessel's."""

    length: float
    speed: float
    thrust: float

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
    """Return the content of a vessel file, given its name or path as in read_vessel.

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
    return replace_settings(VesselConfig(), settings)


def _parse_vessel_file(content: Any) -> VesselFile:
    require(isinstance(content, dict), "vessel file", content, "a JSON object")
    for key, expected in (("format", VESSEL_FILE_FORMAT), ("version", VESSEL_FILE_VERSION)):
        require(content.get(key) == expected, key, content.get(key), str(expected))
    for key in content:
        require(key in _FILE_KEYS, "key", key, f"one of {', '.join(_FILE_KEYS)}")
    texts, notes = {name: content.get(name, "") for name in _TEXT_KEYS}, content.get("approximated", [])
    for name, text in texts.items():
        require(is_printable_text(text), name, text, "text without control characters")
    check_vessel_name(texts["name"])
    require(isinstance(notes, list) and all(map(is_printable_text, notes)), "approximated", notes, "a list of texts")
    stated = content.get("vessel")
    settings = {**_read_numbers(stated, "vessel", _VESSEL_SETTINGS), "name": texts["name"]}
    settings |= _read_numbers(stated.get("actuators", {}), "actuators", _ACTUATOR_SETTINGS, "actuators.")
    for name in _REQUIRED_SETTINGS:
        require(name in settings, name, None, f"stated, in {UNITS_BY_SETTING[name]}")
    settings = dict.fromkeys(HYDRODYNAMIC_COEFFICIENTS, 0.0) | {"single_rotation": 1.0} | settings
    for boat in _robot_settings(make_vessel(settings)):
        _check_plausibility(boat)
    return VesselFile(**texts, approximated=tuple(notes), settings=settings)


def check_vessel_name(name: str, key: str = "name") -> None:
    """Refuse a name that a vessel file cannot have; ``key`` is the key or option that states it, for the message."""
    is_allowed = is_printable_text(name) and name not in ("", PUBLISHED_VESSEL)
    require(is_allowed, key, name, f"a name other than {PUBLISHED_VESSEL}, without control characters")


def _read_numbers(stated: Any, section: str, names: tuple[str, ...], prefix: str = "") -> dict[str, Any]:
    """Return the settings in a section of a vessel file by dotted name, and check the stated units."""
    require(isinstance(stated, dict), section, stated, f"an object with numbers such as {'lag' if prefix else 'm'}")
    values = {}
    for name, given in stated.items():
        if not prefix and name == "actuators":
            continue
        key, unit = prefix + name, UNITS_BY_SETTING.get(name)
        require(name in names, "setting", key, f"one of {', '.join(names)}")
        parts = given if isinstance(given, dict) else {"value": given}
        allowed = "an object of value, unit and source"
        require(parts.keys() <= {"value", "unit", "source"} and "value" in parts, key, given, allowed)
        require(parts.get("unit") in (None, unit), f"{key}: unit", parts.get("unit"), unit or "left out")
        require(is_printable_text(parts.get("source", "")), f"{key}: source", parts.get("source"), "text")
        value = values[key] = parts["value"]
        numbers = value if isinstance(value, list) else [value]
        if name == "steering":
            require(bool(numbers), key, value, "a kind of steering, or a list of them")
        else:
            require(bool(numbers) and all(map(is_number, numbers)), key, value, "a number, or a list of numbers")
    return values


def _check_plausibility(boat: dict[str, Any]) -> None:
    """Raise ConfigError if a number of one robot, given its settings by dotted name, is not plausible for a boat."""
    for name, (low, high, why) in _plausible_bounds(boat["length"], boat["m"], boat["Izz"]).items():
        # The published vessel, which a boat may be identified from, has the other sign in surge.
        is_published = name == "xDotU" and boat[name] == VesselConfig().xDotU
        require(low <= boat[name] <= high or is_published, name, boat[name], f"from {low:g} to {high:g}{why}")
    density = boat["m"] / (boat["length"] ** 2 * boat["width"])
    require(density <= 1e3, "m", boat["m"], f"smaller: for its size it would be {density:.3g} kg/m^3")
    require(boat["max_thrust"] > 0.0, "max_thrust", boat["max_thrust"], "above 0")
    for motion, names in (("surge", _DAMPING_COEFFICIENTS[:3]), ("yaw", (*_DAMPING_COEFFICIENTS[6:], "cross_flow"))):
        require(any(boat[name] for name in names), names[0], 0.0, f"below 0, or another damping of {motion}")
    sway, yaw = boat["m"] - boat["yDotV"], boat["Izz"] - boat["nDotR"]
    is_positive = sway * yaw > boat["yDotR"] * boat["nDotV"]
    require(is_positive, "yDotR", boat["yDotR"], "such that the mass matrix can be inverted")
    steering, lift = boat["actuators.steering"], boat["actuators.rudder_lift"]
    sides = ("left", "right")[: num_thrusters(steering)]
    for name in ("limit", "strength"):
        shares = [boat[f"actuators.{side}_{name}"] for side in sides]
        require(any(shares), f"actuators.{sides[0]}_{name}", shares[0], "above 0 on one side: the boat has no thrust")
    require(steering != "rudder" or lift > 0.0, "actuators.rudder_lift", lift, "above 0 for a boat with a rudder")
    speed = _robot_top_speed(boat)
    doubt = f"the top speed of {speed:.3g} m/s is not plausible"
    require(speed <= _MAX_TOP_SPEED, "xU", boat["xU"], f"larger in size: {doubt}")
    require(speed >= _MIN_TOP_SPEED * boat["length"], "max_thrust", boat["max_thrust"], f"larger: {doubt}")


def _plausible_bounds(length: float, mass: float, inertia: float) -> dict[str, tuple[float, float, str]]:
    """Return the smallest and largest plausible value of settings of a boat by dotted name, and why."""
    in_water, share = ": water adds up to 25 times to what accelerates", f" in a boat of {length:g} m"
    return {
        "length": (0.1, 500.0, " m"),
        "width": (0.02 * length, 3.0 * length, share),
        "Izz": (mass * (0.02 * length) ** 2, mass * length**2, f" in a boat of {length:g} m and {mass:g} kg"),
        **dict.fromkeys(_DAMPING_COEFFICIENTS, (-math.inf, 0.0, ": damping opposes the motion")),
        **dict.fromkeys(("xDotU", "yDotV"), (-25.0 * mass, 0.0, in_water)),
        "nDotR": (-25.0 * inertia, 0.0, in_water),
        **dict.fromkeys(("radius", "detect_radius", "cross_flow_length"), (0.0, 10.0 * length, share)),
        **dict.fromkeys(("actuators.spacing", "actuators.position"), (-3.0 * length, 3.0 * length, share)),
        "actuators.lag": (0.0, 60.0, " s"),
        "actuators.speed_exponent": (0.1, 10.0, ""),
        "actuators.dead_band": (0.0, 0.99, ": the propellers would never turn"),
    }


# Sizes and speeds -------------------------------------------------------------------------------


def value_for_robot(value: Any, robot: int) -> Any:
    """Return the value of a setting for a robot, given its index; further robots have the last value of a tuple."""
    return value[min(robot, len(value) - 1)] if isinstance(value, tuple) else value


def largest_value(value: PerRobot) -> float:
    """Return the value of a setting, or the largest one if robots differ."""
    return max(value) if isinstance(value, tuple) else value


def _robot_settings(vessel: VesselConfig) -> tuple[dict[str, Any], ...]:
    """Return the settings of each robot by dotted name; one dict if all robots share all settings."""
    settings = _all_settings(vessel)
    values = [value for name, value in settings.items() if name not in _SHARED_SETTINGS]
    count = max(len(value) if isinstance(value, tuple) else 1 for value in values)
    return tuple({name: value_for_robot(value, robot) for name, value in settings.items()} for robot in range(count))


@lru_cache(maxsize=256)
def top_speed(vessel: VesselConfig, robot: int | None = None) -> float:
    """Return the speed straight ahead under full thrust (m/s), of one robot, or of the fastest if ``robot`` is None."""
    robots = _robot_settings(vessel)
    return max(map(_robot_top_speed, robots if robot is None else [value_for_robot(robots, robot)]))


def num_thrusters(steering: str) -> int:
    """Return the number of thrusters of a vessel, 1 or 2, given its type of steering (one of config.STEERING_TYPES)."""
    return 2 if steering == "thrusters" else 1


def holding_setpoints(vessel: VesselConfig, speed: Speed, robot: int = 0) -> tuple[Speed, Speed]:
    """Return the setpoints (N) with which a robot with ideal actuators keeps a forward speed (m/s) in still water.

    They are the left and right thrust; with a single thruster its thrust, and 0 for its angle.
    """
    linear, quadratic, cubic, steering = (
        value_for_robot(value, robot) for value in (vessel.xU, vessel.xUU, vessel.xUUU, vessel.actuators.steering)
    )
    thrusters = num_thrusters(steering)
    thrust = -(linear + (quadratic + cubic * speed) * speed) / thrusters * speed
    return thrust, thrust if thrusters == 2 else 0.0 * thrust


def max_thrust_for_top_speed(vessel: VesselConfig, speed: float, robot: int = 0) -> float:
    """Return the ``max_thrust`` (N) with which a speed (m/s) is a robot's top speed; infinite if it has no thrust."""
    thrusters = _num_full_thrusters(value_for_robot(_robot_settings(vessel), robot))
    return sum(holding_setpoints(vessel, speed, robot)) / thrusters if thrusters else math.inf


def _num_full_thrusters(boat: Mapping[str, Any]) -> float:
    """Return the total thrust of one robot under full commands over the largest thrust of a side (1)."""
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
    """Return the ratios of a vessel's length, top speed and largest thrust to those of the default vessel."""
    usual, fastest = VesselConfig(), top_speed(vessel)
    without_thrust = "above 0, like one limit and one strength of the thrusters: the boat has no thrust"
    require(fastest > 1e-9, "world.vessel.max_thrust", vessel.max_thrust, without_thrust)
    return VesselScale(
        largest_value(vessel.length) / largest_value(usual.length),
        fastest / top_speed(usual),
        largest_value(vessel.max_thrust) / largest_value(usual.max_thrust),
    )


def observation_scale(vessel: VesselConfig) -> VesselScale:
    """Return the factors on typical magnitudes (Entry.scale) of what a vessel observes, 1 if it is ``published``."""
    return VesselScale(1.0, 1.0, 1.0) if vessel.name == PUBLISHED_VESSEL else scale_of_vessel(vessel)


def _round(value: float, digits: int = 3) -> float:
    """Round a number to a few significant digits."""
    return float(f"{value:.{digits}g}")


def _scale_numbers(value: Any, factor: float) -> Any:
    """Multiply a number, or every number of a tuple, by a factor and round the result."""
    return tuple(_scale_numbers(each, factor) for each in value) if isinstance(value, tuple) else _round(value * factor)


def complete_vessel(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of a vessel by dotted name, completed with missing radii, goal distance and thrust rates."""
    vessel, usual = make_vessel(settings), VesselConfig()
    scale = scale_of_vessel(vessel)
    sizes = vessel.length, vessel.width
    counts = [len(size) for size in sizes if isinstance(size, tuple)]
    radii = tuple(
        _round(0.5 * math.hypot(*(value_for_robot(size, robot) for size in sizes)), 4)
        for robot in range(min(counts, default=1))
    )
    radius = radii if counts else radii[0]
    reached = largest_value(usual.goal_distance) / largest_value(usual.length)
    derived: dict[str, Any] = {
        "radius": radius,
        "detect_radius": radius,
        "goal_distance": _scale_numbers(vessel.length, reached),
        # The default vessel reaches full thrust ahead in a second.
        "max_thrust_rate": _scale_numbers(vessel.max_thrust, 1.0 / scale.time),
    }
    rate = largest_value(settings.get("max_thrust_rate", derived["max_thrust_rate"]))
    share = {number / largest_value(usual.max_thrust_rate): None for number in usual.left_thrust_change}
    changes = tuple(_round(part * rate, 4) for part in share)
    derived |= {"left_thrust_change": changes, "right_thrust_change": changes}
    return derived | dict(settings)


_LENGTH_SETTINGS = tuple(
    f"{section}.{name}"
    for section, names in {
        "sensor": "range scan_range",
        "colregs": "crossing_x crossing_y crossing_corner_y head_on_x head_on_half_width clearance domain "
        "stand_on_until urgent_distance",
        "scenario": "width height start_margin obstacle_margin clear_r core_radius obs_r_range scale shore_margin "
        "waypoint_radius",
        "weather": "hull_height",
        "reward": "timestep_penalty",
    }.items()
    for name in names.split()
)
"""Settings below ``world`` that scaled_settings multiplies by the ratio of lengths."""
_SPEED_SETTINGS = ("colregs.min_speed", "scenario.v_rel_max", "scenario.v_range", "scenario.speed_scale")
"""Settings below ``world`` that scaled_settings multiplies by the ratio of speeds."""
_TIME_SETTINGS = tuple(f"colregs.{name}" for name in ("horizon", "confirm", "urgent_time", "clear_time"))
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
    settings: dict[str, Any] = {"dt": _round(usual.dt * scale.time, 2)}
    factors = dict.fromkeys(_LENGTH_SETTINGS, scale.length) | dict.fromkeys(_SPEED_SETTINGS, scale.speed)
    for name, factor in (factors | dict.fromkeys(_TIME_SETTINGS, scale.time)).items():
        settings[name] = _scale_numbers(attrgetter(name)(usual), factor)
    needed = min(4.0 * (stopping_distance(vessel) + largest_value(vessel.radius)), settings["scenario.width"])
    for name in ("sensor.range", "sensor.scan_range"):
        settings[name] = max(settings[name], _round(needed))
    return settings


def scaled_world(vessel: VesselConfig | str | Path, **changes: Any) -> WorldConfig:
    """Return the published world with another vessel, and with lengths, speeds and times scaled by scaled_settings.

    Args:
        vessel: configuration of the vessel, or its name or file as in read_vessel.
        **changes: fields of WorldConfig that override the scaled ones, such as ``max_steps`` or ``sensor``.
    """
    if not isinstance(vessel, VesselConfig):
        vessel = read_vessel(vessel)
    return replace(replace_settings(WorldConfig(vessel=vessel), scaled_settings(vessel)), **changes)


def scaled_level(level: AnyLevel, length: float, speed: float) -> AnyLevel:
    """Return a level for the published vessel with its lengths and its current speed multiplied by factors."""
    factors = {"min_start_goal_dis": length, "map_size": length, "core_speed": speed}
    scaled: dict[str, Any] = {name: _round(getattr(level, name) * factor) for name, factor in factors.items()}
    return replace(level, **scaled)


def describe_vessel(world: WorldConfig, levels: tuple[Level, ...] = ()) -> list[str]:
    """Return a summary of a vessel and of what follows from its size, as lines "name: value"; empty if published."""
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
