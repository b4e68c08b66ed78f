"""Global random generators that belong to one environment."""

import random

import numpy as np
import pytest
import torch

from train_RL_agents.environments.global_random import GlobalRandomState


def drawn():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_a_seed_that_is_refused_leaves_the_program_its_own():
    state = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    with pytest.raises((RuntimeError, ValueError, OverflowError)), GlobalRandomState().activate(2**70):
        pass
    assert random.getstate() == state[0]
    assert np.random.get_state()[1].tolist() == state[1]
    assert torch.equal(torch.get_rng_state(), state[2])


def test_numbers_follow_from_the_seed_and_leave_the_program_its_own():
    state = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()
    first, second = GlobalRandomState(), GlobalRandomState()
    with first.activate(5):
        expected = [drawn() for _ in range(3)]
    with first.activate(5):
        got = [drawn()]
    with second.activate(6):
        assert not set(drawn()) & set(expected[0])
    for _ in range(2):
        with first.activate():
            got.append(drawn())
    assert got == expected
    assert random.getstate() == state[0]
    assert np.random.get_state()[1].tolist() == state[1]
    assert torch.equal(torch.get_rng_state(), state[2])
