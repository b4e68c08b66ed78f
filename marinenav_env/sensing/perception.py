"""Perception of every robot: its own state and the nearest objects, measured with noise."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from marinenav_env.config import PerRobot, WorldConfig
from marinenav_env.physics.actuators import THRUSTERS
from marinenav_env.physics.contact import Discs
from marinenav_env.physics.routes import next_waypoint
from marinenav_env.runtime.layout import env_first, env_last, stack_last
from marinenav_env.runtime.philox import RandomSource, normal, uniform
from marinenav_env.sensing.duties import duties_entry
from marinenav_env.sensing.entries import DEFAULT_LIMIT, Entry
from marinenav_env.sensing.shores import shore_entries
from marinenav_env.state import ActuatorParameters, Observation, Scenario, Sensor, State, Vessel
from marinenav_env.vessels import observation_scale

MAX_POSITION, MAX_SPEED, MAX_YAW_RATE = 1e4, 1e2, 1e2
"""Bounds of observed positions (m), speeds (m/s) and yaw rates (rad/s), for Entry.limits; no vessel reaches them."""
OBJECTS_ID = "objects_id"
"""Name of the entry with the numbers of the objects in the slots."""
_MAX_RANKED_OBJECTS = 64
"""Largest number of objects that are ranked by pairwise comparison; more are sorted."""


def perception_entries(config: WorldConfig) -> tuple[Entry, ...]:
    """Return the descriptions of self_state, objects_state and objects_mask, which ``observe`` measures, and of others.

    Those are duties, with ``sensor.duties``, objects_id, with ``sensor.objects_id``, and shore with its mask, with
    ``scenario.shore_segments``.
    The scales are those of the default vessel times the ratios of vessels.observation_scale.
    """
    vessel, slots = config.vessel, config.sensor.slots
    place, speed, turn = (-MAX_POSITION, MAX_POSITION), (-MAX_SPEED, MAX_SPEED), (-MAX_YAW_RATE, MAX_YAW_RATE)
    thrust = min(_as_tuple(vessel.min_thrust)), max(_as_tuple(vessel.max_thrust))
    ratio = observation_scale(vessel)
    metres, metres_per_second, force = 20.0 * ratio.length, 2.0 * ratio.speed, 1000.0 * ratio.thrust
    meaning = "number of the object in each slot, the same for as long as there is the object; 0 without one"
    ids = Entry(OBJECTS_ID, "identity", (slots,), meaning, (), ((0, DEFAULT_LIMIT),), "objects_mask")
    return (
        Entry(
            "self_state",
            "vector",
            (7,),
            "goal x, y (m, body frame), u, v over ground (m/s), yaw rate (rad/s), both thrusts (N)",
            (metres, metres, metres_per_second, metres_per_second, 1.0 / ratio.time, force, force),
            (place, place, speed, speed, turn, thrust, thrust),
        ),
        Entry(
            "objects_state",
            "objects",
            (slots, 5),
            "x, y (m), v_x, v_y over ground (m/s), in the body frame, radius (m)",
            (metres, metres, metres_per_second, metres_per_second, 0.1 * metres),
            (place, place, speed, speed, place),
            "objects_mask",
        ),
        Entry("objects_mask", "mask", (slots,), "the slot holds an object", (), ((0, 1),)),
        *((duties_entry(config),) if config.sensor.duties else ()),
        *((ids,) if config.sensor.objects_id else ()),
        *shore_entries(config),
    )


def object_numbers(state: State, scenario: Scenario) -> Tensor:
    """Return the numbers [M, R, E] of the objects that robots can detect, from 1: all robots, then all obstacles."""
    robots, obstacles = state.active.shape[1], scenario.obstacle_mask.shape[1]
    number = torch.arange(1, 1 + robots + obstacles, dtype=state.pose.dtype, device=state.pose.device)
    return number[:, None, None].expand(-1, robots, len(state.active))


def with_thrust_limits(
    entries: dict[str, Entry], vessel: Vessel, extras: ActuatorParameters | None, spread: float
) -> dict[str, Entry]:
    """Return entries with the limits of the thrusts of the vessels, with ``spread`` as the largest factor."""
    own = entries["self_state"]
    low, high = float(vessel.min_thrust.min()) * spread, float(vessel.max_thrust.max()) * spread
    # The right setpoint of a steered vessel stands for an angle, whose limit is the same to both sides.
    is_steered = extras is not None and bool((extras.steering != THRUSTERS).any())
    right_low = min(low, -high) if is_steered else low
    return entries | {own.name: replace(own, limits=(*own.limits[:-2], (low, high), (right_low, high)))}


def _as_tuple(value: PerRobot) -> tuple[float, ...]:
    """Return a tuple of numbers unchanged, or a number as a tuple of one."""
    return value if isinstance(value, tuple) else (value,)


class PerceptionNoise(NamedTuple):
    """Random numbers of perception for one observation of every robot."""

    normal: Sequence[Tensor]
    """Four standard normal tensors [E, R, M], for position x, y and velocity x, y of every object."""
    uniform: Tensor
    """[E, R, M] uniform on [0, 1), quantile of the von Mises noise of the radius of every object."""


def draw_perception_noise(source: RandomSource, robots: int, objects: int, dtype: torch.dtype) -> PerceptionNoise:
    """Draw the noise of one observation, with one call of Philox per robot and object."""
    a, b, c, d = (env_first(word) for word in source.words(objects, robots))
    # Normal numbers take 24 bits of a word; the remaining bits of three words make up 24 more.
    rest = (a & 0xFF) | (b & 0xFF) << 8 | (c & 0xFF) << 16
    normals = *normal(a, b, dtype), *normal(c, d, dtype)
    return PerceptionNoise(normals, uniform(rest << 8, dtype))


def von_mises_quantiles(kappas: list[float], points: int = 4097) -> Tensor:
    """Return quantile functions of von Mises distributions with mean 0 as angles (rad) [len(kappas), points], float64.

    The distribution function is summed on a fine grid of angles and inverted by interpolation;
    sampling by table lookup needs no rejection, and so no values are read on the host.
    """
    angles = np.linspace(-np.pi, np.pi, 65_537)
    rows = []
    for kappa in kappas:
        density = np.exp(kappa * (np.cos(angles) - 1.0))
        cumulative = np.concatenate(([0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))))
        cumulative /= cumulative[-1]
        row = np.interp(np.linspace(0.0, 1.0, points), cumulative, angles)
        # The last interval reaches to pi, although a concentrated distribution has almost ended
        # before. Shorten it so that linear interpolation keeps the mean of that tail.
        share = (np.arange(256) + 0.5) / 256 / (points - 1)
        row[-1] = 2.0 * np.interp(1.0 - share, cumulative, angles).mean() - row[-2]
        row[0] = -row[-1]
        rows.append(row)
    return torch.from_numpy(np.stack(rows))


def look_up_quantile(table: Tensor, row: Tensor, uniform: Tensor) -> Tensor:
    """Return the values of quantile functions, by linear interpolation in rows (int64, broadcastable) of a table."""
    last = table.shape[-1] - 1
    position = uniform * last
    # float32 rounds uniforms just below 1 up to the last point.
    lower = position.to(torch.int64).clamp(0, last - 1)
    flat, index = table.flatten(), row * (last + 1) + lower
    return torch.lerp(flat[index], flat[index + 1], position - lower)


def own_state(state: State, scenario: Scenario) -> Tensor:
    """Return what robots observe of their own state, ``self_state`` of state.Observation, without noise.

    With a route, the goal that is observed is its next waypoint.
    """
    # All tensors from here on are [R, E].
    x, y, theta = env_last(state.pose)
    vx, vy, r = env_last(state.velocity_ground)
    cos, sin = theta.cos(), theta.sin()
    goal_x, goal_y = env_last(next_waypoint(state, scenario))
    dx, dy = goal_x - x, goal_y - y
    own = (
        cos * dx + sin * dy,
        cos * dy - sin * dx,
        cos * vx + sin * vy,
        cos * vy - sin * vx,
        r,
        *env_last(state.thrust),
    )
    return stack_last(own)


def observe(
    state: State,
    scenario: Scenario,
    vessel: Vessel,
    sensor: Sensor,
    quantiles: Tensor,
    noise: PerceptionNoise,
    max_objects: int,
    missed: Tensor | None = None,
    columns: Sequence[Tensor] = (),
    hidden: Tensor | None = None,
) -> Observation:
    """Return the measurements of perception of all robots (docs/world.md, "Perception").

    Active robots observe and are observed; ``max_objects`` is the number of slots K, and detections of ``missed``
    [E, R, M] fail, as do those of objects with the infinite distance ``hidden`` [E, R, M]. Further ``columns`` of the
    objects, each [M, R, E], follow those of objects_state.
    """
    # Tensors of the own robot are [R, E], true ones of objects [M, 1, E], measured ones [M, R, E].
    robots, device = state.active.shape[1], state.pose.device
    actual = Discs.of(state, scenario, vessel.detect_radius)
    seen = _measure(actual, state, sensor, quantiles, noise)
    distance = torch.sqrt(seen.x.square() + seen.y.square())
    in_range = distance <= env_last(sensor.range) + seen.radius
    in_view = torch.atan2(seen.y, seen.x).abs() <= 0.5 * env_last(sensor.angle)
    gap = torch.where(actual.are_others(robots) & in_range & in_view, distance - seen.radius, torch.inf)
    gap = gap + actual.absent + actual.absent[:robots, 0]
    if hidden is not None:
        gap = gap + env_last(hidden)
    if missed is not None:
        gap = torch.where(env_last(missed), torch.inf, gap)
    objects, count = _nearest_objects((*seen, *columns), gap, max_objects)
    slot = torch.arange(max_objects, device=device)[:, None, None]
    mask = slot < torch.minimum(count, env_last(sensor.max_objects))
    return Observation(
        self_state=torch.where(state.active[..., None], own_state(state, scenario), 0.0),
        objects_state=env_first(torch.where(mask, objects, 0.0)),
        objects_mask=env_first(mask),
        batch_size=state.batch_size,
    )


class _Detections(NamedTuple):
    """Objects as measured by every robot: x, y, radius (m) and velocity (m/s), in its body frame; [M, R, E]."""

    x: Tensor
    y: Tensor
    vx: Tensor
    vy: Tensor
    radius: Tensor


def _measure(objects: Discs, state: State, sensor: Sensor, quantiles: Tensor, noise: PerceptionNoise) -> _Detections:
    """Return objects as every robot measures them, in its body frame."""
    x, y, theta = env_last(state.pose)
    parameters = (sensor.pos_std, sensor.vel_std, sensor.r_mean_ratio, sensor.table_row)
    pos_std, vel_std, ratio, row = (env_last(parameter) for parameter in parameters)
    noise_x, noise_y, noise_vx, noise_vy = (env_last(normal_noise) for normal_noise in noise.normal)
    dx, dy = objects.x - x + pos_std * noise_x, objects.y - y + pos_std * noise_y
    still = torch.zeros_like(objects.x[len(x) :, 0])
    true_vx, true_vy = (torch.cat((own, still))[:, None] for own in env_last(state.velocity_ground)[:2])
    vx, vy = true_vx + vel_std * noise_vx, true_vy + vel_std * noise_vy
    turn = look_up_quantile(quantiles, row, env_last(noise.uniform))
    # Stacked, so that compiled code computes them once per robot, not once per object and slot.
    cos, sin = torch.stack((theta.cos(), theta.sin()))
    return _Detections(
        x=cos * dx + sin * dy,
        y=cos * dy - sin * dx,
        vx=cos * vx + sin * vy,
        vy=cos * vy - sin * vx,
        radius=objects.radius * (ratio + (1.0 - ratio) * (turn / math.pi)),
    )


def _nearest_objects(columns: Sequence[Tensor], gap: Tensor, slots: int) -> tuple[Tensor, Tensor]:
    """Return columns [M, R, E] in slots by gaps, then indices, [n, K, R, E], and the number of objects seen."""
    count = (gap < torch.inf).to(gap.dtype).sum(0)
    if gap.shape[0] > _MAX_RANKED_OBJECTS:
        first = gap.argsort(dim=0, stable=True)[:slots]
        return torch.stack([column.gather(0, first) for column in columns]), count
    number = torch.arange(gap.shape[0], dtype=gap.dtype, device=gap.device)
    earlier = (number[:, None] > number).to(gap.dtype)[:, :, None, None]
    rivals = gap[:, None]
    rank = ((gap < rivals).to(gap.dtype) + earlier * (gap == rivals).to(gap.dtype)).sum(1)
    slot = torch.arange(slots, dtype=gap.dtype, device=gap.device)[:, None, None, None]
    taken = [torch.where(rank == slot, column, 0.0).sum(1) for column in columns]
    return torch.stack(taken), count
