"""The world's step as one Triton kernel, in parts.

A program has a block of environments, and a lane for each of their robots. All substeps are in
registers. Lanes tell each other where their robots are, and what has ended, by memory, with a
barrier between. Each part names the function that computes the same with PyTorch's operators.

``given``, ``numbers`` and ``made`` are the pointers of kernels.triton_operator; ``place``
says which robot a lane has, and ``sizes`` how many there are of what (see _place and kernel).
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, assignment, misc"

from __future__ import annotations

import triton
import triton.language as tl

from marinenav_env.kernels.triton_math import (
    PI,
    TURN,
    asin,
    atan2,
    length,
    load,
    normal,
    store,
    turned,
    uniform,
    where,
    words,
    wrap_to_pi,
    wrap_to_two_pi,
)
from marinenav_env.kernels.triton_reward import role_terms, step_reward
from marinenav_env.kernels.triton_weather import chance_of_a_miss, delayed, missed, weather_force

_NAN = tl.constexpr(tl.PropagateNan.ALL)
_PERCEPTION = tl.constexpr(1)
"""Kind and purpose of the noise, see philox.RandomSource: plain words, for perception."""


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
        strength = tl.load(given.core_circulation + place) / (TURN * tl.maximum(dx * dx + dy * dy, radius * radius))
        vx -= dy * strength
        vy += dx * strength
    return vx, vy


@triton.jit
def _acceleration(u, v, u_r, v_r, r, surge, sway, yaw, hull):
    """dynamics.acceleration."""
    (m, Izz, xDotU, yDotV, yDotR, nDotR, nDotV, xU, xUU, yV, yVV, yR, yRV, yVR, yRR, nR, nRR, nV, nVV, nRV, nVR) = hull
    abs_v, abs_r = tl.abs(v_r), tl.abs(r)
    surge += m * r * v - (yDotV * v_r + yDotR * r) * r + (xU + xUU * tl.abs(u_r)) * u_r
    sway += -m * r * u + xDotU * u_r * r + (yV + yVV * abs_v + yRV * abs_r) * v_r + (yR + yVR * abs_v + yRR * abs_r) * r
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
        u, v = turned(gx, gy, cos, sin)
        u_r, v_r = turned(wx, wy, cos, sin)
        du, dv, dr = _acceleration(u, v, u_r, v_r, r, tau[0], tau[1], tau[2], hull)
        u_r, v_r, r = u_r + dt * du, v_r + dt * dv, r + dt * dr
        wx, wy = cos * u_r - sin * v_r, sin * u_r + cos * v_r
    return x, y, wrap_to_two_pi(theta), wx, wy, r, gx, gy, gr


# Perception -------------------------------------------------------------------------------------


@triton.jit
def _object(number, given, numbers, made, e, E, R, M, at, width):
    """perception._objects: one of them, a robot or an obstacle, with its radius of contact."""
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
def _noise(number, robot, given, e, R):
    """perception.draw_noise for one object."""
    source = given.seed, given.environment, given.step, e
    a, b, c, d = words(source, number * R + robot, _PERCEPTION)
    x, y = normal(a, b)
    vx, vy = normal(c, d)
    rest = (a & 0xFF) | (b & 0xFF) << 8 | (c & 0xFF) << 16
    return x, y, vx, vy, uniform(rest << 8)


@triton.jit
def _look_up_quantile(quantiles, points, row, uniform):
    """perception.look_up_quantile."""
    position = uniform * (points - 1)
    lower = tl.minimum(position.to(tl.int32), points - 2)
    place = quantiles + row.to(tl.int32) * points + lower
    low, high = tl.load(place), tl.load(place + 1)
    return low + (position - lower) * (high - low)


@triton.jit
def _measured(seen, noise, x, y, cos, sin, numbers, quantiles, points, mine):
    """perception._measured: an object as a robot measures it."""
    pos_std, vel_std = tl.load(numbers.pos_std + mine), tl.load(numbers.vel_std + mine)
    dx = seen[0] - x + pos_std * noise[0]
    dy = seen[1] - y + pos_std * noise[1]
    vx = seen[2] + vel_std * noise[2]
    vy = seen[3] + vel_std * noise[3]
    row = tl.load(numbers.table_row + mine)
    turn = _look_up_quantile(quantiles, points, row, noise[4])
    ratio = tl.load(numbers.r_mean_ratio + mine)
    dx, dy = turned(dx, dy, cos, sin)
    vx, vy = turned(vx, vy, cos, sin)
    return dx, dy, vx, vy, seen[4] * (ratio + (1.0 - ratio) * (turn / PI))


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
    (
        min_speed,
        x_low,
        x_high,
        y_low,
        y_high,
        corner_y,
        slope,
        course_low,
        course_high,
        ahead_low,
        ahead_high,
        half_width,
        reciprocal,
        clearance,
    ) = zones
    own_speed, other_speed = length(u, v), length(vx, vy)
    fast = (own_speed >= min_speed) & (other_speed >= min_speed)

    speed = tl.maximum(other_speed, 1e-6)
    cos, sin = vx / speed, vy / speed
    x, y = -(cos * px + sin * py), -(cos * py - sin * px)
    psi = atan2(cos * v - sin * u, cos * u + sin * v)
    cut = y - corner_y > -slope * (x - x_high)
    crossing = (x >= x_low) & (x <= x_high) & (y >= y_low) & (y <= y_high)
    crossing = crossing & ~cut & (psi >= course_low) & (psi <= course_high)
    head_on = (x >= ahead_low) & (x <= ahead_high) & (tl.abs(y) <= half_width)
    head_on = head_on & (tl.abs(psi) > reciprocal)

    pass_radius = radius + clearance
    distance = length(px, py)
    outside = distance >= pass_radius
    safe = tl.maximum(tl.where(outside, distance, pass_radius), 1e-6)
    tangent = tl.sqrt(tl.maximum(safe * safe - pass_radius * pass_radius, 0.0))
    desired = atan2(py, px) + asin(tl.clamp(pass_radius / safe, -1.0, 1.0)) + atan2(own_radius, tangent)
    angle = wrap_to_pi(desired - atan2(v, u))
    return fast & (crossing | head_on) & outside & (angle > 0.0), angle


# The step ---------------------------------------------------------------------------------------


@triton.jit
def _place(E, R, width, envs, LANES: tl.constexpr):
    """Which robot a lane has: whether it is one of its own, its number and environment.

    Then where its number is in [R, E], how far apart the numbers of a vector are, where its
    parameter is in [R, width], and the column of its environment there.
    """
    lane = tl.arange(0, LANES)
    environment = tl.program_id(0) * envs + lane % envs
    here = (lane // envs < R) & (environment < E)
    # Lanes without a robot of their own repeat another and store nothing.
    robot, e = tl.minimum(lane // envs, R - 1), tl.minimum(environment, E - 1)
    at = tl.minimum(e, width - 1)
    return here, robot, e, robot * E + e, R * E, robot * width + at, at


@triton.jit
def _move(
    given,
    hull,
    numbers,
    made,
    place,
    sizes,
    lefts,
    rights,
    dt,
    substeps,
    active,
    steers,
    CONTINUOUS: tl.constexpr,
    SCRIPTED: tl.constexpr,
    WEATHER: tl.constexpr,
):
    """dynamics.control_step: pose, velocity over ground and thrust after it, which are stored."""
    here, _robot, e, own, each, mine, at = place
    E, _R, _M, C, width = sizes
    rates = _rates(given, numbers, own, each, mine, at, width, lefts, rights, CONTINUOUS)
    if SCRIPTED:
        nothing = tl.zeros_like(rates[0])
        rates = where(steers, rates, (nothing, nothing))
    if WEATHER:
        rates = delayed(rates, given, made, place, width)
    low, high = tl.load(numbers.min_thrust + mine), tl.load(numbers.max_thrust + mine)
    was = load(given.thrust, own, each, 2)
    left = tl.clamp(was[0] + dt * substeps * rates[0], low, high, _NAN)
    right = tl.clamp(was[1] + dt * substeps * rates[1], low, high, _NAN)
    tau = _thruster_forces(left, right, given, numbers, own, each, mine)
    if WEATHER:
        seconds = tl.load(given.steps + e).to(tl.float32) * (dt * substeps)
        mass = tl.load(hull[0] + mine)
        force = weather_force(seconds, mass, given, numbers, place, width)
        if SCRIPTED:
            force = where(steers, force, (nothing, nothing, nothing))
        tau = tau[0] + force[0], tau[1] + force[1], tau[2] + force[2]
    pose = load(given.pose, own, each, 3)
    water = load(given.velocity_water, own, each, 3)
    new = _moved(
        given,
        pose,
        water,
        tau,
        [tl.load(pointer + mine) for pointer in hull],
        tl.load(numbers.core_radius + mine),
        dt,
        substeps,
        e,
        E,
        C,
    )
    pose = where(active, new[0:3], pose)
    ground = where(active, new[6:9], load(given.velocity_ground, own, each, 3))
    thrust = where(active, (left, right), was)
    store(made.new_pose, own, each, here, pose)
    store(made.new_velocity_water, own, each, here, where(active, new[3:6], water))
    store(made.new_velocity_ground, own, each, here, ground)
    store(made.new_thrust, own, each, here, thrust)
    return pose, ground, thrust


@triton.jit
def _perceive(
    pose,
    cos,
    sin,
    active,
    given,
    numbers,
    quantiles,
    points,
    made,
    place,
    sizes,
    LANES: tl.constexpr,
    K: tl.constexpr,
    WEATHER: tl.constexpr,
):
    """perception.observe: the nearest objects, and how many fill slots; contact.touching."""
    _here, robot, e, _own, _each, mine, at = place
    E, R, M, _C, width = sizes
    x, y, _theta = pose
    reach, view = tl.load(numbers.range + mine), 0.5 * tl.load(numbers.angle + mine)
    radius = tl.load(numbers.radius + mine)
    touching, count = active & ~active, tl.zeros_like(robot)
    if WEATHER:
        chance = chance_of_a_miss(given, at, width)
    gaps, nearest = (), ()
    for _ in tl.static_range(K):
        gaps = gaps + (tl.full([LANES], float("inf"), tl.float32),)
        nearest = nearest + (tl.zeros_like(robot),)
    for i in range(M):
        number = tl.zeros_like(robot) + i
        other = _object(number, given, numbers, made, e, E, R, M, at, width)
        noise = _noise(number, robot, given, e, R)
        sx, sy, _svx, _svy, sr = _measured(other, noise, x, y, cos, sin, numbers, quantiles, points, mine)
        there = active & other[6] & (number != robot)
        dx, dy, apart = other[0] - x, other[1] - y, other[5] + radius
        touching = touching | (there & (dx * dx + dy * dy <= apart * apart))
        distance = length(sx, sy)
        seen = there & (distance <= reach + sr) & (tl.abs(atan2(sy, sx)) <= view)
        if WEATHER:
            seen = seen & ~missed(number, robot, chance, given, e, R, M)
        count += seen.to(tl.int32)
        gap = tl.where(seen, distance - sr, float("inf"))
        gaps, nearest = _inserted(gaps, nearest, gap, number, K)
    count = tl.minimum(count, tl.load(numbers.max_objects + mine).to(tl.int32))
    return nearest, count, touching


@triton.jit
def _own_state(pose, cos, sin, ground, thrust, goal, active, made, place):
    """perception.own_state of active robots, else 0; it is stored."""
    here, _robot, _e, own, each, _mine, _at = place
    goal_x, goal_y = turned(goal[0] - pose[0], goal[1] - pose[1], cos, sin)
    u, v = turned(ground[0], ground[1], cos, sin)
    state = (goal_x, goal_y, u, v, ground[2], thrust[0], thrust[1])
    nothing = tl.zeros_like(u)
    empty = (nothing, nothing, nothing, nothing, nothing, nothing, nothing)
    state = where(active, state, empty)
    store(made.self_state, own, each, here, state)
    return state


@triton.jit
def _fill_slots(
    nearest,
    count,
    pose,
    cos,
    sin,
    u,
    v,
    zones,
    given,
    numbers,
    quantiles,
    points,
    made,
    place,
    sizes,
    K: tl.constexpr,
):
    """Store the objects in slots, measured once more rather than kept; colregs.required_turn."""
    here, robot, e, own, each, mine, at = place
    E, R, M, _C, width = sizes
    x, y, _theta = pose
    radius, nothing = tl.load(numbers.radius + mine), tl.zeros_like(u)
    colregs, phi = count < 0, nothing
    for slot in range(K):
        number = nearest[0]
        nearest = nearest[1:] + (number,)
        other = _object(number, given, numbers, made, e, E, R, M, at, width)
        noise = _noise(number, robot, given, e, R)
        seen = _measured(other, noise, x, y, cos, sin, numbers, quantiles, points, mine)
        kept, start = slot < count, slot * each + own
        column = where(kept, seen, (nothing, nothing, nothing, nothing, nothing))
        store(made.objects_state, start, K * each, here, column)
        tl.store(made.objects_mask + start, kept, mask=here)
        applies, angle = _required_turn(seen, u, v, radius, zones)
        applies = applies & kept & ~colregs
        phi = tl.where(applies, angle, phi)
        colregs = colregs | applies
    tl.store(made.colregs + own, colregs, mask=here)
    tl.store(made.phi + own, phi, mask=here)
    return phi


@triton.jit
def _end_robots(collided, arrived, active, steers, given, made, place):
    """endings.endings of robots; whether each is terminated."""
    here, _robot, _e, own, _each, _mine, _at = place
    has_collided = tl.load(given.collided + own) | collided
    has_arrived = tl.load(given.arrived + own) | arrived
    terminated = has_collided | has_arrived | ~steers
    tl.store(made.new_collided + own, has_collided, mask=here)
    tl.store(made.new_arrived + own, has_arrived, mask=here)
    tl.store(made.new_active + own, active & ~collided & ~arrived, mask=here)
    tl.store(made.terminated + own, terminated, mask=here)
    return terminated


@triton.jit
def _end_episodes(terminated, max_steps, given, made, place, sizes, ENDS_AT_FIRST_COLLISION: tl.constexpr):
    """endings.endings of episodes; whether each is over."""
    here, robot, e, own, _each, _mine, _at = place
    E, R, _M, _C, _width = sizes
    over, any_collided = robot >= 0, robot < 0
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
    return done


@triton.jit
def _start_episodes(done, starts, place, sizes):
    """restart.restart of scenario, state and observation.

    Tensors are [rows, E], in the pool [rows, entries]. In what this step made, there are R rows, or
    a multiple, of which each R-th is the same robot's, or a single row, which the first robot's
    lane has stored: a lane reads only what it has stored itself, and there is no barrier.
    """
    here, robot, e, _own, _each, _mine, _at = place
    E, R, _M, _C, _width = sizes
    following, latest, pool, rows, entries, index = starts
    entry = tl.load(index + e).to(tl.int32)
    for i in tl.static_range(len(following)):
        for start in range(0, rows[i], R):
            row = start + robot
            one = here & (row < rows[i])
            old = tl.load(latest[i] + row * E + e, mask=one)
            new = tl.load(pool[i] + row * entries + entry, mask=one & done)
            tl.store(following[i] + row * E + e, tl.where(done, new, old), mask=one)


@triton.jit
def kernel(
    given,
    hull,
    numbers,
    quantiles,
    made,
    zones,
    penalties,
    dt,
    substeps,
    max_steps,
    E,
    R,
    M,
    C,
    width,
    points,
    lefts,
    rights,
    envs,
    starts,
    LANES: tl.constexpr,
    K: tl.constexpr,
    CONTINUOUS: tl.constexpr,
    SCRIPTED: tl.constexpr,
    ENDS_AT_FIRST_COLLISION: tl.constexpr,
    BY_ROLE: tl.constexpr,
    WEATHER: tl.constexpr,
    STARTS: tl.constexpr,
):
    """World.advance, with STARTS also with new episodes.

    E environments, ``envs`` of them a program, R robots, M objects, C cores; parameters are
    [R, width], width being E or 1, and there are so many commands of the left and the right.
    """
    place, sizes = _place(E, R, width, envs, LANES), (E, R, M, C, width)
    here, _robot, _e, own, each, mine, _at = place
    active = tl.load(given.active + own)
    steers, controlled = tl.load(given.robot_mask + own), active
    if SCRIPTED:
        steers = steers & ~tl.load(given.scripted + own)
        controlled = active & steers
    was, goal = load(given.pose, own, each, 2), load(given.goal, own, each, 2)
    before = length(goal[0] - was[0], goal[1] - was[1])

    pose, ground, thrust = _move(
        given,
        hull,
        numbers,
        made,
        place,
        sizes,
        lefts,
        rights,
        dt,
        substeps,
        active,
        steers,
        CONTINUOUS,
        SCRIPTED,
        WEATHER,
    )
    tl.debug_barrier()  # from here on the others' poses and velocities are read

    cos, sin = tl.cos(pose[2]), tl.sin(pose[2])
    nearest, count, touching = _perceive(
        pose,
        cos,
        sin,
        active,
        given,
        numbers,
        quantiles,
        points,
        made,
        place,
        sizes,
        LANES,
        K,
        WEATHER,
    )
    own_state = _own_state(pose, cos, sin, ground, thrust, goal, active, made, place)
    phi = _fill_slots(
        nearest,
        count,
        pose,
        cos,
        sin,
        own_state[2],
        own_state[3],
        zones,
        given,
        numbers,
        quantiles,
        points,
        made,
        place,
        sizes,
        K,
    )

    after = length(goal[0] - pose[0], goal[1] - pose[1])
    collided = touching & controlled
    arrived = (after <= tl.load(numbers.goal_distance + mine)) & active & ~collided
    reward = step_reward(before, after, phi, collided, arrived, numbers, mine)
    if BY_ROLE:
        reward += role_terms(
            pose,
            cos,
            sin,
            ground,
            goal,
            count,
            active,
            penalties,
            given,
            numbers,
            made,
            place,
            sizes,
        )
    tl.store(made.reward + own, tl.where(controlled, reward, 0.0), mask=here)
    tl.store(made.collided + own, collided, mask=here)
    tl.store(made.arrived + own, arrived, mask=here)
    energy = tl.load(numbers.power_coefficient + mine) * (tl.abs(thrust[0]) + tl.abs(thrust[1]))
    tl.store(made.energy + own, tl.where(active, energy * (dt * substeps), 0.0), mask=here)

    terminated = _end_robots(collided, arrived, active, steers, given, made, place)
    tl.debug_barrier()  # from here on the others' flags are read
    done = _end_episodes(terminated, max_steps, given, made, place, sizes, ENDS_AT_FIRST_COLLISION)
    if STARTS:
        _start_episodes(done, starts, place, sizes)
