"""Base class of baselines: a desired velocity, and a controller that tracks it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import Tensor

from marinenav_env import GROUP, WorldConfig
from marinenav_env.physics.thrust import ThrustController
from marinenav_env.sensing.shores import SHORE, SHORE_MASK
from marinenav_env.vessels import PUBLISHED_VESSEL, largest_value
from train_RL_agents.networks.observation import OBSERVATION_KEY, Observation, to_observation


class Baseline(TensorDictModuleBase, ABC):
    """Base class of baselines: a TensorDict module that steers all robots, used like PolicyWrapper.

    It reads ``robots/observation`` and ``robots/mask``, and writes the continuous ``robots/action`` [E, R, 2], rates
    of change of the left and right thrust in [-1, 1]. It has no state and needs no random numbers. Its distances, times
    and speeds are constants that were chosen for the published vessel, so it warns of another one.
    """

    shore_radius = 0.0
    """Radius of the nearest points of shores (m), which are avoided like objects at rest."""

    def __init__(self, world: WorldConfig) -> None:
        super().__init__()
        if world.vessel.name != PUBLISHED_VESSEL:
            name = type(self).__name__
            warnings.warn(
                f"{name}: its distances, times and speeds were chosen for the published vessel and are not adapted to "
                f"{world.vessel.name}, with which it may fail more often",
                stacklevel=2,
            )
        self.in_keys = [OBSERVATION_KEY, (GROUP, "mask")]
        self.out_keys = [(GROUP, "action")]
        self.own_radius = largest_value(world.vessel.radius)
        self.controller = ThrustController.from_world(world)

    @abstractmethod
    def desired_velocity(self, observation: Observation) -> Tensor:
        """Return the desired velocities over ground of all robots, [E, R, 2] in the body frame (m/s)."""

    @torch.no_grad()
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Write the actions of all robots, zero for those that are not active."""
        observation = with_shores(to_observation(tensordict.get(OBSERVATION_KEY)), self.shore_radius)
        velocity = self.desired_velocity(observation)
        action = self.controller(observation["self_state"], velocity)
        active = tensordict.get((GROUP, "mask"))
        return tensordict.set((GROUP, "action"), torch.where(active[..., None], action, 0.0))


def with_shores(observation: Observation, radius: float) -> Observation:
    """Return observations with the nearest points of shores as further objects, at rest and of a radius (m)."""
    if SHORE not in observation:
        return observation
    places = observation[SHORE][..., 4:6]
    points = torch.cat((places, torch.zeros_like(places), torch.full_like(places[..., :1], radius)), -1)
    objects = {"objects_state": points, "objects_mask": observation[SHORE_MASK]}
    return observation | {name: torch.cat((observation[name], more), 2) for name, more in objects.items()}


def clip_speed(velocity: Tensor, speed: float) -> Tensor:
    """Scale down velocities [E, R, 2] that are faster than a speed (m/s)."""
    norm = torch.linalg.vector_norm(velocity, dim=-1, keepdim=True)
    return velocity * (speed / norm.clamp_min(speed))
