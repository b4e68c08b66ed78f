"""The world's step as one Triton kernel: what ``World.advance`` computes, with the same noise.

A program has a block of environments, and a lane for each of their robots. All substeps are in
registers. Lanes tell each other where their robots are, and what has ended, by memory, with a
barrier between. It runs on a GPU in float32, or in Triton's interpreter; weather, sensors besides
perception, and rewards other than the published one are left to ``World.advance``.

Everything in memory has environments innermost, see marinenav_env.layout.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment, misc"

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.layout import env_first, env_last
from marinenav_env.state import Observation, Outcome, Parameters, Scenario, State
from marinenav_env.validation import require

_PI, _TURN = tl.constexpr(math.pi), tl.constexpr(2.0 * math.pi)
_NAN = tl.constexpr(tl.PropagateNan.ALL)
_LANES = 32
"""Lanes of a program, unless an environment has more robots."""
_REGISTERS = 112
"""Of a lane at most, where a program has as many: ptxas of CUDA 12.8 else spills two."""

_STATE = ("pose", "velocity_water", "velocity_ground", "thrust", "active", "collided", "arrived",
          "steps")  # fmt: skip
_SCENARIO = ("goal", "thruster_angle", "robot_mask", "obstacle_position", "obstacle_radius",
             "obstacle_mask", "core_position", "core_circulation")  # fmt: skip
_COMMANDS = ("left_thrust_change", "right_thrust_change")
_HULL = ("m", "Izz", "xDotU", "yDotV", "yDotR", "nDotR", "nDotV", "xU", "xUU", "yV", "yVV", "yR",
         "yRV", "yVR", "yRR", "nR", "nRR", "nV", "nVV", "nRV", "nVR")  # fmt: skip
"""Parameters of the vessel that the substeps read."""
_VESSEL = ("length", "width", "radius", "detect_radius", "goal_distance", "power_coefficient",
           "min_thrust", "max_thrust", "max_thrust_rate")  # fmt: skip
_SENSOR = ("range", "angle", "pos_std", "vel_std", "r_mean_ratio", "max_objects", "table_row")
_RULES = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward", "core_radius")
_OUTCOME = ("reward", "collided", "arrived", "colregs", "phi", "energy", "terminated", "truncated",
            "episode_terminated", "episode_done")  # fmt: skip
_named: Any = namedtuple  # of computed names, which mypy does not follow
_Given = _named(
    "_Given", (*_STATE, *_SCENARIO, *_COMMANDS, "scripted", "action", "normal", "uniform")
)
"""What a step is computed from besides parameters."""
_Numbers = _named("_Numbers", (*_VESSEL, *_SENSOR, *_RULES))
_Made = _named(
    "_Made",
    (*(f"new_{name}" for name in _STATE), "self_state", "objects_state", "objects_mask", *_OUTCOME),
)
"""What a step gives."""


# Angles and vectors -----------------------------------------------------------------------------


@triton.jit
def _wrap_to_two_pi(angle):
    """dynamics.wrap_to_two_pi."""
    wrapped = angle - _TURN * tl.floor(angle / _TURN)
    wrapped = tl.where(wrapped < 0.0, wrapped + _TURN, wrapped)
    return tl.where(wrapped < _TURN, wrapped, 0.0)


@triton.jit
def _wrap_to_pi(angle):
    """dynamics.wrap_to_pi."""
    return _wrap_to_two_pi(angle + _PI) - _PI


@triton.jit
def _atan2(y, x):
    """Angle of (x, y) in [-pi, pi], to 3e-7: libdevice cannot be interpreted.

    The arc tangent on [0, 1] is an odd polynomial; octants follow from symmetry.
    """
    high, wide = tl.abs(y), tl.abs(x)
    longer = tl.maximum(high, wide)
    t = tl.minimum(high, wide) / tl.where(longer > 0.0, longer, 1.0)
    s = t * t
    p = 2.78569828e-3
    p = p * s - 1.58660226e-2
    p = p * s + 4.24722321e-2
    p = p * s - 7.49753043e-2
    p = p * s + 1.06448799e-1
    p = p * s - 1.42070308e-1
    p = p * s + 1.99934542e-1
    p = p * s - 3.33331466e-1
    angle = p * s * t + t
    angle = tl.where(high > wide, 0.5 * _PI - angle, angle)
    angle = tl.where(x < 0.0, _PI - angle, angle)
    return tl.where(y < 0.0, -angle, angle)


@triton.jit
def _asin(x):
    """Angle in [-pi/2, pi/2] whose sine is x."""
    return _atan2(x, tl.sqrt((1.0 - x) * (1.0 + x)))


@triton.jit
def _load(pointer, own, each, count: tl.constexpr):
    """A vector of so many numbers, ``each`` apart."""
    values = ()
    for i in tl.static_range(count):
        values = values + (tl.load(pointer + own + i * each),)
    return values


@triton.jit
def _store(pointer, own, each, here, values):
    """Store a vector likewise."""
    for i in tl.static_range(len(values)):
        tl.store(pointer + own + i * each, values[i], mask=here)


@triton.jit
def _where(mask, new, old):
    """``tl.where`` of vectors."""
    values = ()
    for i in tl.static_range(len(new)):
        values = values + (tl.where(mask, new[i], old[i]),)
    return values


@triton.jit
def _distance(x, y):
    """Length of a vector of two numbers."""
    return tl.sqrt(x * x + y * y)


@triton.jit
def _turned(x, y, cos, sin):
    """A vector of the world frame in the body frame of a vessel."""
    return cos * x + sin * y, cos * y - sin * x


# Motion -----------------------------------------------------------------------------------------


@triton.jit
def _rates(given, numbers, own, each, mine, at, width, lefts, rights, CONTINUOUS: tl.constexpr):
    """dynamics.continuous_rates or discrete_rates."""
    if CONTINUOUS:
        most = tl.load(numbers.max_thrust_rate + mine)
        left = tl.clamp(tl.load(given.action + own), -1.0, 1.0, _NAN) * most
        right = tl.clamp(tl.load(given.action + own + each), -1.0, 1.0, _NAN) * most
    else:
        index = tl.load(given.action + own).to(tl.int32)
        index = tl.minimum(tl.maximum(index, 0), lefts * rights - 1)
        left = tl.load(given.left_thrust_change + (index // rights) * width + at)
        right = tl.load(given.right_thrust_change + (index % rights) * width + at)
    return left, right


@triton.jit
def _thruster_forces(left, right, given, numbers, own, each, mine):
    """dynamics.thruster_forces."""
    left_angle = tl.load(given.thruster_angle + own)
    right_angle = tl.load(given.thruster_angle + own + each)
    left_along, right_along = left * tl.cos(left_angle), right * tl.cos(right_angle)
    surge = left_along + right_along
    sway = left * tl.sin(left_angle) + right * tl.sin(right_angle)
    wide = 0.5 * tl.load(numbers.width + mine) * (left_along - right_along)
    return surge, sway, wide - 0.5 * tl.load(numbers.length + mine) * sway


@triton.jit
def _current(x, y, given, e, E, C, radius):
    """current.current_velocity."""
    vx, vy = tl.zeros_like(x), tl.zeros_like(y)
    for core in range(C):
        place = core * E + e
        dx = tl.load(given.core_position + place) - x
        dy = tl.load(given.core_position + place + C * E) - y
        strength = tl.load(given.core_circulation + place) / (
            _TURN * tl.maximum(dx * dx + dy * dy, radius * radius)
        )
        vx -= dy * strength
        vy += dx * strength
    return vx, vy


@triton.jit
def _acceleration(u, v, u_r, v_r, r, surge, sway, yaw, hull):
    """dynamics.acceleration."""
    (m, Izz, xDotU, yDotV, yDotR, nDotR, nDotV, xU, xUU, yV, yVV, yR, yRV, yVR, yRR, nR, nRR, nV,
     nVV, nRV, nVR) = hull  # fmt: skip
    abs_v, abs_r = tl.abs(v_r), tl.abs(r)
    surge += m * r * v - (yDotV * v_r + yDotR * r) * r + (xU + xUU * tl.abs(u_r)) * u_r
    sway += (
        -m * r * u
        + xDotU * u_r * r
        + (yV + yVV * abs_v + yRV * abs_r) * v_r
        + (yR + yVR * abs_v + yRR * abs_r) * r
    )
    yaw += (
        (yDotV * v_r + yDotR * r) * u_r
        - xDotU * u_r * v_r
        + (nV + nVV * abs_v + nRV * abs_r) * v_r
        + (nR + nVR * abs_v + nRR * abs_r) * r
    )
    m22, m23, m32, m33 = m - yDotV, -yDotR, -nDotV, Izz - nDotR
    determinant = m22 * m33 - m23 * m32
    return (
        surge / (m - xDotU),
        (m33 * sway - m23 * yaw) / determinant,
        (m22 * yaw - m32 * sway) / determinant,
    )


@triton.jit
def _moved(given, pose, water, tau, hull, radius, dt, substeps, e, E, C):
    """The substeps of dynamics.control_step: pose, velocity through water and over ground."""
    x, y, theta = pose
    wx, wy, r = water
    gx, gy, gr = wx, wy, r
    for _ in range(substeps):
        cx, cy = _current(x, y, given, e, E, C, radius)
        gx, gy, gr = wx + cx, wy + cy, r
        x, y, theta = x + dt * gx, y + dt * gy, theta + dt * r
        cos, sin = tl.cos(theta), tl.sin(theta)
        u, v = _turned(gx, gy, cos, sin)
        u_r, v_r = _turned(wx, wy, cos, sin)
        du, dv, dr = _acceleration(u, v, u_r, v_r, r, tau[0], tau[1], tau[2], hull)
        u_r, v_r, r = u_r + dt * du, v_r + dt * dv, r + dt * dr
        wx, wy = cos * u_r - sin * v_r, sin * u_r + cos * v_r
    return x, y, _wrap_to_two_pi(theta), wx, wy, r, gx, gy, gr


# Perception -------------------------------------------------------------------------------------


@triton.jit
def _object(number, given, numbers, made, e, E, R, M, at, width):
    """perception._objects: one of them, a robot or an obstacle."""
    is_robot = number < R
    robot = number * E + e
    vessel = number * width + at
    obstacle = (number - R) * E + e

    x = tl.load(made.new_pose + robot, mask=is_robot, other=0.0)
    y = tl.load(made.new_pose + robot + R * E, mask=is_robot, other=0.0)
    vx = tl.load(made.new_velocity_ground + robot, mask=is_robot, other=0.0)
    vy = tl.load(made.new_velocity_ground + robot + R * E, mask=is_robot, other=0.0)
    measured = tl.load(numbers.detect_radius + vessel, mask=is_robot, other=0.0)
    touching = tl.load(numbers.radius + vessel, mask=is_robot, other=0.0)
    there = tl.load(given.active + robot, mask=is_robot, other=0)

    is_obstacle = number >= R
    x += tl.load(given.obstacle_position + obstacle, mask=is_obstacle, other=0.0)
    y += tl.load(given.obstacle_position + obstacle + (M - R) * E, mask=is_obstacle, other=0.0)
    radius = tl.load(given.obstacle_radius + obstacle, mask=is_obstacle, other=0.0)
    there = there | tl.load(given.obstacle_mask + obstacle, mask=is_obstacle, other=0)
    return x, y, vx, vy, measured + radius, touching + radius, there


@triton.jit
def _look_up_quantile(quantiles, points, row, uniform):
    """perception.look_up_quantile."""
    position = uniform * (points - 1)
    lower = tl.minimum(position.to(tl.int32), points - 2)
    place = quantiles + row.to(tl.int32) * points + lower
    low, high = tl.load(place), tl.load(place + 1)
    return low + (position - lower) * (high - low)


@triton.jit
def _measured(seen, number, x, y, cos, sin, given, numbers, quantiles, points, own, E, R, M, mine):
    """perception._measured: an object as a robot measures it."""
    place = number * (R * E) + own
    each = M * R * E
    pos_std, vel_std = tl.load(numbers.pos_std + mine), tl.load(numbers.vel_std + mine)
    dx = seen[0] - x + pos_std * tl.load(given.normal + place)
    dy = seen[1] - y + pos_std * tl.load(given.normal + place + each)
    vx = seen[2] + vel_std * tl.load(given.normal + place + 2 * each)
    vy = seen[3] + vel_std * tl.load(given.normal + place + 3 * each)
    row = tl.load(numbers.table_row + mine)
    turn = _look_up_quantile(quantiles, points, row, tl.load(given.uniform + place))
    ratio = tl.load(numbers.r_mean_ratio + mine)
    dx, dy = _turned(dx, dy, cos, sin)
    vx, vy = _turned(vx, vy, cos, sin)
    return dx, dy, vx, vy, seen[4] * (ratio + (1.0 - ratio) * (turn / _PI))


@triton.jit
def _inserted(gaps, nearest, gap, number, K: tl.constexpr):
    """perception._nearest: sorted gaps and numbers of K objects with one more in its place.

    Of equal gaps the one that comes first stays first. The last one falls out.
    """
    passed = gap < gaps[0]
    new_gaps, new_nearest = (), ()
    for slot in tl.static_range(K):
        passed = passed | (gap < gaps[slot])
        new_gaps = new_gaps + (tl.where(passed, gap, gaps[slot]),)
        new_nearest = new_nearest + (tl.where(passed, number, nearest[slot]),)
        gap = tl.where(passed, gaps[slot], gap)
        number = tl.where(passed, nearest[slot], number)
    return new_gaps, new_nearest


# Rules of the sea -------------------------------------------------------------------------------


@triton.jit
def _required_turn(seen, u, v, own_radius, zones):
    """colregs.required_turn for one object."""
    px, py, vx, vy, radius = seen
    (min_speed, x_low, x_high, y_low, y_high, corner_y, slope, course_low, course_high,
     ahead_low, ahead_high, half_width, reciprocal, clearance) = zones  # fmt: skip
    own_speed, other_speed = _distance(u, v), _distance(vx, vy)
    fast = (own_speed >= min_speed) & (other_speed >= min_speed)

    speed = tl.maximum(other_speed, 1e-6)
    cos, sin = vx / speed, vy / speed
    x, y = -(cos * px + sin * py), -(cos * py - sin * px)
    psi = _atan2(cos * v - sin * u, cos * u + sin * v)
    cut = y - corner_y > -slope * (x - x_high)
    crossing = (x >= x_low) & (x <= x_high) & (y >= y_low) & (y <= y_high)
    crossing = crossing & ~cut & (psi >= course_low) & (psi <= course_high)
    head_on = (x >= ahead_low) & (x <= ahead_high) & (tl.abs(y) <= half_width)
    head_on = head_on & (tl.abs(psi) > reciprocal)

    pass_radius = radius + clearance
    distance = _distance(px, py)
    outside = distance >= pass_radius
    safe = tl.maximum(tl.where(outside, distance, pass_radius), 1e-6)
    tangent = tl.sqrt(tl.maximum(safe * safe - pass_radius * pass_radius, 0.0))
    desired = (
        _atan2(py, px)
        + _asin(tl.clamp(pass_radius / safe, -1.0, 1.0))
        + _atan2(own_radius, tangent)
    )
    angle = _wrap_to_pi(desired - _atan2(v, u))
    return fast & (crossing | head_on) & outside & (angle > 0.0), angle


# The step ---------------------------------------------------------------------------------------


@triton.jit
def _kernel(
    given, hull, numbers, quantiles, made, zones, dt, substeps, max_steps,
    E, R, M, C, width, points, lefts, rights, envs,
    LANES: tl.constexpr, K: tl.constexpr, CONTINUOUS: tl.constexpr, SCRIPTED: tl.constexpr,
    ENDS_AT_FIRST_COLLISION: tl.constexpr,
):  # fmt: skip
    """World.advance: ``_world_step`` with pointers.

    E environments, ``envs`` of them a program, R robots, M objects, C cores; parameters are
    [R, width], width being E or 1, and there are so many commands of the left and the right.
    """
    lane = tl.arange(0, LANES)
    environment = tl.program_id(0) * envs + lane % envs
    here = (lane // envs < R) & (environment < E)
    # Lanes without a robot of their own repeat another and store nothing.
    robot, e = tl.minimum(lane // envs, R - 1), tl.minimum(environment, E - 1)
    own, each = robot * E + e, R * E
    at = tl.minimum(e, width - 1)
    mine = robot * width + at

    # Motion.
    active = tl.load(given.active + own)
    present = tl.load(given.robot_mask + own)
    rates = _rates(given, numbers, own, each, mine, at, width, lefts, rights, CONTINUOUS)
    steered, nothing = active, tl.zeros_like(own).to(tl.float32)
    if SCRIPTED:
        present = present & ~tl.load(given.scripted + own)
        steered = active & present
        rates = _where(present, rates, (nothing, nothing))
    low, high = tl.load(numbers.min_thrust + mine), tl.load(numbers.max_thrust + mine)
    was = _load(given.thrust, own, each, 2)
    left = tl.clamp(was[0] + dt * substeps * rates[0], low, high, _NAN)
    right = tl.clamp(was[1] + dt * substeps * rates[1], low, high, _NAN)
    tau = _thruster_forces(left, right, given, numbers, own, each, mine)
    pose = _load(given.pose, own, each, 3)
    water = _load(given.velocity_water, own, each, 3)
    goal_x, goal_y = _load(given.goal, own, each, 2)
    before = _distance(goal_x - pose[0], goal_y - pose[1])
    new = _moved(
        given, pose, water, tau, [tl.load(pointer + mine) for pointer in hull],
        tl.load(numbers.core_radius + mine), dt, substeps, e, E, C,
    )  # fmt: skip
    pose = _where(active, new[0:3], pose)
    ground = _where(active, new[6:9], _load(given.velocity_ground, own, each, 3))
    thrust = _where(active, (left, right), was)
    _store(made.new_pose, own, each, here, pose)
    _store(made.new_velocity_water, own, each, here, _where(active, new[3:6], water))
    _store(made.new_velocity_ground, own, each, here, ground)
    _store(made.new_thrust, own, each, here, thrust)
    tl.debug_barrier()  # from here on the others' poses and velocities are read

    # Perception.
    x, y, theta = pose
    cos, sin = tl.cos(theta), tl.sin(theta)
    reach, view = tl.load(numbers.range + mine), 0.5 * tl.load(numbers.angle + mine)
    radius = tl.load(numbers.radius + mine)
    never = active & ~active
    collided, count = never, tl.zeros_like(robot)
    gaps, nearest = (), ()
    for _ in tl.static_range(K):
        gaps = gaps + (tl.full([LANES], float("inf"), tl.float32),)
        nearest = nearest + (tl.zeros_like(robot),)
    for i in range(M):
        number = tl.zeros_like(robot) + i
        other = _object(number, given, numbers, made, e, E, R, M, at, width)
        sx, sy, _svx, _svy, sr = _measured(
            other, number, x, y, cos, sin, given, numbers, quantiles, points, own, E, R, M, mine
        )
        distance = _distance(sx, sy)
        seen = active & other[6] & (number != robot) & (distance <= reach + sr)
        seen = seen & (tl.abs(_atan2(sy, sx)) <= view)
        dx, dy, touch = other[0] - x, other[1] - y, other[5] + radius
        collided = collided | (seen & (dx * dx + dy * dy <= touch * touch))
        count += seen.to(tl.int32)
        gap = tl.where(seen, distance - sr, float("inf"))
        gaps, nearest = _inserted(gaps, nearest, gap, number, K)

    after = _distance(goal_x - x, goal_y - y)
    goal_x, goal_y = _turned(goal_x - x, goal_y - y, cos, sin)
    u, v = _turned(ground[0], ground[1], cos, sin)
    own_state = (goal_x, goal_y, u, v, ground[2], thrust[0], thrust[1])
    empty = (nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    own_state = _where(active, own_state, empty)
    _store(made.self_state, own, each, here, own_state)

    # The objects in slots, measured once more rather than kept, and the rules of the sea.
    count = tl.minimum(count, tl.load(numbers.max_objects + mine).to(tl.int32))
    colregs, phi = never, nothing
    for slot in range(K):
        number = nearest[0]
        nearest = nearest[1:] + (number,)
        other = _object(number, given, numbers, made, e, E, R, M, at, width)
        seen = _measured(
            other, number, x, y, cos, sin, given, numbers, quantiles, points, own, E, R, M, mine
        )
        kept, place = slot < count, slot * each + own
        column = _where(kept, seen, (nothing, nothing, nothing, nothing, nothing))
        _store(made.objects_state, place, K * each, here, column)
        tl.store(made.objects_mask + place, kept, mask=here)
        applies, angle = _required_turn(seen, own_state[2], own_state[3], radius, zones)
        applies = applies & kept & ~colregs
        phi = tl.where(applies, angle, phi)
        colregs = colregs | applies

    # Reward, see reward.step_reward.
    collided = collided & steered
    within = after <= tl.load(numbers.goal_distance + mine)
    arrived = within & active & ~collided
    event = tl.where(arrived, tl.load(numbers.goal_reward + mine), 0.0)
    event = tl.where(collided, tl.load(numbers.collision_penalty + mine), event)
    shaping = tl.load(numbers.timestep_penalty + mine) + (before - after)
    reward = shaping + tl.load(numbers.COLREGs_penalty + mine) * phi + event
    energy = tl.load(numbers.power_coefficient + mine) * (tl.abs(thrust[0]) + tl.abs(thrust[1]))
    tl.store(made.reward + own, tl.where(steered, reward, 0.0), mask=here)
    tl.store(made.collided + own, collided, mask=here)
    tl.store(made.arrived + own, arrived, mask=here)
    tl.store(made.colregs + own, colregs, mask=here)
    tl.store(made.phi + own, phi, mask=here)
    tl.store(made.energy + own, tl.where(active, energy * (dt * substeps), 0.0), mask=here)

    # Endings, see endings.endings.
    has_collided = tl.load(given.collided + own) | collided
    has_arrived = tl.load(given.arrived + own) | arrived
    terminated = has_collided | has_arrived | ~present
    tl.store(made.new_collided + own, has_collided, mask=here)
    tl.store(made.new_arrived + own, has_arrived, mask=here)
    tl.store(made.new_active + own, active & ~collided & ~arrived, mask=here)
    tl.store(made.terminated + own, terminated, mask=here)
    tl.debug_barrier()  # from here on the others' flags are read
    over, any_collided = ~never, never
    for i in range(R):
        over = over & tl.load(made.terminated + i * E + e)
        any_collided = any_collided | tl.load(made.new_collided + i * E + e)
    if ENDS_AT_FIRST_COLLISION:
        over = over | any_collided
    steps = tl.load(given.steps + e) + 1
    done = over | (steps >= max_steps)
    tl.store(made.truncated + own, done & ~terminated, mask=here)
    first = here & (robot == 0)
    tl.store(made.new_steps + e, steps, mask=first)
    tl.store(made.episode_terminated + e, over, mask=first)
    tl.store(made.episode_done + e, done, mask=first)


# From tensors to pointers -----------------------------------------------------------------------


def _blank(active: Tensor, numbers: Tensor, slots: int) -> Any:
    """Memory for what a step gives, of the usual logical shapes."""
    envs, robots = active.shape

    def made(dtype: torch.dtype, *shape: int) -> Tensor:
        return env_first(torch.empty((*shape, envs), dtype=dtype, device=active.device))

    def real(*shape: int) -> Tensor:
        return made(numbers.dtype, *shape, robots)

    def flags(*shape: int) -> Tensor:
        return made(torch.bool, *shape)

    return _Made(
        real(3), real(3), real(3), real(2), *(flags(robots) for _ in range(3)), made(torch.int64),
        real(7), real(5, slots), flags(slots, robots),
        real(), *(flags(robots) for _ in range(3)), real(), real(),
        *(flags(robots) for _ in range(2)), flags(), flags(),
    )  # fmt: skip


@torch.library.custom_op("marinenav::world_step", mutates_args=())
def _world_step(
    given: list[Tensor], numbers: Tensor, quantiles: Tensor, zones: list[float], dt: float,
    sizes: list[int], continuous: bool, scripted: bool, ends_at_first_collision: bool,
) -> list[Tensor]:  # fmt: skip
    """A step as one operator, so that it can be part of compiled code.

    Args:
        given: see _Given, of the usual logical shapes.
        numbers: [N, R, E or 1] all parameters.
        quantiles: see World.
        zones: of ColregsConfig.
        dt: length of a substep (s).
        sizes: substeps, steps of an episode, object slots.
        continuous: whether actions are.
        scripted: whether any robot is.
        ends_at_first_collision: see WorldConfig.

    Returns:
        See _Made.
    """
    substeps, max_steps, slots = sizes
    memory = _Given(*(env_last(tensor).contiguous() for tensor in given))
    made = _blank(given[_Given._fields.index("active")], numbers, slots)
    robots, envs = memory.active.shape
    lanes = triton.next_power_of_2(max(_LANES, robots))
    share = lanes // robots
    rows = numbers.unbind()
    with torch.cuda.device_of(numbers):
        _kernel[(triton.cdiv(envs, share),)](
            memory, tuple(rows[: len(_HULL)]), _Numbers(*rows[len(_HULL) :]),
            quantiles, made, tuple(zones), dt, substeps, max_steps,
            envs, robots, robots + memory.obstacle_mask.shape[0], memory.core_circulation.shape[0],
            numbers.shape[-1], quantiles.shape[-1],
            memory.left_thrust_change.shape[0], memory.right_thrust_change.shape[0], share,
            LANES=lanes, K=slots, CONTINUOUS=continuous, SCRIPTED=scripted,
            ENDS_AT_FIRST_COLLISION=ends_at_first_collision, num_warps=lanes // 32,
            enable_fp_fusion=True, maxnreg=min(_REGISTERS, 65_536 // lanes),
        )  # fmt: skip
    return list(made)


@_world_step.register_fake
def _(
    given: list[Tensor], numbers: Tensor, quantiles: Tensor, zones: list[float], dt: float,
    sizes: list[int], continuous: bool, scripted: bool, ends_at_first_collision: bool,
) -> list[Tensor]:  # fmt: skip
    return list(_blank(given[_Given._fields.index("active")], numbers, sizes[-1]))


def _stacked(parameters: Parameters, robots: int, dtype: torch.dtype) -> Tensor:
    """All parameters [N, R, E or 1] in the order of _HULL and _Numbers."""
    parts = ((parameters.vessel, (*_HULL, *_VESSEL)), (parameters.sensor, _SENSOR),
             (parameters.rules, _RULES))  # fmt: skip
    envs = parameters.batch_size[0]
    values = [part.get(name).view(envs, -1) for part, names in parts for name in names]
    return torch.stack([value.expand(envs, robots).T.to(dtype) for value in values])


def triton_advance(config: WorldConfig, quantiles: Tensor, continuous: bool) -> Callable[..., Any]:
    """A function that takes the place of ``World.advance``.

    Args:
        config: see World.
        quantiles: see World.
        continuous: see World.

    Raises:
        ConfigError: on a CPU, and in float64.
    """
    runs = quantiles.is_cuda or triton.knobs.runtime.interpret
    require(runs, "world.kernel", "triton", "compiled where there is no GPU")
    require(quantiles.dtype == torch.float32, "world.kernel", "triton", "compiled in float64")
    zones, slots = config.colregs, config.sensor.slots
    numbers = [
        zones.min_speed, *zones.crossing_x, *zones.crossing_y, zones.crossing_corner_y,
        zones.crossing_corner_slope, *zones.crossing_heading, *zones.head_on_x,
        zones.head_on_half_width, zones.head_on_heading, zones.clearance,
    ]  # fmt: skip

    def advance(
        state: State, scenario: Scenario, parameters: Parameters, action: Tensor, noise: Any
    ) -> tuple[State, dict[str, Tensor], Outcome]:
        """See World.advance."""
        robots, dtype, batch = state.active.shape[1], quantiles.dtype, state.batch_size
        scripted = scenario.scripted is not None
        normal, uniform = noise.perception
        given = [
            *(state.get(name) for name in _STATE),
            *(scenario.get(name) for name in _SCENARIO),
            *(parameters.vessel.get(name) for name in _COMMANDS),
            scenario.scripted if scripted else state.active,
            action.to(dtype) if continuous else action,
            normal.permute(1, 2, 3, 0),
            uniform,
        ]
        found = _Made(*_world_step(
            given, _stacked(parameters, robots, dtype), quantiles, numbers, config.dt,
            [config.substeps, config.max_steps, slots], continuous, scripted,
            config.ends_at_first_collision,
        ))  # fmt: skip
        new = {name: getattr(found, f"new_{name}") for name in _STATE}
        entries = {name: getattr(found, name) for name in Observation.__annotations__}
        outcome = {name: getattr(found, name) for name in _OUTCOME}
        return State(**new, batch_size=batch), entries, Outcome(**outcome, batch_size=batch)

    return advance
