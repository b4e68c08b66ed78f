"""Rewards in Triton, like marinenav_env.rules.reward, for the robot of every lane.

For arguments with the same names see marinenav_env.kernels.triton_kernel.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator, assignment, misc"

from __future__ import annotations

import triton
import triton.language as tl

from marinenav_env.kernels.triton_math import atan2, length, load_vector, wrap_to_pi
from marinenav_env.rules import reward, roles

_HEAD_ON, _GIVE_WAY, _STAND_ON, _OVERTAKING, _OVERTAKEN = (
    tl.constexpr(role)
    for role in (
        roles.HEAD_ON,
        roles.GIVE_WAY,
        roles.STAND_ON,
        roles.OVERTAKING,
        roles.OVERTAKEN,
    )
)
_STERN, _RECIPROCAL = tl.constexpr(roles.MIN_STERN_BEARING), tl.constexpr(roles.MIN_RECIPROCAL_ANGLE)
_STILL = tl.constexpr(roles.MIN_RELATIVE_SPEED)
_TURN, _CHANGE = tl.constexpr(reward.MAX_PENALTY_TURN), tl.constexpr(reward.MAX_PENALTY_SPEED_CHANGE)
_ASTERN = tl.constexpr(reward.MAX_PENALTY_ASTERN_SPEED)


@triton.jit
def step_reward(before, after, phi, collided, arrived, numbers, parameter):
    """Return the published reward of a robot: progress, a constant, the COLREGs term, and that of arrival or collision.

    ``before`` and ``after`` are distances to the goal (m), ``phi`` the required turn (rad), ``numbers``
    pointers to the weights of the terms and ``parameter`` their offset for this environment.
    """
    event = tl.where(arrived, tl.load(numbers.goal_reward + parameter), 0.0)
    event = tl.where(collided, tl.load(numbers.collision_penalty + parameter), event)
    shaping = tl.load(numbers.timestep_penalty + parameter) + (before - after)
    return shaping + tl.load(numbers.COLREGs_penalty + parameter) * phi + event


@triton.jit
def _role(bearing, aspect, course):
    """Return the role of a vessel towards another one at another position, like roles.roles."""
    to_port = bearing <= 0.0
    head_on = (tl.abs(course) > _RECIPROCAL) | (to_port & (aspect <= 0.0))
    role = tl.where(head_on, _HEAD_ON, tl.where(to_port, _STAND_ON, _GIVE_WAY))
    role = tl.where(tl.abs(bearing) > _STERN, _OVERTAKEN, role)
    return tl.where(tl.abs(aspect) > _STERN, _OVERTAKING, role)


@triton.jit
def _pair(pose, cos, sin, ground, ahead, least, result, other, stride):
    """Return role, distance (m), and time (s) and signed distance (m) of the closest approach of two robots.

    This is like roles.relative_motion and roles.roles with reward._assume_steerage. ``ahead`` is the own forward speed
    (m/s), and vessels that meet head-on are assumed to have at least the forward speed ``least`` (m/s), unless it is 0.
    """
    px, py, heading = load_vector(result.new_pose, other, stride, 3)
    px, py = px - pose[0], py - pose[1]
    bearing = wrap_to_pi(atan2(py, px) - pose[2])
    aspect = wrap_to_pi(atan2(-py, -px) - heading)
    role = _role(bearing, aspect, wrap_to_pi(heading - pose[2]))

    other_cos, other_sin = tl.cos(heading), tl.sin(heading)
    water_x, water_y = load_vector(result.new_velocity_water, other, stride, 2)
    vx, vy = load_vector(result.new_velocity_ground, other, stride, 2)
    chosen = (role == _HEAD_ON) & (least > 0.0)
    lacking = tl.where(chosen, tl.maximum(least - ahead, 0.0), 0.0)
    other_ahead = other_cos * water_x + other_sin * water_y
    other_lacking = tl.where(chosen, tl.maximum(least - other_ahead, 0.0), 0.0)
    wx = (vx + other_lacking * other_cos) - (ground[0] + lacking * cos)
    wy = (vy + other_lacking * other_sin) - (ground[1] + lacking * sin)
    speed = tl.maximum(length(wx, wy), _STILL)
    time = tl.where(speed > _STILL, -(px * wx + py * wy) / (speed * speed), 0.0)
    return role, length(px, py), time, (py * wx - px * wy) / speed


@triton.jit
def _distance_penalty(share, margin):
    """Return the penalty for passing at a share of the passing distance, like reward._distance_penalty."""
    whole = 1.0 - share
    steeper = 0.5 * (whole + tl.minimum(whole / tl.maximum(margin, 1e-6), 1.0))
    return tl.where(margin > 0.0, steeper, whole)


@triton.jit
def _passage_penalty(share, role, margin):
    """Return the penalty for passing too close or on the wrong side by role, like reward._passage_penalty.

    ``share`` is the signed distance at the closest approach and ``margin`` a margin, relative to the passing distance.
    """
    wrong_side = tl.minimum(_distance_penalty(share, margin), 2.0 * (2.0 + share))
    too_close = tl.maximum(_distance_penalty(tl.abs(share), margin), 0.0)
    to_starboard = (role == _HEAD_ON) | (role == _GIVE_WAY)
    clear = tl.where(to_starboard, tl.maximum(wrong_side, 0.0), 0.0)
    return tl.where(role == _OVERTAKING, too_close, clear)


@triton.jit
def _passages(pose, cos, sin, ground, ahead, active, terms, inputs, numbers, result, place, sizes):
    """Return the components of the penalties in reward.role_terms that depend on the other robots.

    These are the penalty for not keeping clear, without its weight, and whether the robot must stand on, meets
    another robot head-on or crossing, and meets another robot head-on that it would pass too close.
    """
    _valid, _robot, e, _offset, stride, parameter, column = place
    E, R, _M, _C, width = sizes
    least, passing, margin, horizon, stand_on_until = terms
    reach = tl.load(numbers.range + parameter)
    give_way, held = tl.zeros_like(ahead), active & ~active
    meets, head_on = held, held
    for i in range(R):
        other = i * E + e
        role, distance, time, miss = _pair(pose, cos, sin, ground, ahead, least, result, other, stride)
        sight, share = reach + tl.load(numbers.detect_radius + i * width + column), miss / passing
        near = (distance <= sight) & (time > 0.0) & (time <= horizon)
        near = near & active & tl.load(inputs.active + other)
        span = tl.maximum(sight - passing, 1e-3)
        clear = _passage_penalty(share, role, margin) * tl.clamp((sight - distance) / span, 0.0, 1.0)
        give_way = tl.maximum(give_way, tl.where(near, clear, 0.0))
        within = near & (tl.abs(share) < 1.0)
        stands = (role == _STAND_ON) | (role == _OVERTAKEN)
        held = held | (within & stands & (distance > stand_on_until))
        overtakes = (role == _OVERTAKING) | (role == _OVERTAKEN)
        meets = meets | (near & ~overtakes & (tl.abs(share) < 2.0))
        head_on = head_on | (within & (role == _HEAD_ON))
    return give_way, held, meets, head_on


@triton.jit
def role_terms(pose, cos, sin, ground, goal, count, active, penalties, inputs, numbers, result, place, sizes):
    """Return the sum of the penalties by role, with the settings of triton_world._penalties, like reward.role_terms."""
    _valid, _robot, _e, offset, stride, _parameter, _column = place
    give_way_penalty, stand_on_penalty, port_turn, slowing, astern, off_course = penalties[:6]
    old_water = load_vector(inputs.velocity_water, offset, stride, 2)
    water = load_vector(result.new_velocity_water, offset, stride, 2)
    heading = tl.load(inputs.pose + offset + 2 * stride)
    old_ahead = tl.cos(heading) * old_water[0] + tl.sin(heading) * old_water[1]
    ahead = cos * water[0] + sin * water[1]
    give_way, held, meets, head_on = _passages(
        pose, cos, sin, ground, ahead, active, penalties[6:], inputs, numbers, result, place, sizes
    )

    turn = wrap_to_pi(pose[2] - heading) / _TURN  # to starboard
    change = length(water[0], water[1]) - length(old_water[0], old_water[1])
    manoeuvre = tl.minimum(tl.abs(turn) + tl.abs(change) / _CHANGE, 1.0)
    penalty = give_way_penalty * give_way
    penalty += stand_on_penalty * tl.where(held & ~(give_way > 0.0), manoeuvre, 0.0)
    penalty += port_turn * tl.where(meets, tl.clamp(-turn, 0.0, 1.0), 0.0)
    slower = tl.clamp((old_ahead - ahead) / _CHANGE, 0.0, 1.0) * (1.0 - tl.clamp(turn, 0.0, 1.0))
    penalty += slowing * tl.where(head_on, slower, 0.0)
    penalty += astern * tl.clamp(-ahead / _ASTERN, 0.0, 1.0)
    dx, dy = goal[0] - pose[0], goal[1] - pose[1]
    across = tl.abs(dx * ground[1] - dy * ground[0]) / tl.maximum(length(dx, dy), 1e-3)
    return penalty + off_course * tl.where(count == 0, tl.minimum(across, 1.0), 0.0)
