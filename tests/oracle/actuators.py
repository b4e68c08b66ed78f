"""Actuators of one vessel, from the equations of docs/world.md: propellers, azimuth thruster, rudder, hull terms."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import dynamics
from .angles import to_body, to_world, wrap_two_pi
from .current import Core, current_at


@dataclass(frozen=True)
class Actuators:
    """Actuators and hull terms of one vessel."""

    steering: str = "thrusters"
    lag: float = 0.0
    speed_exponent: float = 0.5
    dead_band: float = 0.0
    left_limit: float = 1.0
    right_limit: float = 1.0
    left_strength: float = 1.0
    right_strength: float = 1.0
    spacing: float = 0.0
    position: float = 0.0
    angle_limit: float = math.radians(35.0)
    angle_rate: float = math.radians(20.0)
    rudder_lift: float = 0.0
    propeller_diameter: float = 0.0
    xUUU: float = 0.0
    yVVV: float = 0.0
    nRRR: float = 0.0
    nUV: float = 0.0
    cross_flow: float = 0.0
    cross_flow_length: float = 0.0
    single_rotation: float = 0.0


def clipped_setpoints(p: dynamics.VesselParams, a: Actuators, left: float, right: float) -> tuple[float, float]:
    """Setpoints within their limits (N)."""
    left = dynamics.clip(left, a.left_limit * p.min_thrust, a.left_limit * p.max_thrust)
    if a.steering == "thrusters":
        return left, dynamics.clip(right, a.right_limit * p.min_thrust, a.right_limit * p.max_thrust)
    return left, dynamics.clip(right, -p.max_thrust, p.max_thrust)


def shaft_command(p: dynamics.VesselParams, a: Actuators, setpoint: float) -> float:
    """Shaft speed, as a share of the full one, that a setpoint commands."""
    if setpoint == 0.0:
        return 0.0
    most = p.max_thrust if setpoint > 0.0 else -p.min_thrust
    speed = math.copysign((abs(setpoint) / most) ** a.speed_exponent, setpoint)
    return speed if abs(speed) >= a.dead_band else 0.0


def lagged(value: float, target: float, lag: float, dt: float) -> float:
    """A first-order lag after a substep, in closed form."""
    return target if lag == 0.0 else target + (value - target) * math.exp(-dt / lag)


def propeller_thrust(p: dynamics.VesselParams, speed: float, strength: float) -> float:
    """Thrust (N) of a propeller: k n |n|, with a k for each direction."""
    k = p.max_thrust if speed >= 0.0 else -p.min_thrust
    return strength * k * speed * abs(speed)


def cross_flow(p: dynamics.VesselParams, a: Actuators, v_r: float, r: float) -> tuple[float, float]:
    """Sway force (N) and yaw moment (N m) of the flow across the hull, by narrow strips."""
    length, strips = a.cross_flow_length or p.length, 400
    width = length / strips
    force = moment = 0.0
    for strip in range(strips):
        x = -length / 2.0 + width * (strip + 0.5)
        speed = v_r + x * r
        force -= a.cross_flow * abs(speed) * speed * width
        moment -= x * a.cross_flow * abs(speed) * speed * width
    return force, moment


def forces(
    p: dynamics.VesselParams, a: Actuators, actual: Sequence[float], u_r: float, v_r: float, r: float
) -> list[float]:
    """Surge force, sway force (N) and yaw moment (N m) of the actuators and the hull terms."""
    left = propeller_thrust(p, actual[0], a.left_strength)
    if a.steering == "thrusters":
        right = propeller_thrust(p, actual[1], a.right_strength)
        arm = a.spacing or p.width
        sides = (left, p.left_angle), (right, p.right_angle)
        surge = sum(thrust * math.cos(angle) for thrust, angle in sides)
        sway = sum(thrust * math.sin(angle) for thrust, angle in sides)
        across = arm / 2.0 * (left * math.cos(p.left_angle) - right * math.cos(p.right_angle))
        yaw = across - p.length / 2.0 * sway
    else:
        angle, x = actual[1] + p.left_angle, a.position or -p.length / 2.0
        if a.steering == "azimuth":
            surge, sway = left * math.cos(angle), left * math.sin(angle)
        else:
            squared = u_r * abs(u_r)
            if a.propeller_diameter > 0.0 and left > 0.0:
                squared += left / (0.5 * 1025.0 * math.pi * (a.propeller_diameter / 2.0) ** 2)
            normal = a.rudder_lift * squared * math.sin(angle)
            surge, sway = left - normal * math.sin(angle), normal * math.cos(angle)
        yaw = x * sway
    across, turning = cross_flow(p, a, v_r, r) if a.cross_flow else (0.0, 0.0)
    return [surge + a.xUUU * u_r**3, sway + a.yVVV * v_r**3 + across, yaw + a.nRRR * r**3 + a.nUV * u_r * v_r + turning]


def control_step(
    state: Sequence[float],
    actual: Sequence[float],
    params: dynamics.VesselParams,
    actuators: Actuators,
    command_rates: tuple[float, float],
    cores: Sequence[Core],
    core_radius: float,
    force: Sequence[float] = (0.0, 0.0, 0.0),
) -> tuple[dynamics.State, list[float]]:
    """One control step as move_ideal_vessels, with actuators; actual is their state (shaft speeds, or angle)."""
    x, y, theta, vw_x, vw_y, vw_r, vg_x, vg_y, vg_r, left, right = state
    p, a, now = params, actuators, list(actual)
    step_time = p.dt * p.substeps
    for substep in range(p.substeps):
        current_x, current_y = current_at(x, y, cores, core_radius)
        vg_x, vg_y, vg_r = vw_x + current_x, vw_y + current_y, vw_r
        x, y, theta = x + p.dt * vg_x, y + p.dt * vg_y, wrap_two_pi(theta + p.dt * vg_r)
        if substep == 0:
            left += step_time * command_rates[0]
            right += step_time * command_rates[1]
            left, right = clipped_setpoints(p, a, left, right)
        now[0] = lagged(now[0], shaft_command(p, a, left), a.lag, p.dt)
        if a.steering == "thrusters":
            now[1] = lagged(now[1], shaft_command(p, a, right), a.lag, p.dt)
        else:
            wanted, most = right / p.max_thrust * a.angle_limit, a.angle_rate * p.dt
            now[1] += dynamics.clip(wanted - now[1], -most, most)
        u_r, v_r = to_body(theta, vw_x, vw_y)
        u, v = to_body(theta, vg_x, vg_y)
        total = [own + other for own, other in zip(forces(p, a, now, u_r, v_r, vg_r), force, strict=True)]
        acc = dynamics.acceleration(p, (u_r, v_r, vw_r), (u, v, vg_r), (0.0, 0.0), total)
        # The velocity in the frame of the heading before this substep, in place of that after it.
        before_u, before_v = to_body(theta - p.dt * vg_r, vw_x, vw_y)
        acc[0] += a.single_rotation * (before_u - u_r) / p.dt
        acc[1] += a.single_rotation * (before_v - v_r) / p.dt
        vw_x, vw_y = to_world(theta, u_r + p.dt * acc[0], v_r + p.dt * acc[1])
        vw_r = vw_r + p.dt * acc[2]
    return [x, y, theta, vw_x, vw_y, vw_r, vg_x, vg_y, vg_r, left, right], now
