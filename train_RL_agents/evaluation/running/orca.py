"""Optimal reciprocal collision avoidance (van den Berg, Guy, Lin and Manocha, ISRR 2009).

Every object forbids the velocities that lead to a collision within a horizon. The smallest change of velocity that
avoids it bounds a half-plane of allowed velocities. Two vessels share the change; for a static object, the vessel makes
all of it. The result is the allowed velocity closest to the desired one or, if none is allowed, the one with the
smallest violation of the worst bound.

The linear programs are so small that all candidates for the optimum are evaluated: all intersections of up to three
boundaries, for all robots at once.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.physics.thrust import velocity_to_goal
from train_RL_agents.evaluation.running.classical import Baseline
from train_RL_agents.networks.observation import Observation

DESIRED_SPEED = 1.5
"""Desired speed over ground (m/s)."""
TOP_SPEED = 2.0
"""Largest commanded speed over ground (m/s)."""
HORIZON = 8.0
"""Horizon of collisions with moving objects (s)."""
STATIC_HORIZON = 20.0
"""Horizon of collisions with static objects (s); with a short one the vessel would stop in front of them."""
RADIUS_MARGIN = 3.0
"""Margin on the sum of the radii of two hulls (m), as vessels cannot change velocity instantly."""
MAX_STATIC_SPEED = 0.3
"""Speed below which objects count as static (m/s)."""
_UNREACHABLE_SPEED = 1e3
"""Speed that no velocity reaches (m/s), the bound where all velocities are allowed and a point far from all of them."""
_TOLERANCE = 1e-4
"""Violation of a bound that counts as rounding (m/s)."""

Lines = tuple[Tensor, Tensor]
"""Lines in the plane of velocities: unit normals [..., N, 2], and distances [..., N] from the origin along them (m/s).
"""


class ORCA(Baseline):
    """Optimal reciprocal collision avoidance controller."""

    shore_radius = 1.0 - RADIUS_MARGIN  # routes are nearer to shores than the margin

    def __init__(self, world: WorldConfig) -> None:
        super().__init__(world)
        self.step = world.control_step

    def desired_velocity(self, observation: Observation) -> Tensor:
        """Return the allowed velocity closest to the one straight to the goal, [E, R, 2] in the body frame (m/s)."""
        objects, mask = (observation[name].contiguous() for name in ("objects_state", "objects_mask"))
        still = torch.linalg.vector_norm(objects[..., 2:4], dim=-1) < MAX_STATIC_SPEED
        normal, bound = half_planes(
            observation["self_state"][..., 2:4],
            objects[..., :2],
            objects[..., 2:4],
            objects[..., 4] + self.own_radius + RADIUS_MARGIN,
            torch.where(still, 1.0, 0.5),
            torch.where(still, STATIC_HORIZON, HORIZON),
            self.step,
        )
        # Empty slots allow all velocities.
        normal = torch.where(mask[..., None], normal, 0.0)
        bound = torch.where(mask, bound, -_UNREACHABLE_SPEED)
        return best_velocity(velocity_to_goal(observation["self_state"], DESIRED_SPEED), normal, bound, TOP_SPEED)


def half_planes(
    own_velocity: Tensor,
    position: Tensor,
    velocity: Tensor,
    radius: Tensor,
    share: Tensor,
    horizon: Tensor,
    step: float,
) -> tuple[Tensor, Tensor]:
    """Return half-planes of velocities w that objects allow, normal . w >= bound: [..., K, 2], [..., K] (m/s).

    Positions [..., K, 2] (m) are relative to the own one, radii sums of both, shares those of the change of velocity
    that the vessel makes; vessels in contact separate within ``step`` (s), others stay apart for ``horizon`` (s).
    """
    relative = own_velocity[..., None, :] - velocity
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
    # The leg of the cone on the side of w; its normal points outwards.
    leg = (distance_2 - radius.square()).clamp_min(0.0).sqrt()
    side = torch.where(_cross(position, w) > 0.0, 1.0, -1.0)
    x, y = position.unbind(-1)
    outside = torch.stack((-(radius * x + side * leg * y), side * leg * x - radius * y), -1)
    leg_normal = outside / distance_2.clamp_min(1e-9)[..., None]
    leg_change = -(leg_normal * relative).sum(-1)

    use_disc = touching | on_disc
    normal = torch.where(use_disc[..., None], disc_normal, leg_normal)
    change = torch.where(use_disc, disc_change, leg_change)
    return normal, (normal * own_velocity[..., None, :]).sum(-1) + share * change


def best_velocity(desired: Tensor, normal: Tensor, bound: Tensor, top_speed: float) -> Tensor:
    """Return the velocity [..., 2] allowed by half-planes and a largest speed that is closest to a desired one.

    If none is allowed, it is the one with the smallest violation of the worst bound.
    """
    first, second = _combinations(bound, 2)
    near = torch.cat(
        (
            desired[..., None, :],
            desired[..., None, :] + (bound - (normal * desired[..., None, :]).sum(-1))[..., None] * normal,
            _circle_intersections(normal, bound, top_speed),
            _intersections((normal[..., first, :], bound[..., first]), (normal[..., second, :], bound[..., second])),
        ),
        -2,
    )
    worst = _worst_violation(near, normal, bound, top_speed)
    far = (near - desired[..., None, :]).square().sum(-1)
    allowed = worst <= _TOLERANCE
    closest = _lowest_cost_point(near, torch.where(allowed, far, torch.inf))
    i, j, k = _combinations(bound, 3)
    least = torch.cat(
        (
            top_speed * normal,
            _circle_intersections(*_equal_violation_lines(normal, bound, first, second), top_speed),
            _intersections(_equal_violation_lines(normal, bound, i, j), _equal_violation_lines(normal, bound, i, k)),
        ),
        -2,
    )
    fallback = _lowest_cost_point(least, _worst_violation(least, normal, bound, top_speed))
    return torch.where(allowed.any(-1, keepdim=True), closest, fallback)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _circle_intersections(normal: Tensor, bound: Tensor, radius: float) -> Tensor:
    """Return the intersections [..., 2 K, 2] of K lines and a circle around the origin, or their closest points."""
    half = (radius**2 - bound.square()).clamp_min(0.0).sqrt()[..., None]
    along = torch.stack((-normal[..., 1], normal[..., 0]), -1)
    foot = bound[..., None] * normal
    return torch.cat((foot + half * along, foot - half * along), -2)


def _combinations(bound: Tensor, size: int) -> Tensor:
    """Return the indices [size, N] of all N combinations of ``size`` of the K half-planes with bounds [..., K]."""
    index = torch.arange(bound.shape[-1], device=bound.device)
    return torch.combinations(index, size).mT


def _equal_violation_lines(normal: Tensor, bound: Tensor, first: Tensor, second: Tensor) -> Lines:
    """Return the lines on which the half-planes of indices ``first`` and ``second`` are violated equally."""
    between = normal[..., first, :] - normal[..., second, :]
    length = torch.linalg.vector_norm(between, dim=-1).clamp_min(1e-9)
    return between / length[..., None], (bound[..., first] - bound[..., second]) / length


def _intersections(first: Lines, second: Lines) -> Tensor:
    """Return the intersections [..., N, 2] of each line with one other; far from the origin where they are parallel."""
    (a, c), (b, d) = first, second
    determinant = _cross(a, b)
    x = (c * b[..., 1] - d * a[..., 1]) / determinant
    y = (d * a[..., 0] - c * b[..., 0]) / determinant
    crossing = torch.stack((x, y), -1)
    return torch.where(determinant[..., None].abs() > 1e-6, crossing, _UNREACHABLE_SPEED)


def _worst_violation(points: Tensor, normal: Tensor, bound: Tensor, top_speed: float) -> Tensor:
    """Return by how much points [..., P, 2] violate the worst half-plane (m/s), [..., P]; infinite if too fast."""
    (x, y), (a, b) = points[..., None, :].unbind(-1), normal[..., None, :, :].unbind(-1)
    worst = (bound[..., None, :] - x * a - y * b).amax(-1)
    too_fast = points.square().sum(-1) > (top_speed + _TOLERANCE) ** 2
    return torch.where(too_fast, torch.inf, worst)


def _lowest_cost_point(points: Tensor, cost: Tensor) -> Tensor:
    """Return the point [..., 2] with the lowest cost among points [..., P, 2]."""
    best = cost.argmin(-1)[..., None, None].expand(*cost.shape[:-1], 1, 2)
    return points.gather(-2, best).squeeze(-2)
