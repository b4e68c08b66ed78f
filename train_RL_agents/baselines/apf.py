"""Artificial potential field (Khatib, IJRR 1986), with repulsion turned to starboard.

The goal attracts with a constant pull. An object within reach of the hull pushes with the gradient
of Khatib's potential, k (1/d - 1/d0) / d^2, d being the gap between the hulls. Part of the push is
turned by 90 degrees, so that vessels that meet pass port to port instead of standing off (De Medio
and Oriolo, "Robot obstacle avoidance using vortex fields", 1991). An object that moves is
taken to be where it will be shortly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env.physics.thrust import to_the_goal
from train_RL_agents.baselines.base import Baseline, limited
from train_RL_agents.networks.observation import Observation

SPEED = 2.0
"""Speed over ground where nothing pushes (m/s)."""
REACH = 15.0
"""Gap d0 between the hulls from which on an object pushes (m)."""
STRENGTH = 150.0
"""Factor k of the push (m^4/s)."""
SMALLEST_GAP = 0.5
"""Gaps below this push as this one does (m)."""
TURNED = 1.0
"""Push to the side per push away (1)."""
AHEAD = 2.0
"""How far ahead objects are looked for (s)."""


class APF(Baseline):
    """See the module."""

    def wanted_velocity(self, observation: Observation) -> Tensor:
        """Return the sum of pull and pushes, cut to the speed."""
        pushes = repulsion(observation, self.own_radius)
        return limited(to_the_goal(observation["self_state"], SPEED) + pushes.sum(-2), SPEED)


def repulsion(observation: Observation, own_radius: float) -> Tensor:
    """Return the contribution of each object to the wanted velocity.

    Args:
        observation: [E, R, ...].
        own_radius: collision radius (m).

    Returns:
        [E, R, K, 2] in the body frame (m/s).
    """
    objects = observation["objects_state"]
    position, radius = objects[..., :2], objects[..., 4]
    relative = objects[..., 2:4] - observation["self_state"][..., None, 2:4]
    later = position + seconds_to_pass(position, relative, AHEAD)[..., None] * relative
    distance = torch.linalg.vector_norm(later, dim=-1)
    gap = (distance - radius - own_radius).clamp(SMALLEST_GAP, REACH)
    push = STRENGTH * (1.0 / gap - 1.0 / REACH) / gap.square()
    away = -later / distance.clamp_min(1e-6)[..., None]
    # Of the two sides, the one to which the object is passed on its port side.
    aside = torch.stack((away[..., 1], -away[..., 0]), -1)
    ahead = (position[..., 0] > 0.0)[..., None]
    direction = away + torch.where(ahead, TURNED * aside, 0.0)
    return (push * observation["objects_mask"])[..., None] * direction


def seconds_to_pass(position: Tensor, relative: Tensor, most: float) -> Tensor:
    """Return the time until an object is closest, if no vessel changes course.

    Args:
        position: [..., 2] of the object (m).
        relative: [..., 2] its velocity less the own one (m/s).
        most: upper bound (s).

    Returns:
        [...] from 0 to ``most`` (s).
    """
    closing = -(position * relative).sum(-1)
    return (closing / relative.square().sum(-1).clamp_min(1e-6)).clamp(0.0, most)
