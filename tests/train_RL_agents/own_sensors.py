"""A sensor of a user's own that fails in the fourth control step of an episode."""

import math

import torch

from marinenav_env import EntrySensor


class BecomesInfinite(EntrySensor):
    """Measures the velocity through the water, and infinity in that step."""

    name, meaning = "log", "velocity through the water (m/s)"

    def shape(self, config):
        return (2,)

    def scale(self, config):
        return (1.0,)

    def observe(self, scene, noise):
        velocity = scene.state.velocity_water[..., :2]
        return torch.where(scene.state.steps[:, None, None] == 4, math.inf, velocity)
