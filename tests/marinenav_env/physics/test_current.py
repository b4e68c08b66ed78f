"""The current against the oracle."""

import random

import pytest
import torch

from marinenav_env.physics.current import current_velocity
from tests.marinenav_env.helpers import oracle_cores, random_episode
from tests.oracle.current import current_at


@pytest.mark.parametrize("shared_radius", [False, True])
def test_equals_the_oracle_inside_and_outside_of_cores(shared_radius):
    rng, envs, points, slots = random.Random(0), 20, 12, 6
    episodes = [random_episode(rng, 1, 0, rng.randint(0, slots)) for _ in range(envs)]
    radii = [1.5 if shared_radius else episode.world.scenario.core_radius for episode in episodes]
    vortices = torch.tensor(
        [[*episode.cores, *[[9.0, 9.0, 0.0]] * (slots - len(episode.cores))] for episode in episodes],
        dtype=torch.float64,
    )
    generator = torch.Generator().manual_seed(0)
    at = torch.rand(envs, points, 2, generator=generator, dtype=torch.float64) * 30.0
    at[:, :slots] = vortices[..., :2] + 2.0 * torch.rand(envs, slots, 2, generator=generator, dtype=torch.float64)
    at[:, 0] = vortices[:, 0, :2]  # the very centre
    distance = torch.linalg.vector_norm(at[:, :, None] - vortices[:, None, :, :2], dim=-1)
    inside = (distance < torch.tensor(radii, dtype=torch.float64)[:, None, None]) & (vortices[:, None, :, 2] != 0.0)
    assert inside.any() and not inside.all()

    core_radius = torch.tensor(radii[:1] if shared_radius else radii, dtype=torch.float64)
    got = torch.stack(current_velocity(at[..., 0], at[..., 1], vortices[..., :2], vortices[..., 2], core_radius), -1)
    expected = [
        [current_at(x, y, oracle_cores(episode), radius) for x, y in row]
        for row, episode, radius in zip(at.tolist(), episodes, radii, strict=True)
    ]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=0)
