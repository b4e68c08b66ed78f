"""Manoeuvres that determine the coefficients of a boat, with durations that follow from its size and speed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.vessels import top_speed
from train_RL_agents.identification.coefficients import COUPLING_TERMS, coefficient_value

Array = NDArray[np.float64]
_MIN_DURATION, _MAX_DURATION = 6.0, 60.0
"""Smallest, unless another is stated, and largest duration of a command, before parts of it are taken (s)."""
_SURGE = ("xDotU", "xU", "xUU", "xUUU", "max_thrust")
_YAW = ("nDotR", "nR", "nRR", "nRRR", "right_strength", "rudder_lift", "position")
_SWAY = ("yDotV", "yV", "yVV", "yVVV", "cross_flow", "yDotR", "nDotV", *COUPLING_TERMS)


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
    straight = _rounded_duration(6.0 * settling + 2.0 * length / speed + 2.0 * lag)
    circle = _rounded_duration(14.0 * length / speed + 4.0)
    swing = _rounded_duration(3.0 * length / speed + 2.0 + lag, 3.0)
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


def _rounded_duration(seconds: float, shortest: float = _MIN_DURATION) -> float:
    """Return a duration (s) rounded up to whole seconds, from ``shortest`` to _MAX_DURATION."""
    return float(np.clip(np.ceil(seconds), shortest, _MAX_DURATION))


def manoeuvres_identifying(name: str, manoeuvres: tuple[Manoeuvre, ...]) -> tuple[str, ...]:
    """Return the names of those manoeuvres that determine the coefficient with a name."""
    return tuple(item.name for item in manoeuvres if name in item.identified_coefficients)


def timed_commands(manoeuvres: tuple[Manoeuvre, ...]) -> Array:
    """Return rows [N, 3] of the time (s) from which two commands in [-1, 1] hold; the last commands are 0."""
    seconds, *sides = np.vstack([item.commands for item in manoeuvres]).T
    return np.column_stack((np.append(0.0, np.cumsum(seconds)), *(np.append(side, 0.0) for side in sides)))
