"""Manoeuvres that determine the coefficients of a boat, with durations that follow from its size and speed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marinenav_env.config import VesselConfig
from marinenav_env.vessels import top_speed
from train_RL_agents.identification.coefficients import COUPLING_TERMS, coefficient_value

TimedCommand = tuple[float, float, float]
"""Duration (s), and the commands of the left and the right side, or of the thrust and the angle, from -1 to 1."""
_MIN_DURATION, _MAX_DURATION = 6.0, 60.0
"""Smallest, unless another is stated, and largest duration of a command, before parts of it are taken (s)."""


@dataclass(frozen=True)
class Manoeuvre:
    """Manoeuvre of a boat: commands, one after the other."""

    name: str
    """Description of what the boat does."""
    identified_coefficients: tuple[str, ...]
    """Names of the coefficients that a log of the manoeuvre determines."""
    commands: tuple[TimedCommand, ...]
    """Commands in their order."""

    @property
    def duration(self) -> float:
        """Return the duration of the manoeuvre (s)."""
        return sum(command[0] for command in self.commands)


def plan_manoeuvres(vessel: VesselConfig) -> tuple[Manoeuvre, ...]:
    """Return manoeuvres for a log that determines the coefficients of a boat of about this size, in ten minutes."""
    speed, length = top_speed(vessel), coefficient_value(vessel, "length")
    force = 2.0 * coefficient_value(vessel, "max_thrust")
    settling = (coefficient_value(vessel, "m") - coefficient_value(vessel, "xDotU")) * speed / force
    # Durations: to reach a speed and to lose most of it, to turn once, and to change the course.
    straight = _rounded_duration(6.0 * settling + 2.0 * length / speed + 2.0 * coefficient_value(vessel, "lag"))
    circle = _rounded_duration(14.0 * length / speed + 4.0)
    swing = _rounded_duration(3.0 * length / speed + 2.0 + coefficient_value(vessel, "lag"), 3.0)

    def sides(part: float, turn: float) -> tuple[float, float]:
        if vessel.actuators.steering != "thrusters":
            return part, turn
        return float(np.clip(part + turn, -1.0, 1.0)), float(np.clip(part - turn, -1.0, 1.0))

    surge = ("xDotU", "xU", "xUU", "xUUU", "max_thrust")
    yaw = ("nDotR", "nR", "nRR", "nRRR", "right_strength", "rudder_lift", "position")
    sway = ("yDotV", "yV", "yVV", "yVVV", "cross_flow", "yDotR", "nDotV", *COUPLING_TERMS)
    return (
        Manoeuvre(
            "accelerate and coast, at full and at half thrust, twice",
            (*surge, "lag"),
            tuple((straight, *sides(part, 0.0)) for _ in range(2) for part in (1.0, 0.0, 0.5, 0.0)),
        ),
        Manoeuvre(
            "turning circles both ways, at two speeds",
            (*sway, *yaw),
            tuple((circle, *sides(part, turn)) for part in (0.7, 0.35) for turn in (0.25, -0.25)),
        ),
        Manoeuvre(
            "zig-zag: swing to both sides, fast and slowly",
            (*yaw, *sway, "lag"),
            tuple((swing, *sides(part, side * 0.3)) for part in (0.6, 0.3) for _ in range(4) for side in (1.0, -1.0)),
        ),
        Manoeuvre(
            "astern and ahead again, straight and in a turn",
            ("min_thrust", *surge, "lag"),
            (
                (straight, *sides(-0.7, 0.0)),
                (straight, *sides(0.6, 0.0)),
                (circle, *sides(-0.5, 0.2)),
                (0.5 * straight, *sides(0.0, 0.0)),
            ),
        ),
        Manoeuvre(
            "one side at a time, and turning on the spot",
            ("right_strength", *yaw, *sway, "max_thrust"),
            (
                (circle, *((0.8, 0.0) if vessel.actuators.steering == "thrusters" else (0.8, 1.0))),
                (circle, *((0.0, 0.8) if vessel.actuators.steering == "thrusters" else (0.8, -1.0))),
                (0.5 * circle, *sides(0.0, 0.4)),
                (0.5 * circle, *sides(0.0, -0.4)),
            ),
        ),
        Manoeuvre(
            "full ahead, then hard over to both sides: sliding sideways",
            (*sway, *yaw),
            tuple(
                command
                for side in (1.0, -1.0)
                for command in ((straight, *sides(1.0, 0.0)), (swing, *sides(0.3, side * 0.7)))
            ),
        ),
    )


def _rounded_duration(seconds: float, shortest: float = _MIN_DURATION) -> float:
    """Return a duration (s) rounded up to whole seconds, from ``shortest`` to _MAX_DURATION."""
    return float(np.clip(np.ceil(seconds), shortest, _MAX_DURATION))


def manoeuvres_identifying(name: str, manoeuvres: tuple[Manoeuvre, ...]) -> tuple[str, ...]:
    """Return the names of those manoeuvres that determine the coefficient with a name."""
    return tuple(item.name for item in manoeuvres if name in item.identified_coefficients)


def timed_commands(manoeuvres: tuple[Manoeuvre, ...]) -> NDArray[np.float64]:
    """Return rows [N, 3] of the time (s) from which two commands in [-1, 1] hold (TimedCommand); the last are 0."""
    rows, time = [], 0.0
    for manoeuvre in manoeuvres:
        for seconds, left, right in manoeuvre.commands:
            rows.append((time, left, right))
            time += seconds
    rows.append((time, 0.0, 0.0))
    return np.array(rows)
