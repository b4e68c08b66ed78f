"""Seeds."""

import random

import numpy as np
import pytest
import torch

from marinenav_env import ConfigError, MarineNavEnv
from marinenav_env.support.seeds import as_seed
from tests.marinenav_env.env_helpers import equal, make

REFUSED = [-1, 2**64, True, np.True_, 1.0, np.float64(1.0), "1", [1], np.array([1, 2])]


@pytest.mark.parametrize("seed", [np.int64(7), np.uint8(7), np.array(7), torch.tensor(7)], ids=lambda seed: repr(seed))
def test_whole_numbers_of_any_kind_are_seeds(seed):
    assert as_seed(seed) == 7
    expected = make(seed=7).reset()
    assert equal(make(seed=seed).reset(), expected)
    env = make()
    env.set_seed(seed)
    assert equal(env.reset(), expected)


@pytest.mark.parametrize("seed", REFUSED, ids=repr)
def test_anything_else_is_refused_in_a_sentence(seed):
    message = r"^seed=.*: must be a whole number from 0 to 2\^64 - 1$"
    env = make()
    for door in (as_seed, lambda given: MarineNavEnv(seed=given), env.set_seed):
        with pytest.raises(ConfigError, match=message):
            door(seed)


def test_drawn_seeds_differ_whatever_the_generators_are_seeded_with():
    drawn = set()
    for _ in range(3):
        random.seed(0), np.random.seed(0), torch.manual_seed(0)
        before = torch.get_rng_state(), random.getstate()
        drawn.add(as_seed(None))
        assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]
    assert len(drawn) == 3 and all(0 <= seed < 2**63 for seed in drawn)
