"""The range scan: against the oracle, and the noise of a world that has one."""

import math
from dataclasses import replace

import pytest
import torch

from marinenav_env import Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import SensorConfig
from marinenav_env.env import GROUP
from marinenav_env.sensing.entries import Scene
from marinenav_env.sensing.range_scan import RangeScan, beam_angles, cast_rays
from tests.marinenav_env.helpers import oracle_obstacles, random_world
from tests.oracle import range_scan as oracle

SIZES = [(5, 4, 0), (5, 1, 0), (3, 4, 0), (2, 0, 0), (1, 2, 0)] * 6


@pytest.mark.parametrize(("beams", "field"), [(1, 0.5), (16, 2.0 * math.pi), (33, 3.0)])
def test_equals_the_oracle(beams, field):
    world = random_world(4, SIZES, size=25.0)
    angles, longest = beam_angles(beams, field), 12.0
    radius = world.parameters.vessel.radius
    got = cast_rays(world.state, world.scenario, radius, angles, longest)
    single = cast_rays(
        world.state.apply(lambda t: t.float() if t.is_floating_point() else t),
        world.scenario.apply(lambda t: t.float() if t.is_floating_point() else t),
        radius.float(),
        angles,
        longest,
    )
    assert got.shape == (*world.state.active.shape, beams) and single.dtype == torch.float32
    hits, inside, apart = 0, 0, 0
    for e, episode in enumerate(world.episodes):
        robots = world.robots(e)
        for i in range(len(robots)):
            args = (i, robots, oracle_obstacles(episode), beams, field, longest)
            expected = oracle.scan(*args)
            assert got[e, i].tolist() == pytest.approx(expected, abs=1e-9)
            hits += sum(0.0 < value < longest for value in expected)
            inside += expected == [0.0] * beams
            near = (single[e, i].double() - got[e, i]).abs() < 2e-3
            apart += int((~near).sum())
    assert hits >= 10 and inside > 2
    assert apart <= 0.001 * got.numel()  # rays that graze a disc


# In a world ---------------------------------------------------------------------------------------

LEVELS = Curriculum((Level(3, 0, 4, 20.0), Level(1, 0, 1, 20.0)), pool_size=64, refresh_size=64)


def world(**sensor):
    return WorldConfig(max_steps=50, sensor=SensorConfig(**sensor))


def test_a_scan_without_noise_is_what_the_rays_measure():
    config = world(scan_beams=9, scan_angle=4.0, scan_range=15.0, scan_std=0.0)
    env = MarineNavEnv(config, 16, scenarios=LEVELS, dtype=torch.float64, seed=0)
    entry = env.entries["scan"]
    assert (entry.kind, entry.shape, entry.scale) == ("scan", (9,), (15.0,))
    assert entry.limits == ((0.0, 15.0),)
    observed = env.reset()[GROUP, "observation", "scan"]
    radius = env.constants.vessel.radius
    expected = cast_rays(env.state, env.scenario, radius, beam_angles(9, 4.0), 15.0)
    present = env.scenario.robot_mask
    assert torch.equal(observed[present], expected[present])
    assert not observed[~present].any() and (~present).any()
    noisy = replace(config, sensor=replace(config.sensor, scan_std=0.5))
    scene = Scene(env.state, env.scenario, env.constants, noisy)
    farther = RangeScan().observe(scene, torch.ones_like(expected))
    assert torch.equal(farther, (expected + 0.5).clamp_max(15.0))
