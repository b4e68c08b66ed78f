"""Actuators (propellers with thrust curve, lag and dead band; azimuth thruster; rudder) and further hull terms.

The published vessel has none of them: its thrust follows the commanded rate, within its limits. With actuators,
``State.thrust`` holds a *setpoint* T_c of each side instead, which the policy observes in place of the thrust:

- *Propeller.* With T_m the largest thrust in the direction of T_c (max_thrust ahead, -min_thrust astern), the commanded
  shaft speed, as a share of the full one, is ``n_c = sign(T_c) (|T_c| / T_m)^speed_exponent``, and 0 below dead_band.
  The shaft follows with ``dn/dt = (n_c - n) / lag``, and the thrust is ``strength T_m n |n|``. So k of the curve
  ``k n |n|`` differs ahead and astern as T_m does (Fossen, Handbook of Marine Craft, 2021, ch. 9).
- *Two thrusters* are ``spacing`` apart, and give the forces of ``dynamics.thruster_forces``.
- *Azimuth.* The left setpoint is that of the only thruster; the right one, over max_thrust, is the share of angle_limit
  to which the thruster turns, at most at angle_rate. It pushes with thrust T at the distance x = ``position`` ahead of
  the origin: surge ``T cos a``, sway ``T sin a``, yaw ``x T sin a``.
- *Rudder.* The setpoints mean the same, with the angle a of a rudder: surge ``T - F sin a``, sway ``F cos a``, yaw
  ``x F cos a``, with ``F = rudder_lift w sin a`` and ``w = u_r |u_r| + 8 max(T, 0) / (pi rho D^2)``: the squared speed
  behind a propeller of diameter D by momentum theory, density rho 1025 kg/m^3. The drift of the water across the
  rudder is not modelled; the damping of the hull has to cover it.
- *Hull.* Surge ``xUUU u_r^3``, sway ``yVVV v_r^3``, yaw ``nRRR r^3 + nUV u_r v_r``.
- *Cross flow.* With c = cross_flow and l = cross_flow_length, sway ``-c int |v_r + x r| (v_r + x r) dx`` and yaw the
  same with the integrand times x, from -l/2 to l/2, in closed form (Fossen 2021, ch. 6.4: c = rho T C_d / 2).
- *Rotation.* The published simulator turns the velocity into the body frame of the new heading, which is the Coriolis
  and centripetal acceleration, and adds that of the rigid body and of the added mass again. With single_rotation 1 the
  force M a cancels the first, where a dt is the velocity in the frame of the heading before the substep minus that in
  the frame after it. Coefficients identified elsewhere need this, since counting the rotation twice doubles the drift
  of a vessel that turns.

Scripted vessels (``Scenario.scripted``) have ideal thrusters.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from marinenav_env.config import STEERING_TYPES
from marinenav_env.physics.dynamics import Wrench, integrate_motion, move_ideal_vessels, steady_thrust, thruster_forces
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import ActuatorParameters, Parameters, Scenario, State, Vessel

THRUSTERS, RUDDER = (STEERING_TYPES.index(name) for name in ("thrusters", "rudder"))
WATER_DENSITY = 1025.0
"""Density of the water (kg/m^3)."""
_MIN_DIVISOR = 1e-30
"""Smallest thrust limit by which setpoints are divided, because a limit may be 0 (N)."""


def move_vessels(
    state: State,
    rates: Tensor,
    scenario: Scenario,
    parameters: Parameters,
    dt: float,
    substeps: int,
    weather: Wrench | None = None,
) -> State:
    """Return the state after the motion of every robot in one control step, with actuators if the parameters have any.

    ``rates`` [E, R, 2] are the commanded rates of the thrusts or setpoints (N/s), ``weather`` is the Wrench [E, R] of
    wind and waves.
    """
    vessel, extras, core_radius = parameters.vessel, parameters.extras, parameters.rules.core_radius
    moved = state.clone(recurse=False)
    if extras is None or state.actuator is None:
        moved.pose, moved.velocity_water, moved.velocity_ground, moved.thrust = move_ideal_vessels(
            state, rates, scenario, vessel, core_radius, dt, substeps, weather
        )
        return moved
    low, high = setpoint_limits(vessel, extras)
    setpoint = torch.clamp(state.thrust + dt * substeps * rates, low, high)
    drive = _ActuatorModel(setpoint, scenario, vessel, extras, dt)
    ambient = None if weather is None else tuple(map(env_last, weather))

    def force(actual: Tensor, u_r: Tensor, v_r: Tensor, r: Tensor) -> tuple[Tensor, Wrench]:
        actual = drive.next_state(actual)
        surge, sway, yaw = drive.wrench(actual, u_r, v_r, r)
        if ambient is not None:
            surge, sway, yaw = surge + ambient[0], sway + ambient[1], yaw + ambient[2]
        return actual, (surge, sway, yaw)

    moved.pose, moved.velocity_water, moved.velocity_ground, actual = integrate_motion(
        state, scenario, vessel, core_radius, dt, substeps, env_last(state.actuator), force
    )
    moved.thrust, moved.actuator = setpoint, env_first(actual)
    return moved


def setpoint_limits(vessel: Vessel, extras: ActuatorParameters) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest setpoints of both sides (N), [E or 1, R or 1, 2]."""
    share = torch.stack((extras.left_limit, extras.right_limit), -1)
    low, high = vessel.min_thrust[..., None] * share, vessel.max_thrust[..., None] * share
    # The right setpoint of a steered vessel stands for an angle, whose limit is the same to both sides.
    angle = (extras.steering != THRUSTERS)[..., None] & (torch.arange(2, device=share.device) == 1)
    return torch.where(angle, -vessel.max_thrust[..., None], low), torch.where(
        angle, vessel.max_thrust[..., None], high
    )


def propulsive_thrust(thrust: Tensor, extras: ActuatorParameters | None) -> Tensor:
    """Return State.thrust [E, R, 2] (N), with 0 in place of setpoints that stand for an angle."""
    if extras is None:
        return thrust
    angle = (extras.steering != THRUSTERS)[..., None] & (torch.arange(2, device=thrust.device) == 1)
    return torch.where(angle, 0.0, thrust)


def steady_setpoint(velocity: Tensor, vessel: Vessel, extras: ActuatorParameters | None) -> Tensor:
    """Return the setpoints [E, R, 2] (N) that keep the speed of vessels that go straight ahead with ideal actuators.

    ``velocity`` [E, R, 3] is relative to the water (m/s, m/s, rad/s).
    """
    thrust = steady_thrust(velocity, vessel)
    if extras is None:
        return thrust
    speed = torch.linalg.vector_norm(velocity[..., :2], dim=-1, keepdim=True)
    thrust = thrust - 0.5 * extras.xUUU[..., None] * speed**3
    one = torch.cat((2.0 * thrust[..., :1], torch.zeros_like(thrust[..., :1])), -1)
    return torch.where((extras.steering == THRUSTERS)[..., None], thrust, one)


def num_full_thrusters(extras: ActuatorParameters | None) -> Tensor | float:
    """Return the total thrust ahead under full commands over ``max_thrust`` (1), [E or 1, R or 1].

    It is the number of thrusters unless their limits, strengths or dead bands reduce it.
    """
    if extras is None:
        return 2.0
    k = extras
    left, right = (
        strength * torch.where(limit**k.speed_exponent >= k.dead_band, limit ** (2.0 * k.speed_exponent), 0.0)
        for limit, strength in ((k.left_limit, k.left_strength), (k.right_limit, k.right_strength))
    )
    return left + torch.where(k.steering == THRUSTERS, right, 0.0)


def steady_actuator_state(thrust: Tensor, scenario: Scenario, vessel: Vessel, extras: ActuatorParameters) -> Tensor:
    """Return the steady state of the actuators (State.actuator) [E, R, 2] for setpoints ``thrust`` [E, R, 2] (N)."""
    return env_first(_ActuatorModel(thrust, scenario, vessel, extras, 1.0).target.expand_as(env_last(thrust)))


def cross_flow_drag(sway: Tensor, yaw_rate: Tensor, drag: Tensor, length: Tensor) -> tuple[Tensor, Tensor]:
    """Return the sway force (N) and the yaw moment (N m) of the flow across a hull, in closed form.

    ``sway`` is the velocity relative to the water (m/s), ``yaw_rate`` in rad/s, ``drag`` per length and squared speed
    (kg/m^2), and ``length`` that over which the drag is integrated (m).
    """
    half = 0.5 * length
    spin, cube = yaw_rate.abs() * yaw_rate, half**3
    # The flow has one direction along the whole hull, or it changes its direction at -sway / yaw_rate.
    force = sway.sign() * (2.0 * half * sway * sway + 2.0 / 3.0 * cube * yaw_rate * yaw_rate)
    moment = 4.0 / 3.0 * cube * sway.abs() * yaw_rate
    turns = sway.abs() < half * yaw_rate.abs()
    q = sway / torch.where(turns, half * yaw_rate, 1.0)
    force = torch.where(turns, 2.0 * cube * spin * q * (1.0 + q * q / 3.0), force)
    moment = torch.where(turns, cube * half * spin * (0.5 + q * q * (1.0 - q * q / 6.0)), moment)
    return -drag * force, -drag * moment


class _ActuatorModel:
    """Model of actuators and hull terms in one control step, for setpoints [E, R, 2] (N); results are [..., R, E]."""

    def __init__(
        self, setpoint: Tensor, scenario: Scenario, vessel: Vessel, extras: ActuatorParameters, dt: float
    ) -> None:
        self._extras = k = extras.apply(env_last, batch_size=[])
        self._is_steered, self._has_rudder = k.steering != THRUSTERS, k.steering == RUDDER
        self._setpoint, self._angle = env_last(setpoint), env_last(scenario.thruster_angle)
        self._has_ideal_thrusters = None if scenario.scripted is None else env_last(scenario.scripted)
        self._max, self._min = env_last(vessel.max_thrust), -env_last(vessel.min_thrust)
        self._length, self._dt = env_last(vessel.length), dt
        self._masses = [env_last(mass) for mass in (vessel.m, vessel.xDotU, vessel.yDotV, vessel.nDotV)]
        self._lag_share, self._max_turn = 1.0 - torch.exp(-dt / k.lag), dt * k.angle_rate
        left, right = self._commanded_shaft_speed(self._setpoint[0]), self._commanded_shaft_speed(self._setpoint[1])
        angle = self._setpoint[1] / self._max.clamp_min(_MIN_DIVISOR) * k.angle_limit
        self.target = torch.stack((left, torch.where(self._is_steered, angle, right)))
        """[2, R, E] state of the actuators that the setpoints command."""

    def _commanded_shaft_speed(self, setpoint: Tensor) -> Tensor:
        """Return the commanded shaft speeds [R, E], as shares of the full speed (1), for setpoints [R, E] (N)."""
        k = self._extras
        most = torch.where(setpoint < 0.0, self._min, self._max).clamp_min(_MIN_DIVISOR)
        speed = (setpoint.abs() / most) ** k.speed_exponent * setpoint.sign()
        return torch.where(speed.abs() < k.dead_band, 0.0, speed)

    def next_state(self, actual: Tensor) -> Tensor:
        """Return the state [2, R, E] of the actuators one substep after the state ``actual`` [2, R, E]."""
        lagged = actual + (self.target - actual) * self._lag_share
        turned = actual[1] + (self.target[1] - actual[1]).clamp(-self._max_turn, self._max_turn)
        return torch.stack((lagged[0], torch.where(self._is_steered, turned, lagged[1])))

    def _thrust(self, speed: Tensor, strength: Tensor) -> Tensor:
        """Return the thrust of propellers [R, E] (N), given shaft speed and strength [R, E] (1)."""
        return strength * torch.where(speed < 0.0, self._min, self._max) * speed * speed.abs()

    def wrench(self, actual: Tensor, u_r: Tensor, v_r: Tensor, r: Tensor) -> Wrench:
        """Return the forces of the actuators, in a state [2, R, E], and of the hull terms, at velocities [R, E]."""
        k = self._extras
        left, right = self._thrust(actual[0], k.left_strength), self._thrust(actual[1], k.right_strength)
        angle = torch.where(self._is_steered, actual[1], 0.0)
        if self._has_ideal_thrusters is not None:
            left, right = torch.where(self._has_ideal_thrusters, self._setpoint, torch.stack((left, right)))
            angle = torch.where(self._has_ideal_thrusters, 0.0, angle)
        surge, sway, yaw = thruster_forces(torch.stack((left, right)), self._angle, k.spacing, self._length)
        cos, sin = (angle + self._angle[0]).cos(), (angle + self._angle[0]).sin()
        slipstream = 8.0 * left.clamp_min(0.0) / (math.pi * WATER_DENSITY * k.propeller_diameter.square())
        water = u_r * u_r.abs() + torch.where(k.propeller_diameter > 0.0, slipstream, 0.0)
        lift = k.rudder_lift * water * sin
        ahead = torch.where(self._has_rudder, left - lift * sin, left * cos)
        aside = torch.where(self._has_rudder, lift * cos, left * sin)
        across, turning = cross_flow_drag(v_r, r, k.cross_flow, k.cross_flow_length)
        surge = torch.where(self._is_steered, ahead, surge) + k.xUUU * u_r**3
        sway = torch.where(self._is_steered, aside, sway) + k.yVVV * v_r**3 + across
        yaw = torch.where(self._is_steered, k.position * aside, yaw) + k.nRRR * r**3 + k.nUV * u_r * v_r + turning
        return self._with_single_rotation((surge, sway, yaw), u_r, v_r, r)

    def _with_single_rotation(self, tau: Wrench, u_r: Tensor, v_r: Tensor, r: Tensor) -> Wrench:
        """Add the force that cancels the second rotation of the velocity, if ``single_rotation`` is 1."""
        cos, sin, share = (self._dt * r).cos(), (self._dt * r).sin(), self._extras.single_rotation / self._dt
        along = share * (u_r * cos - v_r * sin - u_r)
        across = share * (u_r * sin + v_r * cos - v_r)
        m, added_u, added_v, coupled = self._masses
        return tau[0] + (m - added_u) * along, tau[1] + (m - added_v) * across, tau[2] - coupled * across
