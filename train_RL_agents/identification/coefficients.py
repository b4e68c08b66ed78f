"""Coefficients of a boat that can be fitted to a log, with scales and bounds, and manoeuvres that determine them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import ActuatorConfig, VesselConfig
from marinenav_env.support.validation import require
from marinenav_env.vessels import top_speed

Array = NDArray[np.float64]
DAMPING_TERMS = ("xU", "xUU", "xUUU", "yV", "yVV", "yVVV", "nR", "nRR", "nRRR")
"""Coefficients that damp a motion by itself, which are never positive."""
COUPLING_TERMS = ("yR", "yRV", "yVR", "yRR", "nV", "nVV", "nRV", "nVR", "nUV")
"""Coefficients that couple motions: force on one motion due to another."""
INERTIA_TERMS = ("xDotU", "yDotV", "yDotR", "nDotV", "nDotR")
"""Added masses and moments of inertia: force on a motion due to an acceleration."""
ACTUATOR_TERMS = ("lag", "right_strength", "rudder_lift", "position")
THRUST_LIMITS = ("max_thrust", "min_thrust")
FITTABLE_COEFFICIENTS = (*INERTIA_TERMS, *DAMPING_TERMS, *COUPLING_TERMS, "cross_flow", *ACTUATOR_TERMS, *THRUST_LIMITS)
_ALWAYS_FITTED = ("xU", "xUU", "yDotV", "yV", "nDotR", "nR", "nRR", "lag")
"""Coefficients that are fitted for every boat, even if they are 0 in the preset."""
_MIN_DURATIONS, _MAX_DURATION = (6.0, 6.0, 3.0), 60.0
"""Smallest durations of commands, straight, in a circle and in a swing, and largest one, before parts are taken (s)."""
_SURGE = ("xDotU", "xU", "xUU", "xUUU", "max_thrust")
_YAW = ("nDotR", "nR", "nRR", "nRRR", "right_strength", "rudder_lift", "position")
_SWAY = ("yDotV", "yV", "yVV", "yVVV", "cross_flow", "yDotR", "nDotV", *COUPLING_TERMS)
_ACTUATOR_FIELDS = {item.name for item in fields(ActuatorConfig)}


@dataclass(frozen=True)
class Coefficient:
    """Coefficient of a boat that is fitted to a log, with its scale and bounds."""

    name: str
    preset: float
    """Value in the preset: the boat that a fit starts from."""
    scale: float
    """Unit in which a search counts the coefficient; also the standard deviation of its prior around the preset."""
    low: float
    high: float
    reference_size: float
    """Size that an interval's width is compared with, in addition to the value: for an added mass, the whole mass."""


def coefficient_value(vessel: VesselConfig, name: str) -> float:
    """Return a coefficient of a boat by name; a ``position`` or ``spacing`` of 0 is replaced by what it stands for."""
    value: Any = getattr(vessel.actuators if name in _ACTUATOR_FIELDS else vessel, name)
    require(not isinstance(value, tuple), f"world.vessel.{name}", value, "one number: identify fits one boat")
    if name == "position" and value == 0.0:
        return -0.5 * coefficient_value(vessel, "length")
    return coefficient_value(vessel, "width") if name == "spacing" and value == 0.0 else float(value)


def has_symmetric_mass(vessel: VesselConfig) -> bool:
    """Return whether the added mass of a boat is symmetric, so that a fit sets nDotV to yDotR."""
    return coefficient_value(vessel, "yDotR") == coefficient_value(vessel, "nDotV")


def choose_coefficients(
    vessel: VesselConfig, is_in_newtons: bool, extra: Sequence[str] = (), kept: Sequence[str] = ()
) -> tuple[Coefficient, ...]:
    """Return the coefficients that are fitted to a log, with ``extra`` ones and without ``kept`` ones, by name.

    These are some for every boat, and those that are not 0 in the preset. With thrusts in newtons the added mass of
    surge is fitted, too; with shares of the largest thrust, the limits of the thrusts are fitted instead.
    """
    for name in (*extra, *kept):
        require(name in FITTABLE_COEFFICIENTS, "coefficient", name, f"one of {', '.join(FITTABLE_COEFFICIENTS)}")
    terms = (*INERTIA_TERMS, *DAMPING_TERMS, *COUPLING_TERMS, "cross_flow")
    chosen = {name for name in terms if coefficient_value(vessel, name) != 0.0} | {*_ALWAYS_FITTED}
    if "cross_flow" not in chosen:
        chosen.add("yVV")
    chosen -= {"nDotV"} if has_symmetric_mass(vessel) else set()
    chosen = chosen | {"xDotU"} if is_in_newtons else chosen - {"xDotU"} | {*THRUST_LIMITS}
    # A positive added mass, which only the published vessel has, is not fitted: vessel files refuse others.
    chosen -= {name for name in ("xDotU", "yDotV", "nDotR") if coefficient_value(vessel, name) > 0.0}
    chosen |= {"thrusters": {"right_strength"}, "rudder": {"rudder_lift"}}.get(str(vessel.actuators.steering), set())
    chosen = (chosen | {*extra}) - {*kept}
    return tuple(_make_coefficient(vessel, name) for name in FITTABLE_COEFFICIENTS if name in chosen)


def _make_coefficient(vessel: VesselConfig, name: str) -> Coefficient:
    """Return a coefficient with the preset's value, a scale and bounds."""
    preset, value = coefficient_value(vessel, name), partial(coefficient_value, vessel)
    mass, length, speed, force = value("m"), value("length"), top_speed(vessel), 2.0 * value("max_thrust")
    own_masses = {"xDotU": (mass, 0.15), "yDotV": (mass, 0.3), "nDotR": (value("Izz"), 0.3)}
    whole, share = own_masses.get(name, (mass * length, 0.05))
    added, size = share * whole, force if name[0] in "xy" else 0.5 * force * value("spacing")
    # Powers of the speed, for U and V, and of the yaw rate, for R.
    unit = speed ** (name.count("U") + name.count("V")) * (speed / length) ** name.count("R")
    damped, limit = abs(preset) or 0.3 * (size / unit), 0.5 * (abs(preset) or value("max_thrust"))
    scale, low, high, reference = {
        **dict.fromkeys(INERTIA_TERMS, (max(abs(preset), added), -0.3 * whole, 0.3 * whole, added)),
        **dict.fromkeys(own_masses, (max(abs(preset), added), -20.0 * whole, 0.0, whole - preset)),
        **dict.fromkeys(COUPLING_TERMS, (damped, -math.inf, math.inf, 0.0)),
        **dict.fromkeys(DAMPING_TERMS, (damped, -math.inf, 0.0, 0.0)),
        "cross_flow": (abs(preset) or 0.3 * force / (speed**2 * length), 0.0, math.inf, 0.0),
        "rudder_lift": (abs(preset) or 0.3 * force / speed**2, 0.0, math.inf, 0.0),
        "lag": (max(preset, 0.3), 0.0, math.inf, 0.0),
        "right_strength": (0.2, 0.05, math.inf, 0.5),
        "position": (0.2 * length, -length, length, 0.0),
        "max_thrust": (limit, 1e-3 * force, math.inf, 0.0),
        "min_thrust": (limit, -math.inf, -1e-3 * force, 0.0),
    }[name]
    return Coefficient(name, preset, scale, low, high, reference)


# Manoeuvres --------------------------------------------------------------------------------------


class Manoeuvre(NamedTuple):
    """Manoeuvre of a boat: commands, one after the other."""

    name: str
    identified_coefficients: tuple[str, ...]
    """Names of the coefficients that a log of the manoeuvre determines."""
    commands: Array
    """[N, 3] duration (s), and the commands of the left and the right side, or of the thrust and the angle, from -1 to
    1."""


def plan_manoeuvres(vessel: VesselConfig) -> tuple[Manoeuvre, ...]:
    """Return manoeuvres for a log that determines the coefficients of a boat of about this size, in ten minutes."""
    speed, length = top_speed(vessel), coefficient_value(vessel, "length")
    force, lag = 2.0 * coefficient_value(vessel, "max_thrust"), coefficient_value(vessel, "lag")
    settling = (coefficient_value(vessel, "m") - coefficient_value(vessel, "xDotU")) * speed / force
    # Durations: to reach a speed and to lose most of it, to turn once, and to change the course.
    straight = 6.0 * settling + 2.0 * length / speed + 2.0 * lag
    circle, swing = 14.0 * length / speed + 4.0, 3.0 * length / speed + 2.0 + lag
    straight, circle, swing = np.clip(np.ceil((straight, circle, swing)), _MIN_DURATIONS, _MAX_DURATION).tolist()
    has_sides = vessel.actuators.steering == "thrusters"
    ahead, hard = (0.4, 0.4) if has_sides else (0.8, 1.0)
    # Duration, thrust and turning command, to starboard if positive.
    plan = (
        ("accelerate and coast, at full and at half thrust, twice", (*_SURGE, "lag"),
         [(straight, thrust, 0.0) for _ in range(2) for thrust in (1.0, 0.0, 0.5, 0.0)]),
        ("turning circles both ways, at two speeds", (*_SWAY, *_YAW),
         [(circle, thrust, turn) for thrust in (0.7, 0.35) for turn in (0.25, -0.25)]),
        ("zig-zag: swing to both sides, fast and slowly", (*_YAW, *_SWAY, "lag"),
         [(swing, thrust, turn) for thrust in (0.6, 0.3) for _ in range(4) for turn in (0.3, -0.3)]),
        ("astern and ahead again, straight and in a turn", ("min_thrust", *_SURGE, "lag"),
         [(straight, -0.7, 0.0), (straight, 0.6, 0.0), (circle, -0.5, 0.2), (0.5 * straight, 0.0, 0.0)]),
        ("one side at a time, and turning on the spot", ("right_strength", *_YAW, *_SWAY, "max_thrust"),
         [(circle, ahead, hard), (circle, ahead, -hard), (0.5 * circle, 0.0, 0.4), (0.5 * circle, 0.0, -0.4)]),
        ("full ahead, then hard over to both sides: sliding sideways", (*_SWAY, *_YAW),
         [(straight, 1.0, 0.0), (swing, 0.3, 0.7), (straight, 1.0, 0.0), (swing, 0.3, -0.7)]),
    )  # fmt: skip
    manoeuvres = []
    for name, identified, rows in plan:
        commands = np.array(rows)
        if has_sides:
            commands[:, 1:] = np.clip(commands[:, 1:] @ [[1.0, 1.0], [1.0, -1.0]], -1.0, 1.0)
        manoeuvres.append(Manoeuvre(name, identified, commands))
    return tuple(manoeuvres)


def timed_commands(manoeuvres: tuple[Manoeuvre, ...]) -> Array:
    """Return rows [N, 3] of the time (s) from which two commands in [-1, 1] hold; the last commands are 0."""
    seconds, *sides = np.vstack([item.commands for item in manoeuvres]).T
    return np.column_stack((np.append(0.0, np.cumsum(seconds)), *(np.append(side, 0.0) for side in sides)))
