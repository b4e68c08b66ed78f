"""Random numbers by counter: known answers, distributions, and independence."""

import itertools
import math

import pytest
import torch

from marinenav_env.runtime.philox import RandomSource, normal, philox
from tests.marinenav_env.helpers import CPU, ks_bound, ks_distance, normal_cdf

COUNT = 20_000


def of_hex(text):
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (" ".join(["ffffffff"] * 4), "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ],
)
def test_known_answers_of_random123(counter, key, expected):
    a, b, c, d = torch.tensor(of_hex(counter))
    lower, upper = torch.tensor(of_hex(key))
    assert [int(word) for word in philox((a, b, c, d), (lower, upper))] == of_hex(expected)


@pytest.mark.parametrize("seed", [0, 3, -1, 2**40 + 3, 2**63])
def test_every_seed_gives_others(seed):
    state = torch.get_rng_state()
    source, again = (RandomSource.from_seed(seed, 4, CPU) for _ in range(2))
    drawn = source.normal((4, 5), torch.float32)
    assert torch.equal(drawn, again.normal((4, 5), torch.float32))
    other = RandomSource.from_seed(seed + 2**32, 4, CPU).normal((4, 5), torch.float32)
    assert not (drawn == other).any()
    again.step.add_(7)
    again.reseed(seed)
    assert torch.equal(drawn, again.normal((4, 5), torch.float32))
    assert torch.equal(state, torch.get_rng_state())


def test_each_environment_may_have_a_step_of_its_own():
    source = RandomSource.from_seed(1, 4, CPU)
    steps = torch.tensor([5, 0, 2**32 - 1, 5])
    own = source._replace(step=steps)
    for row, step in enumerate(steps):
        alone = RandomSource.from_seed(1, 1, CPU, row)
        alone.step.fill_(step)
        for drawn, expected in zip(own.words(3), alone.words(3), strict=True):
            assert torch.equal(drawn[:, row], expected[:, 0])
        normals, few = (each.normal((len(each.environment), 5), torch.float64) for each in (own, alone))
        assert torch.equal(normals[row], few[0])
        assert own.randint(1000)[row] == alone.randint(1000)[0]
    some = torch.tensor([2, 0])
    assert torch.equal(own.select(some).randint(1000), own.randint(1000)[some])


def test_numbers_follow_from_counter_and_key():
    """Counter: number, environment, step, and 4 x purpose + 1, 2 or 3; key: the seed."""
    source = RandomSource.from_seed(9 * 2**32 + 3, 2, CPU, 7).with_purpose(5)
    source.step.fill_(6)
    key = torch.tensor(3), torch.tensor(9)
    for number, environment in itertools.product(range(3), range(2)):
        words, normals, uniforms = (
            philox((*map(torch.tensor, (number, environment + 7, 6, 20 + kind)),), key) for kind in (1, 2, 3)
        )
        drawn = source.words(3)
        assert [int(word[number, environment]) for word in drawn] == [*map(int, words)]
        found = source.uniform((2, 12), torch.float64)[environment, number::3]
        assert found.tolist() == [int(word >> 8) / 2**24 for word in uniforms]
        found = source.normal((2, 12), torch.float64)[environment, number::3]
        pairs = (*normal(*normals[:2], torch.float64), *normal(*normals[2:], torch.float64))
        assert found.tolist() == [float(each) for each in pairs]


def test_each_step_takes_the_next_source():
    source = RandomSource.from_seed(3, 2, CPU)
    taken = [source.take_step() for _ in range(3)]
    assert [each.step.tolist() for each in taken] == [[0, 0], [1, 1], [2, 2]] and int(source.step) == 3
    assert {name: each.tolist() for name, each in source.tensors_to_save().items()} == {"seed": [3, 0], "step": 3}
    source.reseed(4)
    assert int(source.step) == 0 and taken[2].step.tolist() == [2, 2]


def test_distributions_and_moments():
    source = RandomSource.from_seed(4, COUNT, CPU)
    normals, uniforms = (source.normal((COUNT, 4), torch.float64), source.uniform((COUNT, 4), torch.float64))
    for column in normals.T.numpy():
        assert ks_distance(column, normal_cdf) < ks_bound(COUNT)
    for column in uniforms.T.numpy():
        assert ks_distance(column, lambda x: x) < ks_bound(COUNT)
    size = normals.numel()
    for power, moment, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        error = float(normals.pow(power).mean()) - moment
        assert abs(error) < 4.0 * math.sqrt(variance / size), power
    assert abs(float(uniforms.mean()) - 0.5) < 4.0 * math.sqrt(1.0 / 12.0 / size)
    assert uniforms.min() >= 0.0 and uniforms.max() < 1.0


def test_whole_numbers_are_even_and_below_their_limit():
    source, size = RandomSource.from_seed(2**45 - 3, COUNT, CPU, 2**32 - COUNT).with_purpose(9), 7
    source.step.fill_(2**32 - 1)
    found = source.randint(size)
    share = torch.bincount(found, minlength=size) / COUNT
    assert len(share) == size
    assert (share - 1.0 / size).abs().max() < 4.5 * math.sqrt(1.0 / size / COUNT)
    few = source.select(torch.tensor([3, 0, COUNT - 1]))
    for limit in (1, size, 2**31):
        assert 0 <= source.randint(limit).min() <= source.randint(limit).max() < limit
    assert few.randint(size).tolist() == found[[3, 0, -1]].tolist()
    assert source.select(torch.tensor([], dtype=torch.int64)).randint(3).dtype == torch.int64
