"""Contact against the oracle, and that it does not depend on what is perceived."""

import itertools

import torch

from marinenav_env import GROUP, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.config import SensorConfig, WeatherConfig
from marinenav_env.interfaces.scripted import write_actions
from marinenav_env.physics.contact import in_contact
from tests.marinenav_env.helpers import oracle_obstacles, random_world
from tests.oracle.contact import touches

BLIND = WorldConfig(sensor=SensorConfig(range=0.1, max_objects=1), weather=WeatherConfig(missed=1.0))
"""A world in which vessels perceive little of what they touch."""


def test_equals_the_oracle():
    world = random_world(0, [(5, 4, 0), (5, 0, 0), (3, 4, 0), (1, 2, 0), (1, 0, 0)] * 12, size=22.0)
    found = in_contact(world.state, world.scenario, world.parameters.vessel)
    expected = torch.zeros_like(found)
    for e, episode in enumerate(world.episodes):
        robots, obstacles = world.robots(e), oracle_obstacles(episode)
        for i in range(len(robots)):
            expected[e, i] = touches(i, robots, obstacles)
    assert torch.equal(found, expected)
    assert found.sum() > 20 and (world.state.active & ~found).sum() > 20


def test_both_vessels_of_every_touching_pair_collide():
    levels = Curriculum((Level(5, 0, 4, 30.0),), pool_size=32, refresh_size=32)
    env = MarineNavEnv(BLIND, 32, scenarios=levels, seed=0, dtype=torch.float64)
    step, reach, pairs = env.reset(), 2.0 * env.config.vessel.radius, 0
    for _ in range(40):
        active = env.state.active.clone()
        step = env.step(write_actions(step, env, "straight"))["next"].exclude((GROUP, "reward"))
        pose, collided = env.state.pose, env.outcome.collided
        for i, j in itertools.combinations(range(pose.shape[1]), 2):
            near = (pose[:, i, :2] - pose[:, j, :2]).norm(dim=-1) <= reach
            touching = near & active[:, i] & active[:, j]
            pairs += int(touching.sum())
            assert (collided[touching, i] & collided[touching, j]).all()
    assert pairs > 20
