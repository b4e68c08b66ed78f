"""The observation entry ``shore``, what land hides, and the scan of land: against the oracle and by hand."""

import math
from dataclasses import replace

import pytest
import torch

from marinenav_env import MarineNavEnv, WorldConfig, observation_entries
from marinenav_env.config import ScenarioConfig
from marinenav_env.physics.shores import SHORE_SLOTS
from tests.marinenav_env.helpers import QUIET, simple_episode
from tests.oracle import shores as oracle

WALL = [[20.0, 0.0, 20.0, 30.0], [20.0, 30.0, 20.0, 0.0]]
"""A wall from west to east, north of a vessel."""


def world_with(shores, poses, obstacles=(), **sensor):
    """A world with shores and vessels that are at their goals, which must be on water, in float64."""
    episode = simple_episode(poses, [(x, y) for x, y, _ in poses], obstacles, replace(QUIET, **sensor))
    episode = replace(episode, shores=shores, route=[[] for _ in poses])
    return MarineNavEnv(WorldConfig(sensor=episode.world.sensor), scenarios=[episode], dtype=torch.float64)


def test_rows_equal_the_oracle():
    generator = torch.Generator().manual_seed(5)
    begin = 55.0 * torch.rand(40, 2, generator=generator, dtype=torch.float64)
    shores = torch.cat((begin, begin + 8.0 * torch.randn(40, 2, generator=generator, dtype=torch.float64)), -1).tolist()
    x, y, heading = 30.0, 25.0, 0.7
    shores = [each for each in shores if oracle.distance((x, y), each) > 3.0]
    # Their land is on the other side.
    shores = [each if oracle.side((x, y), each[:2], each[2:]) < 0.0 else each[2:] + each[:2] for each in shores]
    env = world_with(shores, [(x, y, heading)])
    seen = env.reset()["robots", "observation"]
    near = [each for each in oracle.nearest((x, y), shores, SHORE_SLOTS) if oracle.distance((x, y), each) <= 20.0]
    assert seen["shore_mask"][0, 0].sum() == len(near)
    for row, segment in zip(seen["shore"][0, 0].tolist(), near, strict=False):
        places = [*oracle.cut((x, y), segment, 20.0)]
        nearest = oracle.nearest_point((x, y), segment)
        places.append([nearest[0] - x, nearest[1] - y])
        cos, sin = math.cos(heading), math.sin(heading)
        expected = [value for north, east in places for value in (cos * north + sin * east, cos * east - sin * north)]
        assert row == pytest.approx([*expected, oracle.distance((x, y), segment)], abs=1e-6)


def test_the_entry_is_there_with_room_for_shores_only():
    assert "shore" not in observation_entries()
    entries = observation_entries(WorldConfig(scenario=ScenarioConfig(shore_segments=64)))
    assert entries["shore"].mask == "shore_mask"
    assert entries["shore"].shape == (SHORE_SLOTS, 7)


@pytest.mark.parametrize(("east", "hidden"), [(10.0, True), (40.0, False)])
def test_land_hides_what_is_behind_it(east, hidden):
    poses = [(15.0, east, 0.0), (27.0, east, 0.0)]
    for sees_through in (False, True):
        env = world_with(WALL, poses, [(30.0, east, 1.0)], sees_through_land=sees_through)
        seen = env.reset()["robots", "observation", "objects_mask"][0, 0]
        assert seen.sum() == (0 if hidden and not sees_through else 2)


def test_the_scan_measures_land():
    env = world_with(WALL, [(10.0, 10.0, 0.0)], scan_beams=4, scan_std=0.0)
    scan = env.reset()["robots", "observation", "scan"][0, 0].tolist()  # ahead to port, and so on
    ahead = 10.0 * math.sqrt(2.0)
    assert scan == pytest.approx([20.0, ahead, ahead, 20.0], abs=1e-6)
