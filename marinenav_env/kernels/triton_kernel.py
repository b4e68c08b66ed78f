"""Triton kernel of the world's control step, and the functions that it consists of.

A program computes a block of environments, with one lane (GPU thread) per robot. All substeps run in registers.
Lanes exchange poses and endings through memory, with a barrier between writing and reading. The docstrings name the
function that computes the same with PyTorch's operators.

``inputs``, ``numbers`` and ``result`` are tuples of pointers, see kernels.triton_world. ``place`` holds the robot of a
lane and its memory offsets (see _locate_lane), ``sizes`` the sizes E, R, M and C (see step_kernel).
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
    load_vector,
    normal,
    philox_words,
    store_vector,
    to_body_frame,
    uniform,
    where_vector,
    wrap_to_pi,
    wrap_to_two_pi,
)

_NAN = tl.constexpr(tl.PropagateNan.ALL)
_PERCEPTION = tl.constexpr(1)
"""Philox stream of the perception noise, as raw 32-bit words: 4 * purpose (0) + kind (1); see philox.RandomSource."""


@triton.jit
def _thrust_rates(inputs, numbers, place, num_left, num_right, CONTINUOUS: tl.constexpr):
    """Return the left and right thrust rate (N/s), like thrust_rates_of_commands or thrust_rates_of_indices."""
    _valid, _robot, _e, offset, stride = place
    if CONTINUOUS:
        most = tl.load(numbers.max_thrust_rate)
        left = tl.clamp(tl.load(inputs.action + offset), -1.0, 1.0, _NAN) * most
        right = tl.clamp(tl.load(inputs.action + offset + stride), -1.0, 1.0, _NAN) * most
    else:
        index = tl.load(inputs.action + offset).to(tl.int32)
        index = tl.minimum(tl.maximum(index, 0), num_left * num_right - 1)
        left = tl.load(inputs.left_thrust_change + index // num_right)
        right = tl.load(inputs.right_thrust_change + index % num_right)
    return left, right


@triton.jit
def _thruster_forces(left, right, inputs, numbers, offset, stride):
    """Return surge force, sway force and yaw moment of the thrusters (N, N, N m), like dynamics.thruster_forces."""
    left_angle = tl.load(inputs.thruster_angle + offset)
    right_angle = tl.load(inputs.thruster_angle + offset + stride)
    left_along, right_along = left * tl.cos(left_angle), right * tl.cos(right_angle)
    surge = left_along + right_along
    sway = left * tl.sin(left_angle) + right * tl.sin(right_angle)
    wide = 0.5 * tl.load(numbers.width) * (left_along - right_along)
    return surge, sway, wide - 0.5 * tl.load(numbers.length) * sway


@triton.jit
def _current(x, y, inputs, e, E, C, radius):
    """Return the velocity of the water (m/s, world frame), like current.current_velocity."""
    vx, vy = tl.zeros_like(x), tl.zeros_like(y)
    for core in range(C):
        place = core * E + e
        dx = tl.load(inputs.core_position + place) - x
        dy = tl.load(inputs.core_position + place + C * E) - y
        strength = tl.load(inputs.core_circulation + place) / (TURN * tl.maximum(dx * dx + dy * dy, radius * radius))
        vx -= dy * strength
        vy += dx * strength
    return vx, vy


@triton.jit
def _acceleration(u, v, u_r, v_r, r, surge, sway, yaw, hull):
    """Return surge, sway (m/s^2) and yaw (rad/s^2) acceleration in the body frame, like dynamics.acceleration."""
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
    return (surge / (m - xDotU), (m33 * sway - m23 * yaw) / determinant, (m22 * yaw - m32 * sway) / determinant)


@triton.jit
def _integrate(inputs, pose, water, tau, hull, radius, dt, substeps, e, E, C):
    """Return pose and velocities through water and over ground after all substeps, like dynamics.move_ideal_vessels."""
    x, y, theta = pose
    wx, wy, r = water
    # gr starts at 0 instead of r, because the compiler carries a variable through a loop only if the first pass
    # gives it another value.
    gx, gy, gr = wx, wy, tl.zeros_like(r)
    for _ in range(substeps):
        cx, cy = _current(x, y, inputs, e, E, C, radius)
        gx, gy, gr = wx + cx, wy + cy, r
        x, y, theta = x + dt * gx, y + dt * gy, theta + dt * r
        cos, sin = tl.cos(theta), tl.sin(theta)
        u, v = to_body_frame(gx, gy, cos, sin)
        u_r, v_r = to_body_frame(wx, wy, cos, sin)
        du, dv, dr = _acceleration(u, v, u_r, v_r, r, tau[0], tau[1], tau[2], hull)
        u_r, v_r, r = u_r + dt * du, v_r + dt * dv, r + dt * dr
        wx, wy = cos * u_r - sin * v_r, sin * u_r + cos * v_r
    return x, y, wrap_to_two_pi(theta), wx, wy, r, gx, gy, gr


@triton.jit
def _load_object(number, inputs, numbers, result, e, sizes):
    """Return x, y, velocity, detected and collision radius, existence of an object, like contact.Discs."""
    E, R, M, _C = sizes
    is_robot = number < R
    robot = number * E + e
    obstacle = (number - R) * E + e

    x = tl.load(result.new_pose + robot, mask=is_robot, other=0.0)
    y = tl.load(result.new_pose + robot + R * E, mask=is_robot, other=0.0)
    vx = tl.load(result.new_velocity_ground + robot, mask=is_robot, other=0.0)
    vy = tl.load(result.new_velocity_ground + robot + R * E, mask=is_robot, other=0.0)
    measured = tl.where(is_robot, tl.load(numbers.detect_radius), 0.0)
    touching = tl.where(is_robot, tl.load(numbers.radius), 0.0)
    exists = tl.load(inputs.active + robot, mask=is_robot, other=0)

    is_obstacle = number >= R
    x += tl.load(inputs.obstacle_position + obstacle, mask=is_obstacle, other=0.0)
    y += tl.load(inputs.obstacle_position + obstacle + (M - R) * E, mask=is_obstacle, other=0.0)
    radius = tl.load(inputs.obstacle_radius + obstacle, mask=is_obstacle, other=0.0)
    exists = exists | tl.load(inputs.obstacle_mask + obstacle, mask=is_obstacle, other=0)
    return x, y, vx, vy, measured + radius, touching + radius, exists


@triton.jit
def _draw_noise(number, robot, inputs, e, R):
    """Draw the random numbers of the measurement of one object by one robot, like perception.draw_perception_noise."""
    source = inputs.seed, inputs.environment, inputs.step, e
    a, b, c, d = philox_words(source, number * R + robot, _PERCEPTION)
    x, y = normal(a, b)
    vx, vy = normal(c, d)
    rest = (a & 0xFF) | (b & 0xFF) << 8 | (c & 0xFF) << 16
    return x, y, vx, vy, uniform(rest << 8)


@triton.jit
def _look_up_quantile(table, uniform):
    """Read a table (pointer, number of points) by linear interpolation, like perception.look_up_quantile."""
    quantiles, points = table
    position = uniform * (points - 1)
    lower = tl.minimum(position.to(tl.int32), points - 2)
    low, high = tl.load(quantiles + lower), tl.load(quantiles + lower + 1)
    return low + (position - lower) * (high - low)


@triton.jit
def _measure(seen, noise, place, numbers, table):
    """Return an object as a robot at a place (x, y, cos, sin) measures it in its frame, like perception._measure."""
    x, y, cos, sin = place
    pos_std, vel_std = tl.load(numbers.pos_std), tl.load(numbers.vel_std)
    dx = seen[0] - x + pos_std * noise[0]
    dy = seen[1] - y + pos_std * noise[1]
    vx = seen[2] + vel_std * noise[2]
    vy = seen[3] + vel_std * noise[3]
    turn = _look_up_quantile(table, noise[4])
    ratio = tl.load(numbers.r_mean_ratio)
    dx, dy = to_body_frame(dx, dy, cos, sin)
    vx, vy = to_body_frame(vx, vy, cos, sin)
    return dx, dy, vx, vy, seen[4] * (ratio + (1.0 - ratio) * (turn / PI))


@triton.jit
def _insert_nearest(gaps, nearest, gap, number, K: tl.constexpr):
    """Insert an object into the sorted gaps and indices of the K nearest objects, like perception._nearest_objects.

    Of two equal gaps, the earlier one stays first. The last object is dropped.
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


@triton.jit
def _required_turn(seen, u, v, own_radius, zones):
    """Return whether a COLREGs rule applies to one object, and the turn angle (rad), like colregs.required_turn."""
    px, py, vx, vy, radius = seen
    min_speed, x_low, x_high, y_low, y_high = zones[:5]
    corner_y, slope, course_low, course_high = zones[5:9]
    ahead_low, ahead_high, half_width, reciprocal, clearance = zones[9:]
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


@triton.jit
def _locate_lane(E, R, envs, LANES: tl.constexpr):
    """Return whether a lane stores results, its robot and environment, offset and stride of vectors in [n, R, E]."""
    lane = tl.arange(0, LANES)
    environment = tl.program_id(0) * envs + lane % envs
    valid = (lane // envs < R) & (environment < E)
    # Lanes beyond the last robot or environment repeat another lane's robot and store nothing.
    robot, e = tl.minimum(lane // envs, R - 1), tl.minimum(environment, E - 1)
    return valid, robot, e, robot * E + e, R * E


@triton.jit
def _move_robots(inputs, hull, numbers, result, place, sizes, commands, dt, substeps, active, CONTINUOUS: tl.constexpr):
    """Store and return pose, velocity over ground and thrust after the step, like dynamics.move_ideal_vessels."""
    valid, _robot, e, offset, stride = place
    E, _R, _M, C = sizes
    rates = _thrust_rates(inputs, numbers, place, commands[0], commands[1], CONTINUOUS)
    low, high = tl.load(numbers.min_thrust), tl.load(numbers.max_thrust)
    old_thrust = load_vector(inputs.thrust, offset, stride, 2)
    left = tl.clamp(old_thrust[0] + dt * substeps * rates[0], low, high, _NAN)
    right = tl.clamp(old_thrust[1] + dt * substeps * rates[1], low, high, _NAN)
    tau = _thruster_forces(left, right, inputs, numbers, offset, stride)
    pose = load_vector(inputs.pose, offset, stride, 3)
    water = load_vector(inputs.velocity_water, offset, stride, 3)
    coefficients, radius = [tl.load(pointer) for pointer in hull], tl.load(numbers.core_radius)
    new = _integrate(inputs, pose, water, tau, coefficients, radius, dt, substeps, e, E, C)
    pose = where_vector(active, new[0:3], pose)
    ground = where_vector(active, new[6:9], load_vector(inputs.velocity_ground, offset, stride, 3))
    thrust = where_vector(active, (left, right), old_thrust)
    store_vector(result.new_pose, offset, stride, valid, pose)
    store_vector(result.new_velocity_water, offset, stride, valid, where_vector(active, new[3:6], water))
    store_vector(result.new_velocity_ground, offset, stride, valid, ground)
    store_vector(result.new_thrust, offset, stride, valid, thrust)
    return pose, ground, thrust


@triton.jit
def _perceive(eye, active, inputs, numbers, table, result, place, sizes, LANES: tl.constexpr, K: tl.constexpr):
    """Return nearest objects, number of filled slots and contact, like perception.observe and contact.in_contact."""
    _valid, robot, e, _offset, _stride = place
    _E, R, M, _C = sizes
    reach, view = tl.load(numbers.range), 0.5 * tl.load(numbers.angle)
    radius = tl.load(numbers.radius)
    touching, count = active & ~active, tl.zeros_like(robot)
    gaps, nearest = (), ()
    for _ in tl.static_range(K):
        gaps = gaps + (tl.full([LANES], float("inf"), tl.float32),)
        nearest = nearest + (tl.zeros_like(robot),)
    for i in range(M):
        number = tl.zeros_like(robot) + i
        other = _load_object(number, inputs, numbers, result, e, sizes)
        noise = _draw_noise(number, robot, inputs, e, R)
        sx, sy, _svx, _svy, sr = _measure(other, noise, eye, numbers, table)
        exists = active & other[6] & (number != robot)
        dx, dy, apart = other[0] - eye[0], other[1] - eye[1], other[5] + radius
        touching = touching | (exists & (dx * dx + dy * dy <= apart * apart))
        distance = length(sx, sy)
        seen = exists & (distance <= reach + sr) & (tl.abs(atan2(sy, sx)) <= view)
        count += seen.to(tl.int32)
        gap = tl.where(seen, distance - sr, float("inf"))
        gaps, nearest = _insert_nearest(gaps, nearest, gap, number, K)
    count = tl.minimum(count, tl.load(numbers.max_objects).to(tl.int32))
    return nearest, count, touching


@triton.jit
def _own_state(pose, cos, sin, ground, thrust, goal, active, result, place):
    """Store and return the own state of active robots, and zeros for the others, like perception.own_state."""
    valid, _robot, _e, offset, stride = place
    goal_x, goal_y = to_body_frame(goal[0] - pose[0], goal[1] - pose[1], cos, sin)
    u, v = to_body_frame(ground[0], ground[1], cos, sin)
    state, zero = (goal_x, goal_y, u, v, ground[2], thrust[0], thrust[1]), tl.zeros_like(u)
    state = where_vector(active, state, (zero, zero, zero, zero, zero, zero, zero))
    store_vector(result.self_state, offset, stride, valid, state)
    return state


@triton.jit
def _fill_slots(nearest, count, eye, u, v, zones, inputs, numbers, table, result, place, sizes, K: tl.constexpr):
    """Measure the nearest objects again, store them in slots, and return the turn (rad) of colregs.required_turn."""
    valid, robot, e, offset, stride = place
    radius, zero = tl.load(numbers.radius), tl.zeros_like(u)
    colregs, phi = count < 0, zero
    for slot in range(K):
        number = nearest[0]
        nearest = nearest[1:] + (number,)
        other = _load_object(number, inputs, numbers, result, e, sizes)
        noise = _draw_noise(number, robot, inputs, e, sizes[1])
        seen = _measure(other, noise, eye, numbers, table)
        kept, start = slot < count, slot * stride + offset
        values = where_vector(kept, seen, (zero, zero, zero, zero, zero))
        store_vector(result.objects_state, start, K * stride, valid, values)
        tl.store(result.objects_mask + start, kept, mask=valid)
        applies, angle = _required_turn(seen, u, v, radius, zones)
        applies = applies & kept & ~colregs
        phi = tl.where(applies, angle, phi)
        colregs = colregs | applies
    tl.store(result.colregs + offset, colregs, mask=valid)
    tl.store(result.phi + offset, phi, mask=valid)
    return phi


@triton.jit
def _reward(before, after, phi, collided, arrived, numbers):
    """Return the reward from distances to the goal before and after (m) and turn (rad), like reward.published_terms."""
    event = tl.where(arrived, tl.load(numbers.goal_reward), 0.0)
    event = tl.where(collided, tl.load(numbers.collision_penalty), event)
    shaping = tl.load(numbers.timestep_penalty) + (before - after)
    return shaping + tl.load(numbers.COLREGs_penalty) * phi + event


@triton.jit
def _end_robots(collided, arrived, active, inputs, result, place):
    """Store the endings of robots and return which robots are terminated, like endings.compute_endings."""
    valid, _robot, _e, offset, _stride = place
    has_collided = tl.load(inputs.collided + offset) | collided
    has_arrived = tl.load(inputs.arrived + offset) | arrived
    terminated = has_collided | has_arrived | ~tl.load(inputs.robot_mask + offset)
    tl.store(result.new_collided + offset, has_collided, mask=valid)
    tl.store(result.new_arrived + offset, has_arrived, mask=valid)
    tl.store(result.new_active + offset, active & ~collided & ~arrived, mask=valid)
    tl.store(result.terminated + offset, terminated, mask=valid)
    return terminated


@triton.jit
def _end_episodes(terminated, max_steps, inputs, result, place, sizes, ENDS_AT_FIRST_COLLISION: tl.constexpr):
    """Store the endings of episodes and return which episodes are over, like endings.compute_endings."""
    valid, robot, e, offset, _stride = place
    E, R, _M, _C = sizes
    over, any_collided = robot >= 0, robot < 0
    for i in range(R):
        over = over & tl.load(result.terminated + i * E + e)
        any_collided = any_collided | tl.load(result.new_collided + i * E + e)
    if ENDS_AT_FIRST_COLLISION:
        over = over | any_collided
    steps = tl.load(inputs.steps + e) + 1
    done = over | (steps >= max_steps)
    tl.store(result.truncated + offset, done & ~terminated, mask=valid)
    first = valid & (robot == 0)
    tl.store(result.new_steps + e, steps, mask=first)
    tl.store(result.episode_terminated + e, over, mask=first)
    tl.store(result.episode_done + e, done, mask=first)
    return done


@triton.jit
def _start_episodes(done, starts, place, sizes):
    """Start new episodes where the old ones are over and may be, like scenarios.reset.reset_environments.

    Tensors are [rows, E], in the pool [rows, entries]. Results of this step have a multiple of R
    rows, of which every R-th belongs to the same robot, or a single row, which the first robot's lane
    stores. Each lane therefore reads only what it has stored itself, and no barrier is needed.
    """
    valid, robot, e, _offset, _stride = place
    E, R, _M, _C = sizes
    following, latest, pool, rows, entries, index, allowed = starts
    entry, done = tl.load(index + e).to(tl.int32), done & tl.load(allowed + e)
    for i in tl.static_range(len(following)):
        for start in range(0, rows[i], R):
            row = start + robot
            stored = valid & (row < rows[i])
            old = tl.load(latest[i] + row * E + e, mask=stored)
            new = tl.load(pool[i] + row * entries + entry, mask=stored & done)
            tl.store(following[i] + row * E + e, tl.where(done, new, old), mask=stored)


@triton.jit
def step_kernel(
    inputs, hull, numbers, quantiles, result, zones, time, sizes, points, commands, envs, starts,
    LANES: tl.constexpr, K: tl.constexpr,
    CONTINUOUS: tl.constexpr, ENDS_AT_FIRST_COLLISION: tl.constexpr, STARTS: tl.constexpr,
):  # fmt: skip
    """Compute a control step, like World.advance, and start new episodes if STARTS is true.

    Tensors are in memory with their dimensions reversed, environments innermost.

    - inputs, numbers, result, hull: pointers, see triton_world; quantiles, points: quantile table of the radius noise.
    - zones: numbers of triton_world._zones; commands: numbers of left and right thrust rates of discrete actions.
    - time: length of a substep (s), substeps of a step, largest number of steps of an episode.
    - sizes: numbers E of environments, R of robots, M of robots and obstacles, and C of vortex cores.
    - envs, LANES, K: numbers of environments and of lanes of a program, and of object slots.
    - starts: tensors and sizes of the start of new episodes, triton_world._EpisodeStarts.
    """
    dt, substeps, max_steps = time
    place, table = _locate_lane(sizes[0], sizes[1], envs, LANES), (quantiles, points)
    valid, _robot, _e, offset, stride = place
    active = tl.load(inputs.active + offset)
    old_position, goal = load_vector(inputs.pose, offset, stride, 2), load_vector(inputs.goal, offset, stride, 2)
    before = length(goal[0] - old_position[0], goal[1] - old_position[1])

    pose, ground, thrust = _move_robots(
        inputs, hull, numbers, result, place, sizes, commands, dt, substeps, active, CONTINUOUS
    )
    tl.debug_barrier()  # the poses and velocities of other lanes are read from here on

    cos, sin = tl.cos(pose[2]), tl.sin(pose[2])
    eye = pose[0], pose[1], cos, sin
    nearest, count, touching = _perceive(eye, active, inputs, numbers, table, result, place, sizes, LANES, K)
    own = _own_state(pose, cos, sin, ground, thrust, goal, active, result, place)
    phi = _fill_slots(nearest, count, eye, own[2], own[3], zones, inputs, numbers, table, result, place, sizes, K)

    after = length(goal[0] - pose[0], goal[1] - pose[1])
    collided = touching & active
    arrived = (after <= tl.load(numbers.goal_distance)) & active & ~collided
    reward = _reward(before, after, phi, collided, arrived, numbers)
    tl.store(result.reward + offset, tl.where(active, reward, 0.0), mask=valid)
    tl.store(result.collided + offset, collided, mask=valid)
    tl.store(result.arrived + offset, arrived, mask=valid)
    energy = tl.load(numbers.power_coefficient) * (tl.abs(thrust[0]) + tl.abs(thrust[1]))
    tl.store(result.energy + offset, tl.where(active, energy * (dt * substeps), 0.0), mask=valid)

    terminated = _end_robots(collided, arrived, active, inputs, result, place)
    tl.debug_barrier()  # the flags of other lanes are read from here on
    done = _end_episodes(terminated, max_steps, inputs, result, place, sizes, ENDS_AT_FIRST_COLLISION)
    if STARTS:
        _start_episodes(done, starts, place, sizes)
