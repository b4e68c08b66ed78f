"""Parts of users in tests: a reward like the published one, and a reward and a sensor that fail in the fourth step."""

import math

import pytest
import torch

from marinenav_env import EntrySensor
from marinenav_env.rules.reward import RewardInputs, published_terms
from marinenav_env.support import plugins


def allow_only(monkeypatch: pytest.MonkeyPatch, *references: str) -> None:
    """Let only these parts be imported, as in a process whose user named them."""
    monkeypatch.setattr(plugins, "_allowed_references", set(references))


def published_reward(step: RewardInputs) -> torch.Tensor:
    """The sum of the published terms, in their order."""
    events = step.progress, step.phi, step.collided, step.arrived
    return sum(published_terms(*events, step.parameters.rules).values())


def becomes_nan(step: RewardInputs) -> torch.Tensor:
    """Progress, and NaN in the fourth control step of an episode."""
    return torch.where(step.after.steps[:, None] == 4, math.nan, step.progress)


class BecomesInfinite(EntrySensor):
    """Measures the velocity through the water, and infinity in the fourth control step of an episode."""

    name, meaning = "log", "velocity through the water (m/s)"

    def shape(self, config):
        return (2,)

    def scale(self, config):
        return (1.0,)

    def observe(self, scene, noise):
        velocity = scene.state.velocity_water[..., :2]
        return torch.where(scene.state.steps[:, None, None] == 4, math.inf, velocity)
