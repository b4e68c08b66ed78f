"""Tensor classes (tensordict.TensorClass) of the world: state, scenario, parameters, observation, outcome.

Shapes: E environments, R robot slots, O obstacle slots, C vortex-core slots, S segments of shore, W waypoints,
M = R + O objects, K object slots of an observation. Slots that a scenario does not use are masked.
"""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from tensordict import TensorClass, TensorDict
from torch import Tensor

from marinenav_env.config import HULL_TERMS, ActuatorConfig, VesselConfig


class State(TensorClass):
    """State of every robot; batch [E]."""

    pose: Tensor
    """[E, R, 3] x, y (m) in the world frame, yaw (rad) in [0, 2 pi)."""
    velocity_water: Tensor
    """[E, R, 3] velocity relative to the water: x, y (m/s, world frame), yaw rate (rad/s)."""
    velocity_ground: Tensor
    """[E, R, 3] velocity over ground: x, y (m/s, world frame), yaw rate (rad/s); as published, one
    substep older than the rest."""
    thrust: Tensor
    """[E, R, 2] left and right thrust (N)."""
    active: Tensor
    """[E, R] bool: the robot is present and has not ended (arrived or collided)."""
    collided: Tensor
    """[E, R] bool: the robot has collided."""
    arrived: Tensor
    """[E, R] bool: the robot has arrived at its goal."""
    steps: Tensor
    """[E] int64: control steps since the start of the episode."""
    pending: Tensor | None = None
    """[E, R, MAX_DELAY, 2] thrust rates (left, right) commanded in the last steps, the latest first (N/s), which
    weather may delay; None without weather."""
    actuator: Tensor | None = None
    """[E, R, 2] shaft speeds of the left and right propeller, as shares of the full speed (1), or the shaft speed of
    the only propeller (1) and the angle of the azimuth thruster or rudder (rad); None for ideal thrusters."""
    encounters: Tensor | None = None
    """[E, R, R, F] encounters of vessels (third axis) with others (second axis), in the last dimension the F fields of
    encounters.EncounterState; None unless the world ``follows_encounters``."""
    waypoint: Tensor | None = None
    """[E, R] int64: number of the waypoint of ``Scenario.route`` that the robot steers for; None without routes."""
    grounded: Tensor | None = None
    """[E, R] bool: the robot has collided with land; None in a world without shores."""


MOTION_FIELDS = ("pose", "velocity_water", "velocity_ground", "thrust", "actuator")
"""Fields of State with the motion of robots, which another simulator may set."""


class Scenario(TensorClass):
    """Initial conditions of an episode; batch [E]."""

    goal: Tensor
    """[E, R, 2] x, y of the goal (m)."""
    start: Tensor
    """[E, R, 2] x, y of the start (m)."""
    heading: Tensor
    """[E, R] initial yaw (rad)."""
    velocity: Tensor
    """[E, R, 3] initial velocity relative to the water (m/s, m/s, rad/s; world frame)."""
    thrust: Tensor
    """[E, R, 2] initial left and right thrust (N)."""
    thruster_angle: Tensor
    """[E, R, 2] fixed angle of the left and right thruster from the bow (rad)."""
    robot_mask: Tensor
    """[E, R] bool: the robot exists."""
    obstacle_position: Tensor
    """[E, O, 2] x, y of the centre of an obstacle (m)."""
    obstacle_radius: Tensor
    """[E, O] radius of an obstacle (m)."""
    obstacle_mask: Tensor
    """[E, O] bool: the obstacle exists."""
    core_position: Tensor
    """[E, C, 2] x, y of the centre of a vortex core (m)."""
    core_circulation: Tensor
    """[E, C] circulation of a vortex core (m^2/s), positive if it is clockwise, 0 in an unused slot."""
    level: Tensor
    """[E] int64: index, in Curriculum.levels, of the level that the scenario was drawn for."""
    scripted: Tensor | None = None
    """[E, R] bool: the robot is not controlled by actions, is not ended by a collision and yields no training
    data; None: no robot is scripted."""
    behaviour: Tensor | None = None
    """[E, R] int64: behaviour of a scripted robot, an index into levels.BEHAVIOURS; None: all scripted
    robots keep course and speed."""
    onset: Tensor | None = None
    """[E, R] time in the episode at which the behaviour begins (s); None without behaviours."""
    shores: Tensor | None = None
    """[E, S, 4] begin x, y and end x, y of segments of shore (m), with land on their left (see physics.shores); None in
    a world without shores."""
    route: Tensor | None = None
    """[E, R, W, 5] waypoints of every robot, of which the last ones are the goal (see physics.routes); None in a world
    without shores."""
    map_size: Tensor | None = None
    """[E, 2] size of the map along x and y (m); None in a world without shores."""
    track: Tensor | None = None
    """[E, R, T, 3] time in the episode (s), x and y (m) of points, by rising time, that scripted robots with the
    behaviour ``track`` pass; None without such robots."""


class Vessel(TensorClass):
    """VesselConfig as tensors, except actuators and HULL_TERMS; every field is [E or 1, R or 1], broadcast if shared.

    The n thrust rates of discrete actions, left_thrust_change and right_thrust_change, are [E or 1, 1, n].
    """

    __annotations__ = {
        item.name: Tensor for item in fields(VesselConfig) if item.name not in ("name", "actuators", *HULL_TERMS)
    }


class ActuatorParameters(TensorClass):
    """ActuatorConfig, and the HULL_TERMS of VesselConfig, as tensors; every field is [E or 1, R or 1].

    ``steering`` is the int64 index into config.STEERING_TYPES. Where spacing, position or cross_flow_length is 0 in the
    configuration, the tensor contains the value that 0 stands for.
    """

    __annotations__ = dict.fromkeys((*(item.name for item in fields(ActuatorConfig)), *HULL_TERMS), Tensor)


class Sensor(TensorClass):
    """SensorConfig as tensors, with names and units as there; every field is [E or 1, R or 1]."""

    range: Tensor
    angle: Tensor
    pos_std: Tensor
    vel_std: Tensor
    r_mean_ratio: Tensor
    max_objects: Tensor
    """[E or 1, R or 1] int64: number of the K object slots that this robot may use."""
    table_row: Tensor
    """[E or 1, R or 1] int64: row of the table of perception.von_mises_quantiles for the ``r_kappa`` of this robot."""


class RewardParameters(TensorClass):
    """Weights of the terms of RewardConfig that may vary by environment, and radius of vortex cores; all [E or 1]."""

    timestep_penalty: Tensor
    COLREGs_penalty: Tensor
    collision_penalty: Tensor
    goal_reward: Tensor
    core_radius: Tensor
    """Radius of the vortex cores (m)."""


class Weather(TensorClass):
    """WeatherConfig as tensors, with the W frequencies of the wave spectrum."""

    wind: Tensor
    """[E or 1, 2] velocity of the wind (m/s, world frame)."""
    wave_direction: Tensor
    """[E or 1] direction that the waves run towards (rad)."""
    wave_frequency: Tensor
    """[E or 1, W] angular frequencies of the waves (rad/s)."""
    wave_amplitude: Tensor
    """[E or 1, W] amplitudes of the waves (m)."""
    wave_phase: Tensor
    """[E or 1, W] phases of the waves (rad)."""
    hull_height: Tensor
    """[E or 1] height of hulls above the water (m)."""
    delay: Tensor
    """[E or 1] int64: delay of commands (control steps)."""
    missed: Tensor
    """[E or 1] probability that a robot does not detect an object in a step."""


class Parameters(TensorClass):
    """Parameters that are constant over an episode; batch [E], or [1] when all environments share them."""

    vessel: Vessel
    sensor: Sensor
    rules: RewardParameters
    weather: Weather | None = None
    """Wind, waves, delays and missed detections; None if there are none in any environment."""
    extras: ActuatorParameters | None = None
    """Actuators and additional hull terms; None if all vessels have ideal thrusters and none of HULL_TERMS."""


class Observation(TensorClass):
    """Observation of every robot, of itself and of the nearest objects, batch [E]; zeros for inactive robots."""

    self_state: Tensor
    """[E, R, 7] goal x, y (m, body frame), surge and sway velocity over ground (m/s), yaw rate (rad/s), left and right
    thrust (N)."""
    objects_state: Tensor
    """[E, R, K, 5] x, y (m), v_x, v_y over ground (m/s), in the body frame, radius (m)."""
    objects_mask: Tensor
    """[E, R, K] bool: the slot holds an object."""


class Outcome(TensorClass):
    """Outcome of a control step; batch [E]; all but ``terminated`` is zero for a robot not active before the step."""

    reward: Tensor
    """[E, R] reward, zero for a scripted robot."""
    collided: Tensor
    """[E, R] bool: the robot collided in this step, with land or with something else."""
    arrived: Tensor
    """[E, R] bool: the robot arrived in this step and did not collide."""
    colregs: Tensor
    """[E, R] bool: the rules of the sea require a turn after this step."""
    phi: Tensor
    """[E, R] angle of the turn that the rules of the sea require (rad), 0 if they require none."""
    energy: Tensor
    """[E, R] energy of the step: time integral of the absolute thrusts times the power coefficient (N s)."""
    terminated: Tensor
    """[E, R] bool: the robot has collided or arrived, in this step or earlier, is absent, or is
    scripted."""
    truncated: Tensor
    """[E, R] bool: the episode is over before the robot has ended."""
    episode_terminated: Tensor
    """[E] bool: every robot has ended, or a collision ended the episode (``ends_at_first_collision``)."""
    episode_done: Tensor
    """[E] bool: the episode is over."""
    grounded: Tensor | None = None
    """[E, R] bool: the robot collided with land in this step; None in a world without shores."""
    statistics: Tensor | None = None
    """[E, S] statistics of the episode up to this step, in the order of episode_statistics.statistic_names; None: not
    requested."""


class ResetState(TensorClass):
    """Scenario, state and observation of episodes, at their start or at any later time; batch [E]."""

    scenario: Scenario
    state: State
    observation: TensorDict
    """Every entry of the observation by name, [E, R, ...]; see sensing.observation."""
    statistics: Tensor | None = None
    """[E, S] statistics of the episode so far, in the order of episode_statistics.statistic_names; None: none."""


class WorldState(NamedTuple):
    """All tensors that a step starts from, of a batch of environments or of the entries of a reset pool."""

    now: ResetState
    """Batch [E]: scenario, state and observation."""
    parameters: Parameters
    """Batch [E], or [1] when shared by all environments."""
