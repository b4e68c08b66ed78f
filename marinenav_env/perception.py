"""What each robot sees: its own state and the nearest objects, measured with noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from marinenav_env.layout import cat_last, environments_innermost, reverse, stack_last
from marinenav_env.state import Observation, Scenario, Sensor, State, Vessel


class Noise(NamedTuple):
    """Random numbers of one observation of every robot, drawn outside compiled code."""

    normal: Tensor
    """[4, E, R, M] standard normal: position x, y and velocity x, y of each object."""
    uniform: Tensor
    """[E, R, M] uniform on [0, 1): quantile of the von Mises noise of the radius."""


def draw_noise(
    generator: torch.Generator, environments: int, robots: int, objects: int, dtype: torch.dtype
) -> Noise:
    """Draw the noise of one observation.

    Args:
        generator: the source of randomness; its device is the noise's.
        environments: E.
        robots: R.
        objects: M.
        dtype: floating-point type.
    """
    shape = (objects, robots, environments)
    normal = torch.empty((4, *shape), dtype=dtype, device=generator.device)
    uniform = torch.empty(shape, dtype=dtype, device=generator.device)
    normal.normal_(generator=generator)
    uniform.uniform_(generator=generator)
    return Noise(normal.permute(0, 3, 2, 1), reverse(uniform))


def von_mises_quantiles(kappas: list[float], points: int = 4097) -> Tensor:
    """Quantile functions of von Mises distributions with mean 0, on an even grid of [0, 1].

    The distribution function is summed on a fine grid of angles and inverted by interpolation;
    sampling by table lookup needs no rejection and thus no host read.

    Args:
        kappas: concentrations, one per row, each at least 0.
        points: grid points of a row.

    Returns:
        [len(kappas), points] angles (rad) in [-pi, pi], float64.
    """
    angles = np.linspace(-np.pi, np.pi, 65_537)
    rows = []
    for kappa in kappas:
        density = np.exp(kappa * (np.cos(angles) - 1.0))
        cumulative = np.concatenate(([0.0], np.cumsum(0.5 * (density[1:] + density[:-1]))))
        cumulative /= cumulative[-1]
        row = np.interp(np.linspace(0.0, 1.0, points), cumulative, angles)
        # The last interval reaches from where a concentrated distribution has all but ended to pi.
        # Shorten it so that linear interpolation keeps the mean of that tail.
        share = (np.arange(256) + 0.5) / 256 / (points - 1)
        row[-1] = 2.0 * np.interp(1.0 - share, cumulative, angles).mean() - row[-2]
        row[0] = -row[-1]
        rows.append(row)
    return torch.from_numpy(np.stack(rows))


def look_up_quantile(table: Tensor, row: Tensor, uniform: Tensor) -> Tensor:
    """Read a quantile table by linear interpolation.

    Args:
        table: [rows, points].
        row: int64, broadcastable to ``uniform``.
        uniform: quantiles in [0, 1).

    Returns:
        Values, shaped as ``uniform``.
    """
    last = table.shape[-1] - 1
    position = uniform * last
    # float32 rounds uniforms just below 1 up to the last point.
    lower = position.to(torch.int64).clamp(0, last - 1)
    flat, index = table.flatten(), row * (last + 1) + lower
    return torch.lerp(flat[index], flat[index + 1], position - lower)


def own_state(state: State, goal: Tensor) -> Tensor:
    """A robot's own state, without noise.

    Args:
        state: batch [E].
        goal: [E, R, 2] (m).

    Returns:
        [E, R, 7] goal x, y in the body frame, u, v over ground, yaw rate, both thrusts.
    """
    x, y, theta = state.pose.unbind(-1)
    vx, vy, r = state.velocity_ground.unbind(-1)
    cos, sin = theta.cos(), theta.sin()
    dx, dy = goal[..., 0] - x, goal[..., 1] - y
    left, right = state.thrust.unbind(-1)
    own = (
        cos * dx + sin * dy, cos * dy - sin * dx,
        cos * vx + sin * vy, cos * vy - sin * vx,
        r, left, right,
    )  # fmt: skip
    return stack_last(own)


def observe(
    state: State,
    scenario: Scenario,
    vessel: Vessel,
    sensor: Sensor,
    quantiles: Tensor,
    noise: Noise,
    max_objects: int,
) -> tuple[Observation, Tensor]:
    """Perceive every obstacle and every other active robot (the specification, "Perception").

    Args:
        state: batch [E]; its active robots see and are seen.
        scenario: batch [E].
        vessel: parameters.
        sensor: parameters.
        quantiles: [rows, points] von Mises quantile table.
        noise: one draw.
        max_objects: K, slots of the observation.

    Returns:
        The observation, and [E, R] bool: the robot truly touches an object that it sees.
    """
    environments, robots = state.active.shape
    x, y, theta = state.pose.unbind(-1)
    cos, sin = theta.cos()[..., None], theta.sin()[..., None]

    # True objects, [E, 1, M]: the robots first, then the obstacles.
    still = torch.zeros_like(scenario.obstacle_radius)
    object_x = cat_last((x, scenario.obstacle_position[..., 0]))[:, None]
    object_y = cat_last((y, scenario.obstacle_position[..., 1]))[:, None]
    object_vx = cat_last((state.velocity_ground[..., 0], still))[:, None]
    object_vy = cat_last((state.velocity_ground[..., 1], still))[:, None]
    measured = cat_last((vessel.detect_radius.expand_as(x), scenario.obstacle_radius))[:, None]
    touching = cat_last((vessel.radius.expand_as(x), scenario.obstacle_radius))[:, None]
    present = cat_last((state.active, scenario.obstacle_mask))[:, None]
    index = torch.arange(object_x.shape[-1], device=x.device)
    present = present & (index != index[:robots, None]) & state.active[..., None]

    # As measured, [E, R, M], and turned into the body frame of the one who measures.
    pos_std, vel_std = sensor.pos_std[..., None], sensor.vel_std[..., None]
    dx, dy = object_x - x[..., None], object_y - y[..., None]
    noisy_dx, noisy_dy = dx + pos_std * noise.normal[0], dy + pos_std * noise.normal[1]
    noisy_vx = object_vx + vel_std * noise.normal[2]
    noisy_vy = object_vy + vel_std * noise.normal[3]
    ratio = sensor.r_mean_ratio[..., None]
    turn = look_up_quantile(quantiles, sensor.table_row[..., None], noise.uniform)
    radius = measured * (ratio + (1.0 - ratio) * (turn / math.pi))
    px, py = cos * noisy_dx + sin * noisy_dy, cos * noisy_dy - sin * noisy_dx
    vx, vy = cos * noisy_vx + sin * noisy_vy, cos * noisy_vy - sin * noisy_vx

    distance = torch.sqrt(px.square() + py.square())
    in_range = distance <= sensor.range[..., None] + radius
    in_view = torch.atan2(py, px).abs() <= 0.5 * sensor.angle[..., None]
    seen = present & in_range & in_view

    touch = dx.square() + dy.square() <= (touching + vessel.radius[..., None]).square()
    collided = (seen & touch).any(-1)

    kept = min(max_objects, seen.shape[-1])
    gap = torch.where(seen, distance - radius, torch.inf)
    closest, order = torch.topk(gap, kept, dim=-1, largest=False, sorted=True)
    slot = torch.arange(kept, device=x.device)
    mask = (closest < torch.inf) & (slot < sensor.max_objects[..., None])
    order, mask = environments_innermost(order), environments_innermost(mask)
    columns = [
        torch.where(mask, column.gather(-1, order), 0.0) for column in (px, py, vx, vy, radius)
    ]
    missing = max_objects - kept
    objects = stack_last([torch.nn.functional.pad(column, (0, missing)) for column in columns])
    observation = Observation(
        self_state=torch.where(state.active[..., None], own_state(state, scenario.goal), 0.0),
        objects_state=objects,
        objects_mask=torch.nn.functional.pad(mask, (0, missing)),
        batch_size=[environments],
    )
    return observation, collided
