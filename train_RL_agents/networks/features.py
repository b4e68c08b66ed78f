"""Inputs of encoders: raw observations, scaled ones, or scaled ones with encounter geometry.

The geometry is a fixed function of the observation, inside the network, so every network still
takes raw observations. It spares small networks from learning divisions and square roots.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from train_RL_agents.networks.encoder_config import FeatureSet

NUM_SELF_FEATURES = 7
"""Size of the own state in an observation."""
NUM_OBJECT_FEATURES = 5
"""Size of the state of an object in an observation."""
NUM_SELF_GEOMETRY_FEATURES = 3
"""Number of features that ``goal_geometry`` adds to the own state."""
NUM_OBJECT_GEOMETRY_FEATURES = 9
"""Number of features that ``encounter_geometry`` adds to each object."""


class GeometryScales(NamedTuple):
    """Scales of the encounter geometry, taken from those of the observation, which depend on the boat's size."""

    length: float = 20.0
    """Length that distances are divided by (m)."""
    speed: float = 2.0
    """Speed that relative velocities are divided by (m/s)."""

    @property
    def near_distance(self) -> float:
        """Return the length (m) over which the feature exp(-clearance / length) of an object falls by a factor e."""
        return self.length / 5.0

    @property
    def horizon(self) -> float:
        """Return the time (s) that the look-ahead to the closest point of approach is limited to."""
        return 2.0 * self.length / self.speed

    @property
    def risk_distance(self) -> float:
        """Return the distance of the closest object (m) within which an adaptive risk level is below 1."""
        return self.length / 2.0


def num_features(features: FeatureSet) -> tuple[int, int]:
    """Return the numbers of inputs of the encoders of the own state and of an object, as a pair."""
    more = features == "geometric"
    return (
        NUM_SELF_FEATURES + more * NUM_SELF_GEOMETRY_FEATURES,
        NUM_OBJECT_FEATURES + more * NUM_OBJECT_GEOMETRY_FEATURES,
    )


def distance_and_direction(position: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distance [...] and unit vector [..., 2] of positions [..., 2]; the vector is zero at the origin."""
    distance = torch.linalg.vector_norm(position, dim=-1)
    return distance, position / distance.clamp_min(1e-3)[..., None]


def goal_geometry(self_state: Tensor, scales: GeometryScales) -> Tensor:
    """Return scaled distance and unit vector to the goal, [..., 3], given own states [..., 7]: goal, velocity, ..."""
    distance, direction = distance_and_direction(self_state[..., :2])
    return torch.cat((distance[..., None] / scales.length, direction), -1)


def limit_goal_distance(self_state: Tensor, reach: float) -> Tensor:
    """Return own states [..., 7] with the goal moved along its direction to at most ``reach`` away (m)."""
    goal, rest = self_state.split((2, NUM_SELF_FEATURES - 2), -1)
    distance = torch.linalg.vector_norm(goal, dim=-1, keepdim=True)
    return torch.cat((goal * (reach / distance.clamp_min(reach)), rest), -1)


def encounter_geometry(self_state: Tensor, objects_state: Tensor, own_radius: float, scales: GeometryScales) -> Tensor:
    """Return the geometry of passing every object at constant velocities.

    The scaled features [..., K, 9] are clearance, exp(-clearance / near), closing speed, time to and clearance at the
    closest point of approach (TCPA and, less the radii, DCPA as of a collision avoidance radar; Lenart, Journal of
    Navigation 36, 1983), direction and relative velocity. States are [..., 7] of the own vessel, with its radius (m),
    and [..., K, 5] of the objects.
    """
    position, velocity, radius = objects_state.split((2, 2, 1), -1)
    radius = radius.squeeze(-1) + own_radius
    relative = velocity - self_state[..., None, 2:4]
    distance, direction = distance_and_direction(position)
    closing = -(direction * relative).sum(-1)
    approach = -(position * relative).sum(-1) / relative.square().sum(-1).clamp_min(1e-3)
    time = approach.clamp(0.0, scales.horizon)
    miss_distance = torch.linalg.vector_norm(position + time[..., None] * relative, dim=-1) - radius
    clearance = distance - radius
    scalars = (
        clearance / scales.length,
        torch.exp(-clearance.clamp_min(0.0) / scales.near_distance),
        closing / scales.speed,
        time / scales.horizon,
        miss_distance / scales.length,
    )
    return torch.cat((torch.stack(scalars, -1), direction, relative / scales.speed), -1)
