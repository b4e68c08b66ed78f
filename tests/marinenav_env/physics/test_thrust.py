import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.physics.thrust import ThrustController
from tests.oracle import behaviours as oracle

WORLD = WorldConfig()


def test_commands_equal_the_oracle():
    generator = torch.Generator().manual_seed(3)
    scale = torch.tensor([1.0, 1.0, 1.5, 0.5, 0.3, 400.0, 400.0], dtype=torch.float64)
    own = scale * torch.randn(300, 1, 7, generator=generator, dtype=torch.float64)
    wanted = torch.randn(300, 1, 2, generator=generator, dtype=torch.float64)
    wanted[::3] *= 0.05  # hardly any: then the bow hardly turns
    for vessel in (WORLD.vessel, VesselConfig(min_thrust=-300.0, max_thrust=350.0)):
        # Thrust may change by more at a time than the thrusters have.
        controller = ThrustController(vessel, 5.0)
        got = controller(own, wanted)
        for row in range(300):
            state, full = [0.0] * 6 + own[row, 0, 2:].tolist(), vessel.max_thrust_rate
            expected = oracle.commands(state, wanted[row, 0].tolist(), vessel, 5.0, full)
            assert (full * got[row, 0]).tolist() == pytest.approx(expected)


def test_vessels_of_one_controller_are_equal_in_what_it_uses():
    ThrustController.from_world(WorldConfig(vessel=VesselConfig(radius=(1.0, 2.0), length=(4.0, 5.0))))
    with pytest.raises(ConfigError, match=r"^world\.vessel\.m=\(300\.0, 400\.0\): must be one number"):
        ThrustController.from_world(WorldConfig(vessel=VesselConfig(m=(300.0, 400.0))))
