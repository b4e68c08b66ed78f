"""Running moments against those of all values at once."""

import pytest
import torch

from tests.train_RL_agents.helpers import seeded
from train_RL_agents.networks.normalization import RunningNorm, merge_moments


def empty(width=3):
    return torch.zeros(()), torch.zeros(width), torch.ones(width)


def values(*shape, seed=0):
    """Numbers whose columns differ in place and spread."""
    drawn = torch.randn(*shape, 3, generator=seeded(seed), dtype=torch.float64)
    return drawn * torch.tensor([1.0, 5.0, 0.1]) + torch.tensor([0.0, -3.0, 100.0])


def merged(parts, weights):
    moments = tuple(each.double() for each in empty())
    for part, weight in zip(parts, weights, strict=True):
        moments = merge_moments(*moments, part, weight)
    return moments


@pytest.mark.parametrize("sizes", [(50,), (1, 49), (20, 10, 20), (1,) * 50])
def test_moments_are_those_of_all_values(sizes):
    given = values(50)
    count, mean, variance = merged(given.split(sizes), torch.ones(50).double().split(sizes))
    expected = torch.var_mean(given, 0, correction=0)
    torch.testing.assert_close((variance, mean), expected)
    assert float(count) == 50.0


def test_values_of_weight_zero_do_not_count():
    given, weight = values(60), (torch.rand(60, generator=seeded(1)) < 0.6).double()
    junk = torch.where(weight[:, None] > 0.0, given, 1e6)
    count, mean, variance = merged(junk.split(20), weight.split(20))
    expected = torch.var_mean(given[weight > 0.0], 0, correction=0)
    torch.testing.assert_close((variance, mean), expected)
    assert float(count) == float(weight.sum())


def test_nothing_changes_nothing():
    before = merged([values(10)], [torch.ones(10).double()])
    after = merge_moments(*before, values(5, seed=1), torch.zeros(5).double())
    torch.testing.assert_close(after, before)
    nothing = merge_moments(*empty(), torch.zeros(4, 3), torch.zeros(4))
    assert all(each.isfinite().all() for each in nothing)
    first = merge_moments(*nothing, torch.ones(2, 3) * 7.0, torch.ones(2))
    torch.testing.assert_close(first[1], torch.full((3,), 7.0))


def test_module_shifts_scales_and_clips():
    norm, given = RunningNorm(3), values(200).float()
    assert torch.equal(norm(given[:, :1].expand(-1, 3)), given[:, :1].expand(-1, 3).clamp(-10, 10))
    norm.update(given.unflatten(0, (20, 10)), torch.ones(20, 10, dtype=torch.bool))
    got = norm(given)
    torch.testing.assert_close(got.mean(0), torch.zeros(3), atol=2e-3, rtol=0.0)
    torch.testing.assert_close(got.std(0, correction=0), torch.ones(3), atol=2e-3, rtol=0.0)
    assert norm(torch.full((1, 3), 1e6)).tolist() == [[10.0] * 3]


def test_state_is_saved_with_the_network():
    norm, other = RunningNorm(3), RunningNorm(3)
    norm.update(values(20).float(), torch.ones(20))
    other.load_state_dict(norm.state_dict())
    given = values(5, seed=2).float()
    assert torch.equal(norm(given), other(given))
    assert not list(norm.parameters())
