"""Artificial potential field (Khatib, IJRR 1986), with repulsion turned to starboard.

The goal attracts with a constant force. An object within reach of the hull repels with the gradient of Khatib's
potential, k (1/d - 1/d0) / d^2, where d is the gap between the hulls. Part of the repulsion is rotated by 90 degrees,
so that vessels that meet pass port to port instead of stopping (De Medio and Oriolo, "Robot obstacle avoidance using
vortex fields", 1991). Positions of moving objects are extrapolated.
"""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env.physics.thrust import velocity_to_goal
from train_RL_agents.evaluation.running.classical import Baseline, clip_speed
from train_RL_agents.networks.observation import Observation

CRUISE_SPEED = 2.0
"""Speed over ground without repulsion (m/s)."""
REPULSION_RANGE = 15.0
"""Gap d0 between the hulls below which an object repels (m)."""
REPULSION_STRENGTH = 150.0
"""Factor k of the repulsion (m^4/s)."""
MIN_GAP = 0.5
"""Smallest gap between hulls that the repulsion is computed for (m)."""
SIDEWAYS_RATIO = 1.0
"""Ratio of the sideways repulsion to the direct one."""
PREDICTION_HORIZON = 2.0
"""Longest time for which positions of objects are extrapolated (s)."""


class APF(Baseline):
    """Artificial potential field controller."""

    def desired_velocity(self, observation: Observation) -> Tensor:
        """Return the sum of attraction and repulsions, limited to CRUISE_SPEED: [E, R, 2] in the body frame (m/s)."""
        repulsions = repulsion_velocities(observation, self.own_radius)
        return clip_speed(velocity_to_goal(observation["self_state"], CRUISE_SPEED) + repulsions.sum(-2), CRUISE_SPEED)


def repulsion_velocities(observation: Observation, own_radius: float) -> Tensor:
    """Return what every object adds to the desired velocity, [E, R, K, 2] in the body frame (m/s)."""
    objects = observation["objects_state"]
    position, radius = objects[..., :2], objects[..., 4]
    relative = objects[..., 2:4] - observation["self_state"][..., None, 2:4]
    later = position + seconds_to_pass(position, relative, PREDICTION_HORIZON)[..., None] * relative
    distance = torch.linalg.vector_norm(later, dim=-1)
    gap = (distance - radius - own_radius).clamp(MIN_GAP, REPULSION_RANGE)
    push = REPULSION_STRENGTH * (1.0 / gap - 1.0 / REPULSION_RANGE) / gap.square()
    away = -later / distance.clamp_min(1e-6)[..., None]
    # Towards the side that leaves the object to port.
    aside = torch.stack((away[..., 1], -away[..., 0]), -1)
    ahead = (position[..., 0] > 0.0)[..., None]
    direction = away + torch.where(ahead, SIDEWAYS_RATIO * aside, 0.0)
    return (push * observation["objects_mask"])[..., None] * direction


def seconds_to_pass(position: Tensor, relative: Tensor, most: float) -> Tensor:
    """Return the times [...] to the closest point of approach of objects [..., 2], from 0 to ``most`` (s)."""
    closing = -(position * relative).sum(-1)
    return (closing / relative.square().sum(-1).clamp_min(1e-6)).clamp(0.0, most)
