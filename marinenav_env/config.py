"""Typed configuration of the world: all numbers of the simulator, with unit and meaning.

The defaults are those of Lin, Szenher, Huang and Englot, "Distributional RL based integrated
decision making and control for autonomous surface vehicles", RA-L 2025 (arXiv 2412.09466).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from marinenav_env.support.validation import (
    NOT_EMPTY,
    Fraction,
    NonNegative,
    Positive,
    Range,
    Rule,
    Whole,
    above,
    at_least,
    at_most,
    check_fields,
    require,
)

Numbers = Annotated[tuple[float, ...], NOT_EMPTY]
Commands = Annotated[Numbers, Rule("at most 32 numbers", lambda numbers: len(numbers) <= 32)]
PerRobot = float | Numbers
"""One number for every robot, or a tuple with one number per robot."""
PositivePerRobot = Annotated[PerRobot, above(0.0)]
NonNegativePerRobot = Annotated[PerRobot, at_least(0.0)]
FractionPerRobot = Annotated[PerRobot, at_least(0.0), at_most(1.0)]
Steering = Literal["thrusters", "azimuth", "rudder"]
STEERING: tuple[Steering, ...] = ("thrusters", "azimuth", "rudder")
"""Kinds of steering, in the order of their numbers in tensors."""
HULL_TERMS = ("xUUU", "yVVV", "nRRR", "nUV", "cross_flow", "cross_flow_length", "single_rotation")
"""Fields of VesselConfig that the published vessel lacks; see physics.actuators."""


@dataclass(frozen=True)
class ActuatorConfig:
    """Propellers and steering; by default the published ideal thrusters.

    For the equations see marinenav_env.physics.actuators.
    """

    steering: Steering | tuple[Steering, ...] = "thrusters"
    """Two fixed thrusters, or one that the right command turns (azimuth), or one with a rudder that it turns."""
    lag: NonNegativePerRobot = 0.0
    """Time constant of the shaft speeds (s)."""
    speed_exponent: PositivePerRobot = 0.5
    """Exponent of the share of the largest thrust that is commanded, for the share of the full shaft speed: 0.5
    inverts the propeller curve, so that thrust is as commanded; 1: the command is the shaft speed (1)."""
    dead_band: FractionPerRobot = 0.0
    """Share of the full shaft speed below which a commanded propeller stands still (1)."""
    left_limit: FractionPerRobot = 1.0
    """Share of min_thrust and max_thrust that the left side can be commanded to (1)."""
    right_limit: FractionPerRobot = 1.0
    """Share of min_thrust and max_thrust that the right side can be commanded to (1)."""
    left_strength: NonNegativePerRobot = 1.0
    """Factor on the thrust of the left side, unknown to the policy: 0.5 for a weak thruster, 0 for a dead one (1)."""
    right_strength: NonNegativePerRobot = 1.0
    """Factor on the thrust of the right side, unknown to the policy (1)."""
    spacing: NonNegativePerRobot = 0.0
    """Distance between the two thrusters (m); 0: the width of the hull."""
    position: PerRobot = 0.0
    """Position of the azimuth thruster or rudder, ahead of the origin (m); 0: the stern, -length / 2."""
    angle_limit: Annotated[PerRobot, above(0.0), at_most(math.pi)] = 35.0 * math.pi / 180.0
    """Largest angle of the azimuth thruster or rudder; a positive one pushes the stern to starboard (rad)."""
    angle_rate: PositivePerRobot = 20.0 * math.pi / 180.0
    """Largest rate of this angle (rad/s)."""
    rudder_lift: NonNegativePerRobot = 0.0
    """Force across a rudder at the sine 1 of its angle, per squared speed of the water there (kg/m)."""
    propeller_diameter: NonNegativePerRobot = 0.0
    """Diameter of the propeller whose slipstream reaches the rudder (m); 0: no slipstream."""

    def __post_init__(self) -> None:
        check_fields(self, "world.vessel.actuators")


@dataclass(frozen=True)
class VesselConfig:
    """Hull, thrusters and hydrodynamics (Fossen, Handbook of Marine Craft, ch. 6.5)."""

    name: str = "published"
    """Name of the boat."""
    length: PositivePerRobot = 5.0
    """Hull length L (m)."""
    width: PositivePerRobot = 2.5
    """Hull width W (m)."""
    radius: PositivePerRobot = 0.5 * math.hypot(5.0, 2.5)
    """Collision radius (m)."""
    detect_radius: PositivePerRobot = 0.5 * math.hypot(5.0, 2.5)
    """Radius that the sensors of other vessels measure (m)."""
    goal_distance: PositivePerRobot = 2.0
    """Distance to the goal within which it is reached (m)."""
    power_coefficient: NonNegativePerRobot = 1.0
    """Energy per newton-second of thrust (1)."""
    min_thrust: Annotated[PerRobot, at_most(0.0)] = -500.0
    """Smallest thrust of one side (N)."""
    max_thrust: NonNegativePerRobot = 1000.0
    """Largest thrust of one side (N)."""
    max_thrust_rate: PositivePerRobot = 1000.0
    """Thrust change commanded by an action of 1 (N/s)."""
    left_thrust_change: Commands = (0.0, -500.0, -1000.0, 500.0, 1000.0)
    """Discrete commands of the left side (N/s); a discrete action is left-major."""
    right_thrust_change: Commands = (0.0, -500.0, -1000.0, 500.0, 1000.0)
    """Discrete commands of the right side (N/s)."""
    m: PositivePerRobot = 400.0
    """Mass (kg)."""
    Izz: PositivePerRobot = 450.0
    """Yaw inertia (kg m^2)."""
    xDotU: PerRobot = 20.0
    """Added mass, surge by surge acceleration (kg)."""
    yDotV: PerRobot = 0.0
    """Added mass, sway by sway acceleration (kg)."""
    yDotR: PerRobot = 0.0
    """Added mass, sway by yaw acceleration (kg m)."""
    nDotR: PerRobot = -980.0
    """Added inertia, yaw by yaw acceleration (kg m^2)."""
    nDotV: PerRobot = 0.0
    """Added inertia, yaw by sway acceleration (kg m)."""
    xU: PerRobot = -100.0
    """Linear damping, surge by surge (kg/s)."""
    xUU: PerRobot = -150.0
    """Quadratic damping, surge by surge (kg/m)."""
    yV: PerRobot = -100.0
    """Linear damping, sway by sway (kg/s)."""
    yVV: PerRobot = -150.0
    """Quadratic damping, sway by |sway| sway (kg/m)."""
    yR: PerRobot = 0.0
    """Linear damping, sway by yaw rate (kg m/s)."""
    yRV: PerRobot = 0.0
    """Quadratic damping, sway by |yaw rate| sway (kg)."""
    yVR: PerRobot = 0.0
    """Quadratic damping, sway by |sway| yaw rate (kg)."""
    yRR: PerRobot = 0.0
    """Quadratic damping, sway by |yaw rate| yaw rate (kg m)."""
    nR: PerRobot = -980.0
    """Linear damping, yaw by yaw rate (kg m^2/s)."""
    nRR: PerRobot = -950.0
    """Quadratic damping, yaw by |yaw rate| yaw rate (kg m^2)."""
    nV: PerRobot = 0.0
    """Linear damping, yaw by sway (kg m/s)."""
    nVV: PerRobot = 0.0
    """Quadratic damping, yaw by |sway| sway (kg)."""
    nRV: PerRobot = 0.0
    """Quadratic damping, yaw by |yaw rate| sway (kg m)."""
    nVR: PerRobot = 0.0
    """Quadratic damping, yaw by |sway| yaw rate (kg m)."""
    xUUU: PerRobot = 0.0
    """Cubic damping, surge by surge^3 (kg s/m^2)."""
    yVVV: PerRobot = 0.0
    """Cubic damping, sway by sway^3 (kg s/m^2)."""
    nRRR: PerRobot = 0.0
    """Cubic damping, yaw by yaw rate^3 (kg m^2 s)."""
    nUV: PerRobot = 0.0
    """Yaw moment by surge times sway, beside that of the added mass (kg)."""
    cross_flow: NonNegativePerRobot = 0.0
    """Drag of the flow across the hull, integrated over its length, per length and squared speed (kg/m^2)."""
    cross_flow_length: NonNegativePerRobot = 0.0
    """Length over which it is integrated (m); 0: the hull length."""
    single_rotation: FractionPerRobot = 0.0
    """Correction of the turning of the body frame, which the published simulator counts twice in the
    velocities (1): 0: as published; 1: once, as in Fossen's equations."""
    actuators: ActuatorConfig = field(default_factory=ActuatorConfig)
    """Propellers and steering."""

    def __post_init__(self) -> None:
        check_fields(self, "world.vessel")

    @property
    def num_actions(self) -> int:
        """Return the number of discrete actions: pairs of a left and a right command."""
        return len(self.left_thrust_change) * len(self.right_thrust_change)

    @property
    def has_extras(self) -> bool:
        """Return whether it has actuators or hull terms that the published vessel lacks."""
        terms = any(getattr(self, name) != 0.0 for name in HULL_TERMS)
        return terms or self.actuators != ActuatorConfig()


@dataclass(frozen=True)
class SensorConfig:
    """Detection of other robots and obstacles, and its noise."""

    range: PositivePerRobot = 20.0
    """Detection range, to the hull of the object (m)."""
    angle: PositivePerRobot = 2.0 * math.pi
    """Field of view, centred on the bow (rad)."""
    max_objects: Annotated[int | Annotated[tuple[int, ...], NOT_EMPTY], at_least(1), at_most(64)] = 5
    """Most objects in an observation, the closest first; the largest number sets the slots."""
    pos_std: NonNegativePerRobot = 0.05
    """Standard deviation of a measured position, per axis (m)."""
    vel_std: NonNegativePerRobot = 0.05
    """Standard deviation of a measured velocity, per axis (m/s)."""
    r_mean_ratio: Annotated[PerRobot, at_least(0.0), at_most(1.0)] = 0.8
    """Share of the true radius in a measured radius; the rest is von Mises noise (1)."""
    r_kappa: Annotated[PerRobot, at_least(0.0), at_most(500.0)] = 1.0
    """Concentration of the von Mises noise of a measured radius (1)."""
    scan_beams: Annotated[int, at_least(0), at_most(1024)] = 0
    """Number of beams of the range scan, the observation entry ``scan``; 0: no scan."""
    scan_angle: Annotated[float, above(0.0), at_most(2.0 * math.pi)] = 2.0 * math.pi
    """Field of the range scan, centred on the bow and divided evenly among the beams (rad)."""
    scan_range: Positive = 20.0
    """Longest distance that the range scan measures (m)."""
    scan_std: NonNegative = 0.05
    """Standard deviation of a distance measured by the range scan (m)."""
    entries: tuple[str, ...] = ()
    """Further observation entries: sensors as package.module:Class (see sensing.entries)."""

    def __post_init__(self) -> None:
        check_fields(self, "world.sensor")

    @property
    def slots(self) -> int:
        """Return the number of object slots K of an observation."""
        return max(self.max_objects) if isinstance(self.max_objects, tuple) else self.max_objects


@dataclass(frozen=True)
class RewardConfig:
    """Terms of the reward of a control step."""

    timestep_penalty: float = -0.1
    """Reward of every step."""
    COLREGs_penalty: float = -0.1
    """Weight of the turn angle phi (rad) that the rules ask for."""
    collision_penalty: float = -5.0
    """Reward of a collision."""
    goal_reward: float = 10.0
    """Reward of an arrival, unless the vessel collides in the same step."""
    give_way_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of a passage too close to a vessel to keep clear of, from 0 to 2 (see
    rules.reward.role_terms); 0: not computed."""
    stand_on_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of changes of course and speed by a vessel that must stand on, from 0 to 1."""
    port_turn_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of the rate of turns to port when vessels meet, from 0 to 1."""
    slowing_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of slowing down without a turn to starboard when vessels meet head-on, from 0 to 1:
    rule 14 asks for a turn."""
    steerage_speed: NonNegative = 0.0
    """Least speed ahead (m/s) that the penalties give_way, port_turn and slowing assume of vessels
    that meet head-on: stopping does not replace the turn of rule 14."""
    astern_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of the speed astern, from 0 to 1 at 0.5 m/s."""
    broken_duty_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Reward of a step in which a vessel breaks a duty of an encounter, nearly as evaluations judge it
    (see rules.duties)."""
    off_course_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of the speed across the line to the goal while a vessel detects nothing, from 0 to 1
    at 1 m/s."""
    passing_distance: NonNegative = 0.0
    """Passing distance that these penalties ask for (m); 0: colregs.domain."""
    passing_margin: NonNegative = 0.0
    """Part of the passing distance (m) over which half of the give_way penalty rises, the other half
    rising over all of it; 0: the whole penalty does."""
    function: str = ""
    """Your own reward as package.module:function (see marinenav_env.rules.reward); empty: the
    published one."""

    def __post_init__(self) -> None:
        check_fields(self, "world.reward")


@dataclass(frozen=True)
class ColregsConfig:
    """Zones of the rules of the sea, in the frame of the other vessel's velocity (x ahead)."""

    min_speed: NonNegative = 0.5
    """Speed that both vessels must have at least for a rule to apply (m/s)."""
    crossing_x: Range = (-9.0, 12.0)
    """Crossing zone, along the other's course (m)."""
    crossing_y: Range = (-17.0, 0.0)
    """Crossing zone, across the other's course (m)."""
    crossing_corner_y: float = -7.0
    """The crossing zone's forward corner is cut along y - this > -slope (x - crossing_x[1]) (m)."""
    crossing_corner_slope: float = 7.0 / 12.0
    """Slope in the cut of the crossing zone (1)."""
    crossing_heading: Range = (math.pi / 4, 3 * math.pi / 4)
    """Own course relative to the other's for crossing (rad)."""
    head_on_x: Range = (0.0, 17.0)
    """Head-on zone, along the other's course (m)."""
    head_on_half_width: NonNegative = 4.5
    """Half width of the head-on zone (m)."""
    head_on_heading: float = 3 * math.pi / 4
    """Difference of the courses above which vessels are head-on (rad)."""
    clearance: NonNegative = 1.0
    """Margin added to the other's radius for the tangent on which to pass it (m)."""
    domain: Positive = 8.0
    """Smallest passing distance that vessels should keep, from centre to centre (m)."""
    horizon: Positive = 20.0
    """Time to the closest approach above which there is no risk of collision (s)."""
    stand_on_until: NonNegative = 10.0
    """Distance below which a stand-on vessel may act (m)."""

    def __post_init__(self) -> None:
        check_fields(self, "world.colregs")


@dataclass(frozen=True)
class ScenarioConfig:
    """Sampling of scenarios."""

    width: Positive = 55.0
    """Map size along x (m)."""
    height: Positive = 55.0
    """Map size along y (m)."""
    start_margin: NonNegative = 2.0
    """Least distance of starts and goals to the edge of the map (m)."""
    obstacle_margin: NonNegative = 5.0
    """Least distance of obstacle centres to the edge of the map (m)."""
    clear_r: NonNegative = 10.0
    """Least distance of starts to starts, goals to goals, and obstacles and cores to both (m)."""
    core_radius: Positive = 0.5
    """Radius r_c of a vortex core (m)."""
    v_rel_max: Positive = 1.0
    """Largest current speed where the currents of two cores that turn the same way meet (m/s)."""
    p: Positive = 0.8
    """Largest share of the weaker core's edge speed for cores that turn opposite ways (1)."""
    v_range: Annotated[Range, at_least(0.0)] = (3.0, 3.0)
    """Current speed at the edge of a core, drawn uniformly (m/s)."""
    obs_r_range: Annotated[Range, at_least(0.0)] = (1.0, 1.0)
    """Obstacle radius, drawn uniformly (m)."""
    scale: Positive = 1.0
    """Factor on the lengths of encounters, and of the levels of suites: that of the boat's length to 5 m (1)."""
    speed_scale: Positive = 1.0
    """Factor on the speeds of encounters: that of the boat's top speed to the published one (1)."""
    draws: Annotated[int, at_least(1), at_most(50_000)] = 500
    """Most draws for the robots, the cores and the obstacles of a scenario; automatically increased
    for levels of which most scenarios would run out."""

    def __post_init__(self) -> None:
        section = "world.scenario"
        check_fields(self, section)
        room = min(self.width, self.height) / 2
        for name in ("start_margin", "obstacle_margin"):
            value = getattr(self, name)
            require(value < room, f"{section}.{name}", value, f"below {room:g}, half the map")


MOST_DELAY = 4
"""Largest delay of commands (control steps)."""


@dataclass(frozen=True)
class WeatherConfig:
    """Wind, waves, delayed commands and missed detections; none in the published world.

    Directions are those that wind and waves move towards, clockwise from north. For the equations see
    marinenav_env.physics.weather.
    """

    wind_speed: NonNegative = 0.0
    """Speed of the steady wind (m/s)."""
    wind_direction: float = 0.0
    """Direction that the wind blows towards (rad)."""
    wave_height: NonNegative = 0.0
    """Significant height of the waves (m)."""
    wave_period: Positive = 3.0
    """Peak period of the wave spectrum (s)."""
    wave_direction: float = 0.0
    """Direction that the waves run towards (rad)."""
    wave_seed: Whole = 0
    """Seed of the phases of the waves."""
    hull_height: Positive = 1.0
    """Height of hulls above the water (m)."""
    delay: Annotated[int, at_least(0), at_most(MOST_DELAY)] = 0
    """Delay until a command takes effect (control steps)."""
    missed: Fraction = 0.0
    """Probability that a robot does not detect an object in a step."""

    def __post_init__(self) -> None:
        check_fields(self, "world.weather")

    @property
    def calm(self) -> bool:
        """Return whether there is no wind, no waves, no delay and no missed detection."""
        return not (self.wind_speed or self.wave_height or self.delay or self.missed)


MODERATE = WeatherConfig(wind_speed=8.0, wave_height=0.4, delay=1, missed=0.1)
"""Weather of moderate strength: a fresh breeze (Beaufort 4 to 5) with the short waves of sheltered water."""


@dataclass(frozen=True)
class WorldConfig:
    """Configuration of the whole world."""

    dt: Annotated[float, at_least(1e-4), at_most(1.0)] = 0.05
    """Length of a substep (s)."""
    substeps: Annotated[int, at_least(1), at_most(1000)] = 10
    """Number of substeps of a control step."""
    max_steps: Annotated[int, at_least(1), at_most(1_000_000)] = 1000
    """Control steps after which an episode is truncated."""
    ends_at_first_collision: bool = False
    """End an episode with the first collision of any robot, as in evaluation."""
    vessel: VesselConfig = field(default_factory=VesselConfig)
    """Hull, thrusters, hydrodynamics."""
    sensor: SensorConfig = field(default_factory=SensorConfig)
    """Perception."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """Reward."""
    colregs: ColregsConfig = field(default_factory=ColregsConfig)
    """Rules of the sea."""
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    """Sampling of scenarios."""
    weather: WeatherConfig = field(default_factory=WeatherConfig)
    """Wind, waves and faults."""

    def __post_init__(self) -> None:
        check_fields(self, "world")
