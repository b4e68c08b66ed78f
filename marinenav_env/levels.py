"""Levels: sizes and difficulties of the scenarios that are drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from marinenav_env.support.validation import (
    Fraction,
    NonNegative,
    Rule,
    at_least,
    at_most,
    check_fields,
    require,
)

BEHAVIOURS = ("keep", "act_late", "turn_wrong", "stop", "speed_up", "lose_left", "lose_right", "see_nothing")
"""Behaviours of vessels that are not controlled, see stepping.behaviours; the first is to keep course and speed."""
Behaviours = Annotated[
    tuple[str, ...],
    Rule(f"one or more of {', '.join(BEHAVIOURS)}", lambda names: bool(names) and {*names} <= {*BEHAVIOURS}),
]


@dataclass(frozen=True)
class Level:
    """Size and difficulty of a scenario."""

    num_robots: Annotated[int, at_least(1), at_most(1000)] = 5
    """Number of robots."""
    num_cores: Annotated[int, at_least(0), at_most(1000)] = 0
    """Number of vortex cores."""
    num_obstacles: Annotated[int, at_least(0), at_most(1000)] = 4
    """Number of static obstacles."""
    min_start_goal_dis: NonNegative = 40.0
    """Smallest distance between a robot's start and its goal (m)."""
    encounter: bool = False
    """Let the courses of all robots (at most 6) meet at the centre of the map. They start 15 to 25 m
    from it, or farther on nearly parallel courses if clear_r requires it, even outside of a small
    map."""
    map_size: NonNegative = 0.0
    """Side of the map (m); 0: that of the world."""
    core_speed: NonNegative = 0.0
    """Current speed at the edge of a core (m/s); 0: drawn from the world's v_range."""
    traffic: Fraction = 0.0
    """Share of the robots besides the first that keep course and speed, in encounters only. Above 0,
    all start in motion, and one may be overtaken."""
    unruly: Fraction = 0.0
    """Share of the robots besides the first that misbehave, in encounters only. Above 0, all start in
    motion as with traffic, which the others may be."""
    behaviours: Behaviours = BEHAVIOURS[1:]
    """Behaviours of robots that misbehave, drawn uniformly (see stepping.behaviours). They begin 2 to
    8 s before the vessels would meet."""
    separation: Annotated[float, at_least(0.0), at_most(1.5)] = 0.0
    """Least difference of the courses in an encounter (rad), where the draws allow; 0: 20 degrees."""
    slow_vessel: bool = False
    """Make the second robot of an encounter with traffic a slow vessel that the first overtakes: 0.4
    of the speed, 0.12 of the thrust ahead, on nearly the same course."""
    overtaken: bool = False
    """Make the first robot of an encounter a slow vessel, which the second comes up with from behind
    and does not avoid: it keeps course and speed, or misbehaves. All start in motion."""
    speed_spread: Annotated[float, at_least(0.0), at_most(0.9)] = 0.3
    """Largest variation of the speeds of vessels that start in motion, as a share of the usual speed (1)."""
    time_spread: Fraction = 0.0
    """Largest delay with which the others meet the first vessel, drawn for every one, as a share of the time until
    the earliest would; less where vessels would start too close; 0: all meet at once. Only in motion."""
    noise: NonNegative = 1.0
    """Factor on the standard deviations of measured positions and velocities (1)."""
    vessel_spread: Annotated[float, at_least(1.0)] = 1.0
    """Largest factor on mass (with inertia) and on thrust, drawn for every robot independently from 1
    over this to this (1)."""
    weather: NonNegative = 0.0
    """Largest strength of wind, waves and faults, drawn for every scenario from 0 to this times that
    of MODERATE (1); 0: the weather of the world."""
    thruster_fault: Fraction = 0.0
    """Probability that one thruster of a robot, left or right, is weak, drawn for every robot: its strength is
    uniform from 0 to that of the world."""

    def __post_init__(self) -> None:
        check_fields(self, "level")
        few_robots = not self.encounter or self.num_robots <= 6
        require(few_robots, "level.num_robots", self.num_robots, "at most 6 in an encounter")
        for name in ("traffic", "unruly"):
            share = getattr(self, name)
            require(self.encounter or not share, f"level.{name}", share, "0 but in an encounter")
        has_traffic = max(self.traffic, self.unruly) > 0.0 and self.num_robots > 1
        require(
            has_traffic or not self.slow_vessel,
            "level.slow_vessel",
            self.slow_vessel,
            "false without traffic and a second robot",
        )
        for name in ("speed_spread", "time_spread"):
            value, usual = getattr(self, name), getattr(type(self), name)
            in_motion = has_traffic or self.overtaken or value == usual
            require(in_motion, f"level.{name}", value, f"{usual} where no vessel starts in motion")
        can_be_overtaken = self.encounter and self.num_robots > 1 and not self.slow_vessel
        require(
            can_be_overtaken or not self.overtaken,
            "level.overtaken",
            self.overtaken,
            "false but in an encounter of two robots or more without slow_vessel",
        )


LEVELS: tuple[Level, ...] = (
    Level(3, 0, 0, 30.0),
    Level(4, 0, 0, 35.0),
    Level(5, 0, 0, 40.0),
    Level(5, 0, 2, 40.0),
    Level(5, 0, 3, 40.0),
    Level(5, 0, 4, 40.0),
)
"""The six levels of the published curriculum and evaluation."""
NAMED_LEVELS: dict[str, Level] = {
    **{f"published_{number}": level for number, level in enumerate(LEVELS, 1)},
    "crossing": Level(2, 0, 0, 0.0, encounter=True),
    "traffic": Level(2, 0, 0, 0.0, encounter=True, traffic=0.6),
    "unruly": Level(2, 0, 0, 0.0, encounter=True, unruly=0.6),
    "narrow_crossing": Level(2, 0, 0, 0.0, encounter=True, traffic=0.05, separation=0.12),
    "currents": Level(6, 8, 8, 40.0),
    "crowd": Level(10, 0, 6, 40.0, map_size=60.0),
}
"""Levels that others may be like: published ones, encounters, vortices, a crowd on its own map."""
