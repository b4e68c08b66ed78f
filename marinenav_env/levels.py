"""Levels: size and difficulty of sampled scenarios."""

from dataclasses import dataclass
from typing import Annotated

from marinenav_env.support.validation import Fraction, NonNegativeFloat, Rule, at_least, at_most, check_fields, require

DRAWN_BEHAVIOURS = ("keep", "act_late", "turn_wrong", "stop", "speed_up", "lose_left", "lose_right", "see_nothing")
"""Names of the behaviours of vessels that no policy controls which levels may draw; ``keep`` keeps course and speed,
for the others see stepping.behaviours."""
BEHAVIOURS = (*DRAWN_BEHAVIOURS, "track")
"""Names of all behaviours; ``track`` follows the track of a scenario (see physics.tracks)."""
RANDOM_MAPS = "random"
"""Value of Level.maps for generated shores."""
BehaviourNames = Annotated[
    tuple[str, ...],
    Rule(
        f"one or more of {', '.join(DRAWN_BEHAVIOURS)}", lambda names: bool(names) and {*names} <= {*DRAWN_BEHAVIOURS}
    ),
]
"""Type of a field with names of behaviours, one or more of DRAWN_BEHAVIOURS."""


@dataclass(frozen=True)
class Level:
    """Size and difficulty of a scenario."""

    num_robots: Annotated[int, at_least(1), at_most(1000)] = 5
    """Number of robots."""
    num_cores: Annotated[int, at_least(0), at_most(1000)] = 0
    """Number of vortex cores."""
    num_obstacles: Annotated[int, at_least(0), at_most(1000)] = 4
    """Number of static obstacles."""
    min_start_goal_dis: NonNegativeFloat = 40.0
    """Smallest distance between a robot's start and its goal (m)."""
    encounter: bool = False
    """True if the courses of all robots (at most 6) meet at the centre of the map. Robots at rest start 15 to 25 m from
    the centre, or farther where clear_r requires it on nearly parallel courses, even outside of a small map; robots in
    motion start where they reach the centre at the same time (see time_spread)."""
    map_size: NonNegativeFloat = 0.0
    """Side of the square map (m); 0: the map of the world."""
    core_speed: NonNegativeFloat = 0.0
    """Current speed at the edge of a vortex core (m/s); 0: drawn from v_range of the world."""
    traffic: Fraction = 0.0
    """Probability that a robot other than the first keeps course and speed, in encounters only. Above 0, all robots
    start in motion, and the second may be a slow one that the first overtakes."""
    unruly: Fraction = 0.0
    """Probability that a robot other than the first misbehaves, in encounters only. Above 0, all robots start in
    motion; those that do not misbehave may be traffic."""
    behaviours: BehaviourNames = DRAWN_BEHAVIOURS[1:]
    """Behaviours of robots that misbehave, drawn uniformly (see stepping.behaviours). They begin 2 to 8 s before the
    vessels would meet, except for see_nothing, which begins at the start."""
    separation: Annotated[float, at_least(0.0), at_most(1.5)] = 0.0
    """Least difference between the courses in an encounter (rad), if a draw reaches it; 0: 20 degrees."""
    slow_vessel: bool = False
    """True if the second robot of an encounter with traffic or unruly robots is a slow vessel (0.4 of the usual speed,
    0.12 of the forward thrust), controlled by actions, that the first overtakes on nearly the same course."""
    overtaken: bool = False
    """True if the first robot of an encounter is a slow vessel that the second approaches from behind and does not
    avoid: the second keeps course and speed, or misbehaves. All robots start in motion."""
    speed_spread: Annotated[float, at_least(0.0), at_most(0.9)] = 0.3
    """Largest variation of the speeds of vessels that start in motion, as a share of the usual speed (1)."""
    time_spread: Fraction = 0.0
    """Largest delay with which another vessel meets the first one, drawn for each, as a share of the time until all
    would meet without delays; less where vessels would start too close; 0: all meet at once. Only for vessels in
    motion."""
    speed_reserve: Annotated[float, Rule("0 or at least 1", lambda value: value == 0.0 or value >= 1.0)] = 0.0
    """Top speed of vessels that start in motion and slower than the first, as a multiple of their initial speed (1), at
    most that of their thrusters; 0: that of their thrusters."""
    noise: NonNegativeFloat = 1.0
    """Factor on the standard deviations of measured positions and velocities (1)."""
    vessel_spread: Annotated[float, at_least(1.0)] = 1.0
    """Largest factor on the mass and yaw inertia, and on the thrust, of a robot (1); both are drawn independently for
    every robot, from 1 / vessel_spread to vessel_spread."""
    weather: NonNegativeFloat = 0.0
    """Largest wind, waves, delay and probability of missed detections, as a multiple of config.MODERATE_WEATHER (1);
    each is drawn for every scenario, from 0 to that multiple. 0: the weather of the world."""
    maps: str = ""
    """Path of a chart file or of a folder of them, or "random" for generated shores: starts, goals and routes are
    drawn on their water; empty: open water."""
    thruster_fault: Fraction = 0.0
    """Probability that the left or the right thruster of a robot is weak, drawn for every robot; the strength of the
    weak thruster is uniform from 0 to that of the world."""

    def __post_init__(self) -> None:
        check_fields(self, "level")
        several = self.encounter and self.num_robots > 1
        has_traffic = max(self.traffic, self.unruly) > 0.0 and self.num_robots > 1
        usual, in_motion = type(self), has_traffic or self.overtaken
        checks = [
            (not self.encounter or self.num_robots <= 6, "num_robots", "at most 6 in an encounter"),
            (self.encounter or not self.traffic, "traffic", "0 but in an encounter"),
            (self.encounter or not self.unruly, "unruly", "0 but in an encounter"),
            (self.num_cores > 0 or not self.core_speed, "core_speed", "0 without vortex cores"),
            (not self.maps or not self.encounter, "maps", "left out in an encounter"),
            (not self.maps or not self.map_size, "map_size", "0 with maps, which have their own size"),
            (self.unruly > 0.0 or self.behaviours == usual.behaviours, "behaviours", "left out without unruly robots"),
            (has_traffic or not self.slow_vessel, "slow_vessel", "false without traffic and a second robot"),
        ]
        for name in ("speed_spread", "time_spread", "speed_reserve"):
            value = getattr(usual, name)
            is_used = in_motion or getattr(self, name) == value
            checks.append((is_used, name, f"{value} where no vessel starts in motion"))
        allowed = "false but in an encounter of two robots or more without slow_vessel"
        checks.append((not self.overtaken or (several and not self.slow_vessel), "overtaken", allowed))
        for is_allowed, name, allowed in checks:
            require(is_allowed, f"level.{name}", getattr(self, name), allowed)


LEVELS: tuple[Level, ...] = (
    Level(3, 0, 0, 30.0),
    Level(4, 0, 0, 35.0),
    Level(5, 0, 0, 40.0),
    Level(5, 0, 2, 40.0),
    Level(5, 0, 3, 40.0),
    Level(5, 0, 4, 40.0),
)
"""Six levels of rising difficulty, those of the curriculum and evaluation of arXiv 2412.09466."""
NAMED_LEVELS: dict[str, Level] = {
    **{f"published_{number}": level for number, level in enumerate(LEVELS, 1)},
    "crossing": Level(2, 0, 0, 0.0, encounter=True),
    "traffic": Level(2, 0, 0, 0.0, encounter=True, traffic=0.6),
    "unruly": Level(2, 0, 0, 0.0, encounter=True, unruly=0.6),
    "narrow_crossing": Level(2, 0, 0, 0.0, encounter=True, traffic=0.05, separation=0.12),
    "currents": Level(6, 8, 8, 40.0),
    "crowd": Level(10, 0, 6, 40.0, map_size=60.0),
    "harbour": Level(3, 0, 0, 60.0, maps="random"),
}
"""Levels by name, on which a level of a configuration file can be based with the key ``like``: the six of LEVELS,
encounters, vortices, a crowd on a larger map, and waters with shores."""
