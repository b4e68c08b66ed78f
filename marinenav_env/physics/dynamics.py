"""Motion of the vessels: 3-DOF manoeuvring model (Fossen, Handbook of Marine Craft, ch. 6.5)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from marinenav_env.physics.current import current_share, current_velocity
from marinenav_env.runtime.layout import env_first, env_last, stack_last
from marinenav_env.state import Scenario, State, Vessel

Wrench = tuple[Tensor, Tensor, Tensor]
"""Forces on a hull: surge force (N), sway force (N) and yaw moment (N m), all of one shape."""
WrenchFunction = Callable[[Any, Tensor, Tensor, Tensor], tuple[Any, Wrench]]
"""Function of a value carried from substep to substep, and of surge and sway velocity relative to the water (m/s) and
yaw rate (rad/s), all [R, E]; it returns the next carried value and a Wrench [R, E]."""


def wrap_to_two_pi(angle: Tensor) -> Tensor:
    """Wrap angles (rad) of any shape to [0, 2 pi)."""
    turn = 2.0 * math.pi
    # torch.remainder is bit-identical within a turn of the interval, but calls a slow fmod.
    wrapped = angle - turn * torch.floor(angle / turn)
    # The quotient may round up to a whole number, and a tiny negative angle to a whole turn.
    wrapped = torch.where(wrapped < 0.0, wrapped + turn, wrapped)
    return torch.where(wrapped < turn, wrapped, 0.0)


def wrap_to_pi(angle: Tensor) -> Tensor:
    """Wrap angles (rad) of any shape to [-pi, pi)."""
    return wrap_to_two_pi(angle + math.pi) - math.pi


def thrust_rates_of_commands(action: Tensor, vessel: Vessel) -> Tensor:
    """Return the left and right thrust rate (N/s) of continuous actions, clipped to [-1, 1]; both [E, R, 2]."""
    return action.clamp(-1.0, 1.0) * vessel.max_thrust_rate[..., None]


def thrust_rates_of_indices(action: Tensor, vessel: Vessel) -> Tensor:
    """Return the left and right thrust rate (N/s) [E, R, 2] of discrete actions.

    ``action`` [E, R] int64 is the index of a pair of A left and B right rates, B times the left index plus the right
    one; clipped to [0, A B).
    """
    left, right = vessel.left_thrust_change, vessel.right_thrust_change
    index = action.clamp(0, left.shape[-1] * right.shape[-1] - 1)
    pairs = (
        (left, torch.div(index, right.shape[-1], rounding_mode="floor")),
        (right, torch.remainder(index, right.shape[-1])),
    )
    rates = [table.expand(*action.shape, table.shape[-1]).gather(-1, column[..., None]) for table, column in pairs]
    return torch.cat(rates, -1)


def steady_thrust(velocity: Tensor, vessel: Vessel) -> Tensor:
    """Return both thrusts (N) that keep the speed of vessels that go straight ahead with two ideal thrusters.

    ``velocity`` [E, R, 3] is relative to the water (m/s, m/s, rad/s).
    """
    speed = torch.linalg.vector_norm(velocity[..., :2], dim=-1)
    drag = -(vessel.xU + vessel.xUU * speed) * speed
    return 0.5 * drag[..., None].expand(*speed.shape, 2)


def thruster_forces(thrust: Tensor, angle: Tensor, spacing: Tensor, length: Tensor) -> Wrench:
    """Return the forces and the moment that two fixed thrusters at the stern exert on the hull, [R, E].

    ``thrust`` (N) and the ``angle`` from the bow (rad) are [2, R, E]; ``spacing`` of the thrusters and ``length`` of
    the hull (m) are [R or 1, E or 1].
    """
    left_along, right_along = thrust * angle.cos()
    left_across, right_across = thrust * angle.sin()
    surge, sway = left_along + right_along, left_across + right_across
    return surge, sway, 0.5 * spacing * (left_along - right_along) - 0.5 * length * sway


def acceleration(
    ground: tuple[Tensor, Tensor], water: tuple[Tensor, Tensor], r: Tensor, tau: Wrench, vessel: Vessel
) -> tuple[Tensor, Tensor, Tensor]:
    """Compute the body-frame acceleration of vessels by Fossen's equation M^-1 (-C_RB nu - (C_A + D + D_n) nu_r + tau).

    All are [R, E], and so is the result, surge, sway (m/s^2) and yaw (rad/s^2): ``ground`` and ``water`` are surge and
    sway velocity over ground and relative to the water (m/s), ``r`` is the yaw rate (rad/s).
    """
    u, v = ground
    u_r, v_r = water
    k = vessel
    abs_v, abs_r = v_r.abs(), r.abs()
    # The rows of -(C_RB nu + C_A nu_r + D nu_r + D_n nu_r), to which tau is added below.
    surge = k.m * r * v - (k.yDotV * v_r + k.yDotR * r) * r + (k.xU + k.xUU * u_r.abs()) * u_r
    sway = (
        -k.m * r * u
        + k.xDotU * u_r * r
        + (k.yV + k.yVV * abs_v + k.yRV * abs_r) * v_r
        + (k.yR + k.yVR * abs_v + k.yRR * abs_r) * r
    )
    yaw = (
        (k.yDotV * v_r + k.yDotR * r) * u_r
        - k.xDotU * u_r * v_r
        + (k.nV + k.nVV * abs_v + k.nRV * abs_r) * v_r
        + (k.nR + k.nVR * abs_v + k.nRR * abs_r) * r
    )
    surge, sway, yaw = surge + tau[0], sway + tau[1], yaw + tau[2]
    # M is block diagonal: surge alone, and sway with yaw.
    m22, m23, m32, m33 = k.m - k.yDotV, -k.yDotR, -k.nDotV, k.Izz - k.nDotR
    determinant = m22 * m33 - m23 * m32
    return (surge / (k.m - k.xDotU), (m33 * sway - m23 * yaw) / determinant, (m22 * yaw - m32 * sway) / determinant)


def move_ideal_vessels(
    state: State,
    rates: Tensor,
    scenario: Scenario,
    vessel: Vessel,
    core_radius: Tensor,
    dt: float,
    substeps: int,
    weather: Wrench | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return pose, velocity_water, velocity_ground and thrust (see State) after a control step with ideal thrusters.

    As published, a substep first moves the vessel with its velocity over ground and only then updates the velocity, so
    that the velocity over ground is one substep old when a step ends. ``rates`` [E, R, 2] are commanded thrust rates
    (N/s), ``weather`` is the Wrench [E, R] of wind and waves.
    """
    low, high = vessel.min_thrust[..., None], vessel.max_thrust[..., None]
    thrust = torch.clamp(env_last(state.thrust + dt * substeps * rates), env_last(low), env_last(high))
    tau = thruster_forces(thrust, env_last(scenario.thruster_angle), env_last(vessel.width), env_last(vessel.length))
    if weather is not None:
        tau = tau[0] + env_last(weather[0]), tau[1] + env_last(weather[1]), tau[2] + env_last(weather[2])
    *motion, _ = integrate_motion(
        state, scenario, vessel, core_radius, dt, substeps, None, lambda carry, *_: (carry, tau)
    )
    return motion[0], motion[1], motion[2], env_first(thrust)


def integrate_motion(
    state: State,
    scenario: Scenario,
    vessel: Vessel,
    core_radius: Tensor,
    dt: float,
    substeps: int,
    carry: Any,
    force: WrenchFunction,
) -> tuple[Tensor, Tensor, Tensor, Any]:
    """Return pose, velocity_water and velocity_ground (see State) after a control step, and the carried value.

    ``carry`` is the first value of what ``force`` passes on from substep to substep.
    """
    vessel_last = vessel.apply(env_last, batch_size=[])
    x, y, theta = env_last(state.pose)
    wx, wy, r = env_last(state.velocity_water)
    share = current_share(state.pose[..., :2], scenario.shores, scenario.core_position, core_radius)
    for _ in range(substeps):
        cx, cy = current_velocity(
            env_first(x), env_first(y), scenario.core_position, scenario.core_circulation, core_radius, share
        )
        gx, gy, gr = wx + env_last(cx), wy + env_last(cy), r
        x, y, theta = x + dt * gx, y + dt * gy, theta + dt * r
        cos, sin = theta.cos(), theta.sin()
        u, v = cos * gx + sin * gy, cos * gy - sin * gx
        u_r, v_r = cos * wx + sin * wy, cos * wy - sin * wx
        carry, tau = force(carry, u_r, v_r, r)
        du, dv, dr = acceleration((u, v), (u_r, v_r), r, tau, vessel_last)
        u_r, v_r, r = u_r + dt * du, v_r + dt * dv, r + dt * dr
        wx, wy = cos * u_r - sin * v_r, sin * u_r + cos * v_r
    return (
        # Wrapped once per step, not once per substep as published, since sine and cosine are periodic.
        stack_last((x, y, wrap_to_two_pi(theta))),
        stack_last((wx, wy, r)),
        stack_last((gx, gy, gr)),
        carry,
    )
