"""Contact against the oracle; that of a step, which does not depend on what is perceived, is in test_world.py."""

import torch

from marinenav_env.physics.contact import in_contact
from tests.marinenav_env.helpers import oracle_obstacles, random_world
from tests.oracle.contact import touches


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
