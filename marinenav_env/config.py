"""Configuration of the world as frozen dataclasses: all numbers of the simulator, with unit and meaning.

The defaults are those of Lin, Szenher, Huang and Englot, "Distributional RL based integrated
decision making and control for autonomous surface vehicles", RA-L 2025 (arXiv 2412.09466).
"""

import math
from dataclasses import dataclass, field
from typing import Annotated, Literal

from marinenav_env.support.validation import (
    IS_NOT_EMPTY,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    OrderedRange,
    PositiveFloat,
    Rule,
    above,
    at_least,
    at_most,
    check_fields,
    require,
)

FloatTuple = Annotated[tuple[float, ...], IS_NOT_EMPTY]
"""Type of a field that is a tuple of one number or more."""
ThrustRates = Annotated[FloatTuple, Rule("at most 32 numbers", lambda numbers: len(numbers) <= 32)]
PerRobot = float | FloatTuple
"""Type of a field that is one number shared by all robots, or a tuple with one number per robot."""
PositivePerRobot = Annotated[PerRobot, above(0.0)]
NonNegativePerRobot = Annotated[PerRobot, at_least(0.0)]
FractionPerRobot = Annotated[PerRobot, at_least(0.0), at_most(1.0)]
SteeringType = Literal["thrusters", "azimuth", "rudder"]
STEERING_TYPES: tuple[SteeringType, ...] = ("thrusters", "azimuth", "rudder")
"""Values of ActuatorConfig.steering; tensors contain the index into this tuple, 0 for thrusters."""
HULL_TERMS = ("xUUU", "yVVV", "nRRR", "nUV", "cross_flow", "cross_flow_length", "single_rotation")
"""Names of the fields of VesselConfig for hull forces that are 0 in the default vessel, see physics.actuators."""


@dataclass(frozen=True)
class ActuatorConfig:
    """Propellers and steering of a vessel.

    By default two thrusters deliver the commanded thrust at once; marinenav_env.physics.actuators has the equations.
    """

    steering: SteeringType | tuple[SteeringType, ...] = "thrusters"
    """Type of steering: two fixed thrusters (thrusters), one thruster that the right command turns (azimuth), or one
    thruster and a rudder that the right command turns (rudder)."""
    lag: NonNegativePerRobot = 0.0
    """Time constant of the shaft speeds (s)."""
    speed_exponent: PositivePerRobot = 0.5
    """Exponent p in shaft speed = thrust command^p, both as shares of the largest: 0.5 inverts the propeller curve, so
    that the thrust is as commanded; with 1 the command sets the shaft speed (1)."""
    dead_band: FractionPerRobot = 0.0
    """Commanded shaft speed below which a propeller does not turn, as a share of the full speed (1)."""
    left_limit: FractionPerRobot = 1.0
    """Limit of the thrust commands of the left side, as a share of min_thrust and max_thrust (1)."""
    right_limit: FractionPerRobot = 1.0
    """Limit of the thrust commands of the right side, as a share of min_thrust and max_thrust (1)."""
    left_strength: NonNegativePerRobot = 1.0
    """Factor on the thrust of the left side that no policy observes: 0.5 for a weak thruster, 0 for a dead one (1)."""
    right_strength: NonNegativePerRobot = 1.0
    """Factor on the thrust of the right side that no policy observes (1)."""
    spacing: NonNegativePerRobot = 0.0
    """Distance between the two thrusters (m); 0: the width of the hull."""
    position: PerRobot = 0.0
    """Position of the azimuth thruster or rudder along the hull, positive ahead of the origin (m); 0: the stern,
    -length / 2."""
    angle_limit: Annotated[PerRobot, above(0.0), at_most(math.pi)] = 35.0 * math.pi / 180.0
    """Largest angle of the azimuth thruster or rudder (rad); a positive angle pushes the stern to starboard."""
    angle_rate: PositivePerRobot = 20.0 * math.pi / 180.0
    """Largest rate at which the azimuth thruster or rudder turns (rad/s)."""
    rudder_lift: NonNegativePerRobot = 0.0
    """Force normal to the rudder, per sine of its angle and per squared speed of the water at the rudder (kg/m)."""
    propeller_diameter: NonNegativePerRobot = 0.0
    """Diameter of the propeller whose slipstream reaches the rudder (m); 0: no slipstream."""

    def __post_init__(self) -> None:
        check_fields(self, "world.vessel.actuators")


@dataclass(frozen=True)
class VesselConfig:
    """Hull, thrusters and hydrodynamics (Fossen, Handbook of Marine Craft, ch. 6.5)."""

    name: str = "published"
    """Name of the vessel; ``published`` for the vessel of the published world."""
    length: PositivePerRobot = 5.0
    """Hull length L (m)."""
    width: PositivePerRobot = 2.5
    """Hull width W (m)."""
    radius: PositivePerRobot = 0.5 * math.hypot(5.0, 2.5)
    """Collision radius (m)."""
    detect_radius: PositivePerRobot = 0.5 * math.hypot(5.0, 2.5)
    """Radius that the sensors of other vessels measure (m)."""
    goal_distance: PositivePerRobot = 2.0
    """Distance from the goal within which a vessel has arrived (m)."""
    power_coefficient: NonNegativePerRobot = 1.0
    """Energy per newton-second of thrust (1)."""
    min_thrust: Annotated[PerRobot, at_most(0.0)] = -500.0
    """Lower limit of the thrust of one side (N); negative thrust is astern."""
    max_thrust: NonNegativePerRobot = 1000.0
    """Upper limit of the thrust of one side (N)."""
    max_thrust_rate: PositivePerRobot = 1000.0
    """Rate of change of the thrust that a continuous action of 1 commands (N/s)."""
    left_thrust_change: ThrustRates = (0.0, -500.0, -1000.0, 500.0, 1000.0)
    """Rates of change of the left thrust that discrete actions choose from (N/s); the index of an action is the left
    index times the number of right rates plus the right index."""
    right_thrust_change: ThrustRates = (0.0, -500.0, -1000.0, 500.0, 1000.0)
    """Rates of change of the right thrust that discrete actions choose from (N/s)."""
    m: PositivePerRobot = 400.0
    """Mass (kg)."""
    Izz: PositivePerRobot = 450.0
    """Yaw inertia (kg m^2)."""
    xDotU: PerRobot = 20.0
    """Surge force per surge acceleration, which is minus the added mass (kg)."""
    yDotV: PerRobot = 0.0
    """Sway force per sway acceleration, which is minus the added mass (kg)."""
    yDotR: PerRobot = 0.0
    """Sway force per yaw acceleration, an added-mass term (kg m)."""
    nDotR: PerRobot = -980.0
    """Yaw moment per yaw acceleration, which is minus the added inertia (kg m^2)."""
    nDotV: PerRobot = 0.0
    """Yaw moment per sway acceleration, an added-mass term (kg m)."""
    xU: PerRobot = -100.0
    """Linear damping: surge force per surge velocity (kg/s)."""
    xUU: PerRobot = -150.0
    """Quadratic damping: surge force per |surge velocity| times surge velocity (kg/m)."""
    yV: PerRobot = -100.0
    """Linear damping: sway force per sway velocity (kg/s)."""
    yVV: PerRobot = -150.0
    """Quadratic damping: sway force per |sway velocity| times sway velocity (kg/m)."""
    yR: PerRobot = 0.0
    """Linear damping: sway force per yaw rate (kg m/s)."""
    yRV: PerRobot = 0.0
    """Quadratic damping: sway force per |yaw rate| times sway velocity (kg)."""
    yVR: PerRobot = 0.0
    """Quadratic damping: sway force per |sway velocity| times yaw rate (kg)."""
    yRR: PerRobot = 0.0
    """Quadratic damping: sway force per |yaw rate| times yaw rate (kg m)."""
    nR: PerRobot = -980.0
    """Linear damping: yaw moment per yaw rate (kg m^2/s)."""
    nRR: PerRobot = -950.0
    """Quadratic damping: yaw moment per |yaw rate| times yaw rate (kg m^2)."""
    nV: PerRobot = 0.0
    """Linear damping: yaw moment per sway velocity (kg m/s)."""
    nVV: PerRobot = 0.0
    """Quadratic damping: yaw moment per |sway velocity| times sway velocity (kg)."""
    nRV: PerRobot = 0.0
    """Quadratic damping: yaw moment per |yaw rate| times sway velocity (kg m)."""
    nVR: PerRobot = 0.0
    """Quadratic damping: yaw moment per |sway velocity| times yaw rate (kg m)."""
    xUUU: PerRobot = 0.0
    """Cubic damping: surge force per surge velocity^3 (kg s/m^2)."""
    yVVV: PerRobot = 0.0
    """Cubic damping: sway force per sway velocity^3 (kg s/m^2)."""
    nRRR: PerRobot = 0.0
    """Cubic damping: yaw moment per yaw rate^3 (kg m^2 s)."""
    nUV: PerRobot = 0.0
    """Yaw moment per surge velocity times sway velocity, in addition to that of the added mass (kg)."""
    cross_flow: NonNegativePerRobot = 0.0
    """Cross-flow drag per hull length and per squared speed of the water across the hull (kg/m^2)."""
    cross_flow_length: NonNegativePerRobot = 0.0
    """Length over which the cross-flow drag is integrated (m); 0: the hull length."""
    single_rotation: FractionPerRobot = 0.0
    """Correction of the rotation of the body frame, which the published simulator counts twice in the velocities (1).
    0: counted twice, as published; 1: counted once, as in Fossen's equations."""
    actuators: ActuatorConfig = field(default_factory=ActuatorConfig)
    """Propellers and steering."""

    def __post_init__(self) -> None:
        check_fields(self, "world.vessel")

    @property
    def num_actions(self) -> int:
        """Number of discrete actions: pairs of a left and a right rate of change of the thrust."""
        return len(self.left_thrust_change) * len(self.right_thrust_change)

    @property
    def needs_actuator_parameters(self) -> bool:
        """Whether any field of ``actuators`` or any of HULL_TERMS differs from its default."""
        terms = any(getattr(self, name) != 0.0 for name in HULL_TERMS)
        return terms or self.actuators != ActuatorConfig()


SHORE_SIZES = (0, 16, 64, 256)
"""Numbers of segments of shore that worlds have room for."""

MAX_WAYPOINTS = 8
"""Largest number of waypoints of a route, with the goal."""


def shore_room(segments: int) -> int:
    """Return the smallest of SHORE_SIZES for a number of segments of shore."""
    require(segments <= SHORE_SIZES[-1], "shores", segments, f"at most {SHORE_SIZES[-1]} (chart --segments)")
    return next(size for size in SHORE_SIZES if size >= segments)


@dataclass(frozen=True)
class SensorConfig:
    """Detection of other robots and obstacles, and its noise."""

    range: PositivePerRobot = 20.0
    """Detection range, to the hull of the object (m)."""
    angle: PositivePerRobot = 2.0 * math.pi
    """Field of view, centred on the bow (rad)."""
    max_objects: Annotated[int | Annotated[tuple[int, ...], IS_NOT_EMPTY], at_least(1), at_most(64)] = 5
    """Largest number of objects that a robot observes, the closest first; the largest of all robots is the number of
    object slots."""
    pos_std: NonNegativePerRobot = 0.05
    """Standard deviation of a measured position, per axis (m)."""
    vel_std: NonNegativePerRobot = 0.05
    """Standard deviation of a measured velocity, per axis (m/s)."""
    r_mean_ratio: Annotated[PerRobot, at_least(0.0), at_most(1.0)] = 0.8
    """Mean of a measured radius as a share of the true one (1); von Mises noise varies the share by at most one minus
    this mean."""
    r_kappa: Annotated[PerRobot, at_least(0.0), at_most(500.0)] = 1.0
    """Concentration of the von Mises noise of a measured radius (1)."""
    scan_beams: Annotated[int, at_least(0), at_most(1024)] = 0
    """Number of beams of the range scan, the observation entry ``scan``; 0: no scan."""
    scan_angle: Annotated[float, above(0.0), at_most(2.0 * math.pi)] = 2.0 * math.pi
    """Field of view of the range scan, centred on the bow and divided evenly among the beams (rad)."""
    scan_range: PositiveFloat = 20.0
    """Longest distance that the range scan measures (m)."""
    scan_std: NonNegativeFloat = 0.05
    """Standard deviation of a distance measured by the range scan (m)."""
    sees_through_land: bool = False
    """True if land hides nothing that lies behind it."""
    duties: bool = False
    """True if robots observe their encounters with the objects in their slots, the entry ``duties`` (see
    sensing.duties)."""
    objects_id: bool = False
    """True if robots observe the numbers of the objects in their slots, the entry ``objects_id``."""
    entries: tuple[str, ...] = ()
    """Sensors of further observation entries, each as package.module:Class (see sensing.entries)."""

    def __post_init__(self) -> None:
        check_fields(self, "world.sensor")

    @property
    def slots(self) -> int:
        """Number of object slots K of an observation, the largest ``max_objects`` of all robots."""
        return max(self.max_objects) if isinstance(self.max_objects, tuple) else self.max_objects


@dataclass(frozen=True)
class RewardConfig:
    """Terms of the reward of a control step."""

    timestep_penalty: float = -0.1
    """Reward of every step."""
    COLREGs_penalty: float = -0.1
    """Weight of the turn angle phi (rad) that the rules of the sea (COLREGs) require."""
    collision_penalty: float = -5.0
    """Reward of a collision."""
    goal_reward: float = 10.0
    """Reward of an arrival, unless the vessel collides in the same step."""
    give_way_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of a term from 0 to 2 for passing too close to a vessel that a robot must keep clear of (see
    rules.reward.role_terms); 0: no such term."""
    stand_on_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of a term from 0 to 1 for changes of course and speed by a vessel that must stand on."""
    port_turn_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of a term from 0 to 1 for the rate of turns to port when vessels meet head-on or cross."""
    slowing_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of a term from 0 to 1 for slowing down without a turn to starboard when vessels meet head-on, since rule
    14 requires a turn."""
    steerage_speed: NonNegativeFloat = 0.0
    """Least speed ahead (m/s) that the give_way, port_turn and slowing penalties assume of vessels that meet head-on,
    since stopping does not replace the turn of rule 14."""
    astern_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of a term for going astern, which rises from 0 at rest to 1 at 0.5 m/s."""
    broken_duty_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Reward of a step in which a vessel breaks a duty of an encounter, as evaluations judge it (see
    rules.encounters)."""
    off_course_penalty: Annotated[float, at_most(0.0)] = 0.0
    """Weight of a term for moving across the line to the goal while a vessel detects nothing, which rises from 0 to 1
    at 1 m/s."""
    passing_distance: NonNegativeFloat = 0.0
    """Passing distance that the give_way, stand_on, port_turn and slowing penalties require (m); 0: colregs.domain."""
    passing_margin: NonNegativeFloat = 0.0
    """Distance inside the passing distance over which one half of the give_way penalty rises (m); the other half rises
    over the whole passing distance. 0: all of the penalty rises over the whole passing distance."""
    function: str = ""
    """User-defined reward function as package.module:function (see marinenav_env.rules.reward); empty: the built-in
    terms."""

    def __post_init__(self) -> None:
        check_fields(self, "world.reward")


Profile = Literal["default", "tum", "hagen2023", "moos"]
"""Name of a set of definitions of encounters and duties, see rules.profiles."""
Angle = Annotated[float, at_least(0.0), at_most(math.pi)]


@dataclass(frozen=True)
class ColregsConfig:
    """Rules of the sea (COLREGs): zones of the published reward, encounters, duties.

    Zones are in a frame at the other vessel with x along its velocity.
    """

    min_speed: NonNegativeFloat = 0.5
    """Least speed of both vessels for a rule to apply (m/s)."""
    crossing_x: OrderedRange = (-9.0, 12.0)
    """Bounds of the crossing zone along the other vessel's course (m)."""
    crossing_y: OrderedRange = (-17.0, 0.0)
    """Bounds of the crossing zone across the other vessel's course, positive to its starboard (m)."""
    crossing_corner_y: float = -7.0
    """Value of y at x = crossing_x[1] of the line that cuts a corner off the crossing zone (m); outside of the zone is
    y - crossing_corner_y > -crossing_corner_slope * (x - crossing_x[1])."""
    crossing_corner_slope: float = 7.0 / 12.0
    """Minus the slope of the line that cuts the corner off the crossing zone (1); see crossing_corner_y."""
    crossing_heading: OrderedRange = (math.pi / 4, 3 * math.pi / 4)
    """Bounds of the own course relative to the other vessel's in a crossing (rad)."""
    head_on_x: OrderedRange = (0.0, 17.0)
    """Bounds of the head-on zone along the other vessel's course (m)."""
    head_on_half_width: NonNegativeFloat = 4.5
    """Half of the width of the head-on zone across the other vessel's course (m)."""
    head_on_heading: float = 3 * math.pi / 4
    """Difference of the courses above which vessels are head-on (rad)."""
    clearance: NonNegativeFloat = 1.0
    """Margin added to the other vessel's radius for the tangent along which to pass it (m)."""
    domain: PositiveFloat = 8.0
    """Smallest passing distance that vessels should keep, from centre to centre (m)."""
    horizon: PositiveFloat = 20.0
    """Time to the closest approach above which there is no risk of collision (s)."""
    stand_on_until: NonNegativeFloat = 10.0
    """Distance below which a stand-on vessel may act (m); 0: not before the risk is over."""
    profile: Profile = "default"
    """Named set of definitions that the settings below were taken from, see docs/evaluation.md."""
    head_on_courses: Angle = 0.875 * math.pi
    """Difference of the headings above which vessels are head-on (rad)."""
    stern_bearing: Angle = 0.625 * math.pi
    """Bearing from a vessel above which another comes from astern of it (rad): 22.5 degrees abaft the beam."""
    overtaking_bearing: Angle = math.pi
    """Largest bearing of the vessel ahead from one that overtakes it (rad)."""
    confirm: NonNegativeFloat = 3.0
    """Time that a risk of collision has to last before duties count (s)."""
    urgent_time: NonNegativeFloat = 5.0
    """Time to the closest approach up to which a risk counts at once (s)."""
    urgent_distance: NonNegativeFloat = 10.0
    """Distance below which a risk counts at once (m)."""
    substantial_turn: Annotated[float, above(0.0), at_most(math.pi)] = math.pi / 12.0
    """Smallest change of course that is a substantial manoeuvre (rad)."""
    substantial_slowing: Annotated[float, above(0.0), at_most(1.0)] = 0.3
    """Smallest reduction of speed that is a substantial manoeuvre, as a share of the first speed (1), and the change of
    speed that a stand-on vessel must not reach; with 1 only turns count."""
    stand_on_turn: Annotated[float, above(0.0), at_most(math.pi)] = math.pi / 12.0
    """Change of course that a stand-on vessel must not reach (rad)."""
    act_within: NonNegativeFloat = 0.0
    """Time after the confirmation within which a vessel must have begun to keep clear (s); 0: only distances count."""
    clear_time: PositiveFloat = 2.5
    """Time that vessels have to move apart before they are past and clear (s)."""
    clear_distance: NonNegativeFloat = 0.0
    """Distance below which they are not yet past and clear, unless they are out of sight (m)."""

    def __post_init__(self) -> None:
        check_fields(self, "world.colregs")


@dataclass(frozen=True)
class ScenarioConfig:
    """Sampling of scenarios, with map, distances, currents and obstacles."""

    width: PositiveFloat = 55.0
    """Map size along x (m)."""
    height: PositiveFloat = 55.0
    """Map size along y (m)."""
    start_margin: NonNegativeFloat = 2.0
    """Least distance of starts and goals from the edge of the map (m)."""
    obstacle_margin: NonNegativeFloat = 5.0
    """Least distance of obstacle centres from the edge of the map (m)."""
    clear_r: NonNegativeFloat = 10.0
    """Least distance between starts, between goals, and of the edges of obstacles and vortex cores from starts and
    goals (m)."""
    core_radius: PositiveFloat = 0.5
    """Radius r_c of a vortex core (m)."""
    v_rel_max: PositiveFloat = 1.0
    """Largest sum of the current speeds of two cores of the same rotation, each taken at the centre of the other
    (m/s)."""
    p: PositiveFloat = 0.8
    """Largest current speed of the stronger of two cores of opposite rotation near the weaker one, as a share of the
    edge speed of the weaker one (1)."""
    v_range: Annotated[OrderedRange, at_least(0.0)] = (3.0, 3.0)
    """Range of the current speed at the edge of a vortex core, drawn uniformly (m/s)."""
    obs_r_range: Annotated[OrderedRange, at_least(0.0)] = (1.0, 1.0)
    """Range of the obstacle radius, drawn uniformly (m)."""
    scale: PositiveFloat = 1.0
    """Factor on the lengths of encounters and of the levels of suites: ratio of the vessel's length to 5 m (1)."""
    speed_scale: PositiveFloat = 1.0
    """Factor on the speeds of encounters: ratio of the vessel's top speed to the published one (1)."""
    shore_segments: Annotated[int, Rule("0, 16, 64 or 256", lambda size: size in SHORE_SIZES)] = 0
    """Room for segments of shore, in episodes that have some at least as much as these need; 0: open water."""
    shore_margin: PositiveFloat = 5.0
    """Least distance of starts, goals and computed routes from shores (m)."""
    waypoint_radius: PositiveFloat = 5.0
    """Distance at which a robot has passed a waypoint of its route (m); it has also passed one that is abeam."""
    draws: Annotated[int, at_least(1), at_most(50_000)] = 500
    """Largest number of draws for the robots, for the cores and for the obstacles of a scenario; increased
    automatically for levels where most scenarios would need more."""

    @property
    def time_scale(self) -> float:
        """Factor on the times of encounters (1): ``scale``, the factor on lengths, divided by ``speed_scale``."""
        return self.scale / self.speed_scale

    def __post_init__(self) -> None:
        section = "world.scenario"
        check_fields(self, section)
        room = min(self.width, self.height) / 2
        for name in ("start_margin", "obstacle_margin"):
            value = getattr(self, name)
            require(value < room, f"{section}.{name}", value, f"below {room:g}, half the map")


MAX_DELAY = 4
"""Largest value of WeatherConfig.delay, the delay of commands (control steps)."""


@dataclass(frozen=True)
class WeatherConfig:
    """Wind, waves, delayed commands and missed detections; none by default.

    Directions are those towards which wind and waves move, clockwise from north. For the equations see
    marinenav_env.physics.weather.
    """

    wind_speed: NonNegativeFloat = 0.0
    """Speed of the steady wind (m/s)."""
    wind_direction: float = 0.0
    """Direction that the wind blows towards (rad)."""
    wave_height: NonNegativeFloat = 0.0
    """Significant height of the waves (m)."""
    wave_period: PositiveFloat = 3.0
    """Peak period of the wave spectrum (s)."""
    wave_direction: float = 0.0
    """Direction that the waves run towards (rad)."""
    wave_seed: NonNegativeInt = 0
    """Seed of the phases of the waves."""
    hull_height: PositiveFloat = 1.0
    """Height of hulls above the water (m)."""
    delay: Annotated[int, at_least(0), at_most(MAX_DELAY)] = 0
    """Delay until a command takes effect (control steps)."""
    missed: Fraction = 0.0
    """Probability that a robot does not detect an object in a step."""

    def __post_init__(self) -> None:
        check_fields(self, "world.weather")

    @property
    def is_calm(self) -> bool:
        """Whether there is no wind, no waves, no delay and no missed detection."""
        return not (self.wind_speed or self.wave_height or self.delay or self.missed)


MODERATE_WEATHER = WeatherConfig(wind_speed=8.0, wave_height=0.4, delay=1, missed=0.1)
"""Weather of moderate strength: a fresh breeze (Beaufort 4 to 5) with the short waves of sheltered water."""


@dataclass(frozen=True)
class WorldConfig:
    """Configuration of a world: time step, episodes, vessels, sensors, reward, rules, weather."""

    dt: Annotated[float, at_least(1e-4), at_most(1.0)] = 0.05
    """Length of a substep, in which the motion is integrated (s)."""
    substeps: Annotated[int, at_least(1), at_most(1000)] = 10
    """Number of substeps of a control step."""
    max_steps: Annotated[int, at_least(1), at_most(1_000_000)] = 1000
    """Control steps after which an episode is truncated."""
    ends_at_first_collision: bool = False
    """True if the first collision of any robot ends the episode, as in evaluation."""
    vessel: VesselConfig = field(default_factory=VesselConfig)
    """Hull, thrusters and hydrodynamics of the vessels."""
    sensor: SensorConfig = field(default_factory=SensorConfig)
    """Detection of other robots and obstacles."""
    reward: RewardConfig = field(default_factory=RewardConfig)
    """Terms of the reward."""
    colregs: ColregsConfig = field(default_factory=ColregsConfig)
    """Zones of the rules of the sea (COLREGs)."""
    scenario: ScenarioConfig = field(default_factory=ScenarioConfig)
    """Sampling of scenarios, with map, distances, currents and obstacles."""
    weather: WeatherConfig = field(default_factory=WeatherConfig)
    """Wind, waves, delayed commands and missed detections."""

    def __post_init__(self) -> None:
        check_fields(self, "world")

    @property
    def control_step(self) -> float:
        """Length of a control step (s)."""
        return self.dt * self.substeps

    @property
    def follows_encounters(self) -> bool:
        """Return whether the state contains the encounters of vessels (see rules.encounters)."""
        return self.sensor.duties or self.reward.broken_duty_penalty != 0.0
