import math

import pytest
import torch

from marinenav_env import ConfigError, WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.physics.thrust import ThrustController

WORLD = WorldConfig()


def scalar_commands(own, wanted, vessel, seconds):
    """Commands for one vessel: yaw first, then as much of the surge as the thrusters have left."""
    u, v, r, left, right = own[2:]
    off = math.atan2(wanted[1] - 0.5 * v, wanted[0])
    speed = math.hypot(*wanted)
    off *= min(speed / 0.2, 1.0)
    yaw_rate = min(max(1.2 * off, -0.8), 0.8)
    surge = speed * max(math.cos(off), 0.0)
    force = (vessel.m - vessel.xDotU) * (surge - u) / 0.75
    force -= (vessel.xU + vessel.xUU * abs(u)) * u
    moment = (vessel.Izz - vessel.nDotR) * (yaw_rate - r) / 0.75
    moment -= (vessel.nR + vessel.nRR * abs(r)) * r
    least, most = vessel.min_thrust, vessel.max_thrust
    difference = min(max(2.0 * moment / vessel.width, least - most), most - least)
    total = max(force, 2.0 * least + abs(difference))
    total = min(total, 2.0 * most - abs(difference))
    change = vessel.max_thrust_rate * seconds
    sides = (((total + sign * difference) / 2.0 - now) / change for sign, now in ((1.0, left), (-1.0, right)))
    return [min(max(each, -1.0), 1.0) for each in sides]


def test_commands_equal_scalar_code():
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
            expected = scalar_commands(own[row, 0].tolist(), wanted[row, 0].tolist(), vessel, 5.0)
            assert got[row, 0].tolist() == pytest.approx(expected)


def test_vessels_of_one_controller_are_equal_in_what_it_uses():
    ThrustController.from_world(WorldConfig(vessel=VesselConfig(radius=(1.0, 2.0), length=(4.0, 5.0))))
    with pytest.raises(ConfigError, match=r"^world\.vessel\.m=\(300\.0, 400\.0\): must be one number"):
        ThrustController.from_world(WorldConfig(vessel=VesselConfig(m=(300.0, 400.0))))
