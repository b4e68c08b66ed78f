"""Losses against numbers worked out by hand, slow scalar code and TorchRL's own functions."""

import math

import pytest
import torch

from tests.train_RL_agents.agents.helpers import scalar_quantile_huber
from tests.train_RL_agents.helpers import seeded
from train_RL_agents.agents.losses import half_mse_loss, project_categorical_targets, quantile_huber_loss, td_target

close = pytest.approx


@pytest.mark.parametrize("own_taus", [False, True])
@pytest.mark.parametrize("kappa", [0.3, 1.0])
def test_quantile_huber_against_scalar_code(own_taus, kappa):
    generator = seeded(3)
    quantiles = torch.randn(4, 3, generator=generator)
    targets = torch.randn(4, 5, generator=generator)
    taus = torch.rand(*((4, 3) if own_taus else (3,)), generator=generator)
    expected = scalar_quantile_huber(quantiles.tolist(), targets.tolist(), taus.tolist(), kappa)
    got = quantile_huber_loss(quantiles, targets, taus, kappa)
    assert float(got) == close(expected, rel=1e-5)


def test_gradient_of_the_quantile_loss_reaches_quantiles_only_through_the_error():
    quantiles = torch.tensor([[0.0]], requires_grad=True)
    quantile_huber_loss(quantiles, torch.tensor([[5.0]]), torch.tensor([0.3])).backward()
    assert quantiles.grad.item() == close(-0.3)  # linear part: slope tau, upwards


def scalar_projection(reward, discount, probabilities, support):
    """Algorithm 1 of Bellemare et al. (2017), atom by atom."""
    step = (support[-1] - support[0]) / (len(support) - 1)
    result = [0.0] * len(support)
    for probability, atom in zip(probabilities, support, strict=True):
        moved = min(max(reward + discount * atom, support[0]), support[-1])
        for i, near in enumerate(support):
            result[i] += probability * max(0.0, 1.0 - abs(moved - near) / step)
    return result


def test_categorical_targets_against_scalar_code():
    generator, support = seeded(2), torch.linspace(-2.0, 3.0, 11)
    reward = 3.0 * torch.randn(40, generator=generator)
    reward[:4] = torch.tensor([0.0, 0.5, -9.0, 9.0])  # on an atom, and outside
    discount = torch.rand(40, generator=generator) * (torch.arange(40) % 3 > 0)
    probabilities = torch.rand(40, 11, generator=generator).softmax(-1)
    got = project_categorical_targets(reward, discount, probabilities, support)
    rows = zip(reward.tolist(), discount.tolist(), probabilities.tolist(), strict=True)
    expected = torch.tensor([scalar_projection(*row, support.tolist()) for row in rows])
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0.0)
    torch.testing.assert_close(got.sum(-1), torch.ones(40))
    # A terminal reward on an atom is all mass on that atom.
    assert got[0].tolist() == close([0.0] * 4 + [1.0] + [0.0] * 6, abs=1e-5)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_categorical_targets_of_a_reward_that_is_not_finite_raise_no_error(value):
    """It is told with the log; NaN makes its own targets NaN, infinity is the last atom."""
    support = torch.linspace(-1.0, 2.0, 4)
    probabilities = torch.rand(2, 4).softmax(-1)
    reward, discount = torch.tensor([value, 0.5]), torch.ones(2)
    spoilt, other = project_categorical_targets(reward, discount, probabilities, support)
    (alone,) = project_categorical_targets(reward[1:], discount[1:], probabilities[1:], support)
    assert torch.equal(other, alone)
    if math.isnan(value):
        assert spoilt.isnan().any()
    else:
        assert spoilt[-1 if value > 0.0 else 0] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("function", "shapes", "name"),
    [
        (td_target, [(3, 1), (3,), (3,)], "reward"),
        (td_target, [(3,), (4,), (3,)], "discount"),
        (td_target, [(3,), (3,), (4, 2)], "next_value"),
        (half_mse_loss, [(3,), (3, 1)], "targets"),
        (quantile_huber_loss, [(4, 2), (3, 5), (2,)], "targets"),
        (quantile_huber_loss, [(4, 2), (4, 5), (4, 3)], "taus"),
        (project_categorical_targets, [(3, 1), (3,), (3, 4), (4,)], "reward"),
        (project_categorical_targets, [(3,), (2,), (3, 4), (4,)], "discount"),
        (project_categorical_targets, [(3,), (3,), (3, 4), (5,)], "support"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(function, shapes, name):
    with pytest.raises(ValueError, match=name):
        function(*map(torch.ones, shapes))
