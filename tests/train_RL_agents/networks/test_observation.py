"""Specifications of observations, and observations repeated."""

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from marinenav_env.config import VesselConfig
from train_RL_agents.config.building import make_observation_spec
from train_RL_agents.networks.observation import to_observation


def test_of_several_vessels_the_largest_radius_counts():
    world = WorldConfig(vessel=VesselConfig(radius=(1.0, 3.0, 2.0)))
    assert make_observation_spec(world).radius == 3.0


def test_an_observation_in_one_vector_is_refused():
    with pytest.raises(
        ConfigError, match=r"^robots/observation: must be entries by name, not one vector as with flat="
    ):
        to_observation(torch.zeros(4, 3, 37))
