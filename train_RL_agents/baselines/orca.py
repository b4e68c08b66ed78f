"""Optimal reciprocal collision avoidance (van den Berg, Guy, Lin and Manocha, ISRR 2009).

Every object forbids the velocities that lead to it within a horizon. The least change of velocity
that avoids it bounds a half-plane of allowed velocities; two vessels share the change, a thing
that stands still leaves all of it to the vessel. The answer is the allowed velocity that is closest
to the wanted one, or, when none is allowed, the one that violates the worst bound least.

The programs are so small that the optimum is found by trying every point where it can lie: all
intersections of up to three boundaries, for all robots at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.physics.thrust import to_the_goal
from train_RL_agents.baselines.base import Baseline
from train_RL_agents.networks.observation import Observation

SPEED = 1.5
"""Wanted speed over ground (m/s)."""
TOP_SPEED = 2.0
"""Largest speed over ground that is asked for (m/s)."""
HORIZON = 8.0
"""Collisions with what moves are avoided within this time (s)."""
STILL_HORIZON = 20.0
"""Likewise with what stands still (s): a short one would let the vessel stop in front of it."""
MARGIN = 3.0
"""Added to the sum of the radii, for vessels that cannot change velocity at once (m)."""
STANDS_STILL = 0.3
"""Objects slower than this are expected to do nothing (m/s)."""
_NEVER = 1e3
"""A bound that no velocity reaches (m/s)."""
_TOLERANCE = 1e-4
"""Violations of a bound that are rounding (m/s)."""

Lines = tuple[Tensor, Tensor]
"""Unit normals [..., N, 2] and distances from zero along them [..., N]."""


class ORCA(Baseline):
    """See the module."""

    def __init__(self, world: WorldConfig) -> None:
        super().__init__(world)
        self.step = world.dt * world.substeps

    def wanted_velocity(self, observation: Observation) -> Tensor:
        """Return the allowed velocity that is closest to the one straight to the goal."""
        objects, mask = (
            observation["objects_state"].contiguous(),
            observation["objects_mask"].contiguous(),
        )
        still = torch.linalg.vector_norm(objects[..., 2:4], dim=-1) < STANDS_STILL
        normal, bound = half_planes(
            observation["self_state"][..., 2:4],
            objects[..., :2],
            objects[..., 2:4],
            objects[..., 4] + self.own_radius + MARGIN,
            torch.where(still, 1.0, 0.5),
            torch.where(still, STILL_HORIZON, HORIZON),
            self.step,
        )
        # Empty slots allow everything.
        normal = torch.where(mask[..., None], normal, 0.0)
        bound = torch.where(mask, bound, -_NEVER)
        return best_velocity(to_the_goal(observation["self_state"], SPEED), normal, bound, TOP_SPEED)


def half_planes(
    own: Tensor,
    position: Tensor,
    velocity: Tensor,
    radius: Tensor,
    share: Tensor,
    horizon: Tensor,
    step: float,
) -> tuple[Tensor, Tensor]:
    """Return the velocities that each object allows: those w with normal . w >= bound.

    Args:
        own: [..., 2] own velocity (m/s).
        position: [..., K, 2] of the objects, relative to the own one (m).
        velocity: [..., K, 2] of the objects (m/s).
        radius: [..., K] sum of the radii (m).
        share: [..., K] of the change of velocity that is the own one's.
        horizon: [..., K] collisions within this time are avoided (s).
        step: time in which those that touch already get apart (s).

    Returns:
        Unit normals [..., K, 2] and bounds [..., K] (m/s).
    """
    relative = own[..., None, :] - velocity
    distance_2 = position.square().sum(-1)
    touching = distance_2 <= radius.square()
    time = torch.where(touching, step, horizon)
    # The velocity obstacle is a cone cut off by a disc; w points from the disc's centre.
    w = relative - position / time[..., None]
    along = (w * position).sum(-1)
    w_length = torch.linalg.vector_norm(w, dim=-1).clamp_min(1e-9)
    on_disc = (along < 0.0) & (along.square() > radius.square() * w_length.square())
    disc_normal = w / w_length[..., None]
    disc_change = radius / time - w_length
    # The leg of the cone on whose side w lies: to its outside points the normal.
    leg = (distance_2 - radius.square()).clamp_min(0.0).sqrt()
    side = torch.where(_cross(position, w) > 0.0, 1.0, -1.0)
    x, y = position.unbind(-1)
    outside = torch.stack((-(radius * x + side * leg * y), side * leg * x - radius * y), -1)
    leg_normal = outside / distance_2.clamp_min(1e-9)[..., None]
    leg_change = -(leg_normal * relative).sum(-1)

    use_disc = touching | on_disc
    normal = torch.where(use_disc[..., None], disc_normal, leg_normal)
    change = torch.where(use_disc, disc_change, leg_change)
    return normal, (normal * own[..., None, :]).sum(-1) + share * change


def best_velocity(wanted: Tensor, normal: Tensor, bound: Tensor, top_speed: float) -> Tensor:
    """Return the best velocity under half-planes and a largest speed.

    Args:
        wanted: [..., 2] (m/s), not faster than the largest speed.
        normal: [..., K, 2] of the half-planes, units or zero.
        bound: [..., K] of the half-planes (m/s).
        top_speed: largest speed (m/s).

    Returns:
        [..., 2] the allowed one closest to the wanted one, or that of the least violation.
    """
    first, second = _choices(bound, 2)
    near = torch.cat(
        (
            wanted[..., None, :],
            wanted[..., None, :] + _project(wanted, normal, bound),
            _on_circle(normal, bound, top_speed),
            _crossing(
                (normal[..., first, :], bound[..., first]),
                (normal[..., second, :], bound[..., second]),
            ),
        ),
        -2,
    )
    worst = _worst_violation(near, normal, bound, top_speed)
    far = (near - wanted[..., None, :]).square().sum(-1)
    allowed = worst <= _TOLERANCE
    closest = _pick(near, torch.where(allowed, far, torch.inf))
    one, two, three = _choices(bound, 3)
    least = torch.cat(
        (
            top_speed * normal,
            _on_circle(*_difference(normal, bound, first, second), top_speed),
            _crossing(_difference(normal, bound, one, two), _difference(normal, bound, one, three)),
        ),
        -2,
    )
    fallback = _pick(least, _worst_violation(least, normal, bound, top_speed))
    return torch.where(allowed.any(-1, keepdim=True), closest, fallback)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _project(point: Tensor, normal: Tensor, bound: Tensor) -> Tensor:
    """Return the steps [..., K, 2] from a point [..., 2] to each boundary."""
    return (bound - (normal * point[..., None, :]).sum(-1))[..., None] * normal


def _on_circle(normal: Tensor, bound: Tensor, radius: float) -> Tensor:
    """Where lines [..., K] cross a circle around zero, [..., 2 K, 2]; beyond it if they do not."""
    half = (radius**2 - bound.square()).clamp_min(0.0).sqrt()[..., None]
    along = torch.stack((-normal[..., 1], normal[..., 0]), -1)
    foot = bound[..., None] * normal
    return torch.cat((foot + half * along, foot - half * along), -2)


def _choices(bound: Tensor, size: int) -> Tensor:
    """Return all choices of ``size`` out of K half-planes, [size, N]."""
    index = torch.arange(bound.shape[-1], device=bound.device)
    return torch.combinations(index, size).mT


def _difference(normal: Tensor, bound: Tensor, first: Tensor, second: Tensor) -> Lines:
    """Return the lines on which two half-planes are violated equally."""
    between = normal[..., first, :] - normal[..., second, :]
    length = torch.linalg.vector_norm(between, dim=-1).clamp_min(1e-9)
    return between / length[..., None], (bound[..., first] - bound[..., second]) / length


def _crossing(one: Lines, other: Lines) -> Tensor:
    """Where lines cross, [..., N, 2]; far off where they are parallel."""
    (a, c), (b, d) = one, other
    determinant = _cross(a, b)
    x = (c * b[..., 1] - d * a[..., 1]) / determinant
    y = (d * a[..., 0] - c * b[..., 0]) / determinant
    crossing = torch.stack((x, y), -1)
    return torch.where(determinant[..., None].abs() > 1e-6, crossing, _NEVER)


def _worst_violation(points: Tensor, normal: Tensor, bound: Tensor, top_speed: float) -> Tensor:
    """By how much points [..., P, 2] violate the worst half-plane; infinite if too fast."""
    (x, y), (a, b) = points[..., None, :].unbind(-1), normal[..., None, :, :].unbind(-1)
    worst = (bound[..., None, :] - x * a - y * b).amax(-1)
    too_fast = points.square().sum(-1) > (top_speed + _TOLERANCE) ** 2
    return torch.where(too_fast, torch.inf, worst)


def _pick(points: Tensor, cost: Tensor) -> Tensor:
    """Return the point [..., 2] of the least cost among points [..., P, 2]."""
    best = cost.argmin(-1)[..., None, None].expand(*cost.shape[:-1], 1, 2)
    return points.gather(-2, best).squeeze(-2)
