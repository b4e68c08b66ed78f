"""Commands that reach a velocity."""

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.physics.thrust import ThrustController


def test_commands_are_those_that_a_world_takes():
    """Their numbers are compared with the oracle in test_behaviours.py."""
    own, wanted = torch.zeros(1, 2, 7), torch.tensor([[[9.0, 0.0], [-9.0, 1.0]]])
    assert ThrustController(VesselConfig(), 0.1)(own, wanted).tolist() == [[[1.0, 1.0], [1.0, -1.0]]]


def test_vessels_of_one_controller_are_equal_in_what_it_uses():
    ThrustController.from_world(WorldConfig(vessel=VesselConfig(radius=(1.0, 2.0), length=(4.0, 5.0))))
    with pytest.raises(ConfigError, match=r"^world\.vessel\.m=\(300\.0, 400\.0\): must be one number"):
        ThrustController.from_world(WorldConfig(vessel=VesselConfig(m=(300.0, 400.0))))
