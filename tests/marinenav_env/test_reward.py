"""The reward against the oracle."""

import random

import pytest
import torch

from marinenav_env.reward import step_reward
from marinenav_env.state import Rules
from tests.oracle import reward as oracle

FIELDS = ("timestep_penalty", "COLREGs_penalty", "collision_penalty", "goal_reward", "core_radius")


@pytest.mark.parametrize("shared", [False, True])
def test_equals_the_oracle(shared: bool) -> None:
    rng, envs, robots = random.Random(0), 40, 5
    weights = [[rng.uniform(-10.0, 10.0) for _ in FIELDS] for _ in range(1 if shared else envs)]
    columns = torch.tensor(weights, dtype=torch.float64).unbind(-1)
    rules = Rules(**dict(zip(FIELDS, columns, strict=True)), batch_size=[len(weights)])
    generator = torch.Generator().manual_seed(0)
    before, after, phi = 50.0 * torch.rand(
        3, envs, robots, generator=generator, dtype=torch.float64
    )
    collided, arrived = torch.rand(2, envs, robots, generator=generator) < 0.5
    assert {(True, True), (True, False), (False, True), (False, False)} == set(
        zip(collided.flatten().tolist(), arrived.flatten().tolist(), strict=True)
    )
    got = step_reward(before - after, phi, collided, arrived, rules)
    for e in range(envs):
        own = weights[0 if shared else e]
        params = oracle.RewardParams(*own[:4])
        for r in range(robots):
            args = (x[e, r].item() for x in (before, after, phi, collided, arrived))
            assert float(got[e, r]) == pytest.approx(oracle.reward(*args, params), abs=1e-12)
