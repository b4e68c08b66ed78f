"""Thrusters and motion against the oracle."""

import math

import pytest
import torch

from marinenav_env.physics import dynamics
from tests.marinenav_env.helpers import oracle_cores, oracle_states, oracle_vessel, random_world
from tests.oracle import dynamics as oracle

SIZES = [(4, 0, 3), (3, 0, 2), (4, 0, 0), (1, 0, 1)] * 6


@pytest.fixture(scope="module")
def world():
    return random_world(0, SIZES, size=12.0, inactive=0.0)


def each_robot(world):
    return [(e, r) for e, episode in enumerate(world.episodes) for r in range(len(episode.start))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wrapping_is_half_open(dtype):
    turns = 2.0 * math.pi * torch.arange(-5, 6, dtype=dtype)
    far = torch.full_like(turns, 1e9)
    near = [torch.nextafter(turns, far), torch.nextafter(turns, -far)]
    tiny = torch.tensor([-1e-300, -1e-30, -1e-9], dtype=dtype)
    angle = torch.cat((turns, *near, turns + math.pi, turns - math.pi, tiny))
    two_pi = dynamics.wrap_to_two_pi(angle)
    assert (two_pi >= 0.0).all() and (two_pi < 2.0 * math.pi).all()
    pi = dynamics.wrap_to_pi(angle)
    assert (pi >= -math.pi).all() and (pi < math.pi).all()


@pytest.mark.parametrize("newton", [0.0, 200.0])
def test_control_step_equals_the_oracle(world, newton):
    """Also under forces of wind and waves."""
    state, vessel = world.state, world.parameters.vessel
    generator = torch.Generator().manual_seed(1)
    rates = 4000.0 * torch.rand(*state.thrust.shape, generator=generator, dtype=torch.float64) - 2000.0
    episode = world.episodes[0]
    core_radius = world.parameters.rules.core_radius
    force = newton * torch.randn(3, *state.active.shape, generator=generator, dtype=torch.float64)
    moved = dynamics.move_ideal_vessels(
        state,
        rates,
        world.scenario,
        vessel,
        core_radius,
        episode.world.dt,
        episode.world.substeps,
        (force[0], force[1], force[2]) if newton else None,
    )
    got = torch.cat(moved, -1)
    thrust = moved[3]
    assert (thrust == vessel.min_thrust[..., None]).any()
    assert (thrust == vessel.max_thrust[..., None]).any()
    before = [oracle_states(state[e]) for e in range(len(world.episodes))]
    for e, i in each_robot(world):
        episode = world.episodes[e]
        expected = oracle.control_step(
            before[e][i],
            oracle_vessel(episode, i),
            tuple(rates[e, i].tolist()),
            oracle_cores(episode),
            episode.world.scenario.core_radius,
            force[:, e, i].tolist(),
        )
        assert got[e, i].tolist() == pytest.approx(expected, abs=1e-10)
