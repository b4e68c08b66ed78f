"""Currents near a square island against the oracle; in open water test_dynamics compares them."""

from dataclasses import replace

import pytest
import torch

from marinenav_env.env import MarineNavEnv
from marinenav_env.physics.current import current_share, current_velocity
from tests.marinenav_env.helpers import simple_episode
from tests.oracle.current import current_at
from tests.oracle.shores import distance

ISLAND = [[20.0, 20.0, 20.0, 30.0], [20.0, 30.0, 30.0, 30.0], [30.0, 30.0, 30.0, 20.0], [30.0, 20.0, 20.0, 20.0]]
CORES = [[18.0, 25.0, 9.4], [40.0, 26.0, -5.0]]


def share_at(x, y):
    """The share that the island leaves: it grows to all in 5 m, ten radii of a core."""
    on_land = 20.0 < x < 30.0 and 20.0 < y < 30.0
    return 0.0 if on_land else min(1.0, min(distance((x, y), segment) for segment in ISLAND) / 5.0)


def test_currents_fade_near_land_and_never_enter_it():
    shores = torch.tensor([ISLAND], dtype=torch.float64)
    places = 15.0 + 20.0 * torch.rand(1, 500, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    cores, radius = torch.tensor([CORES], dtype=torch.float64), torch.tensor([0.5], dtype=torch.float64)
    share = current_share(places, shores, cores[..., :2], radius)
    flow = torch.stack(current_velocity(*places.unbind(-1), cores[..., :2], cores[..., 2], radius, share), -1)
    known = [(x, y, turn > 0.0, abs(turn)) for x, y, turn in CORES]
    for (x, y), found in zip(places[0].tolist(), flow[0].tolist(), strict=True):
        expected = [share_at(x, y) * each for each in current_at(x, y, known, 0.5)]
        assert found == pytest.approx(expected, abs=1e-12)
    assert 0.1 < (share == 0.0).double().mean() < 0.9 and (share == 1.0).any()
    assert current_share(places, None, cores[..., :2], radius) is None
    assert current_share(places, shores, cores[:, :0, :2], radius) is None


def test_a_vessel_drifts_with_what_land_leaves():
    episode = replace(simple_episode([(17.0, 25.0, 0.0)], [(17.0, 60.0)]), cores=CORES, shores=ISLAND)
    velocities = []
    for each in (episode, replace(episode, shores=[])):
        env = MarineNavEnv(scenarios=[each], dtype=torch.float64, seed=0)
        env.reset()
        velocities.append(env.state.velocity_ground[0, 0, :2] - env.state.velocity_water[0, 0, :2])
    assert velocities[0] == pytest.approx(share_at(17.0, 25.0) * velocities[1])
