"""Scaling of losses for float16."""

import torch

from train_RL_agents.learning.loss_scale import LossScale

CPU = torch.device("cpu")


def test_the_factor_of_losses_is_halved_and_doubled():
    scale, weight = LossScale(CPU, interval=3), torch.zeros(2)
    norms = [torch.inf, 1.0, 1.0, torch.nan, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    factors = [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5, 0.5, 0.5, 1.0]
    for norm, factor in zip(norms, factors, strict=True):
        before = weight.clone()
        weight.add_(norm)
        scale.undo_if_not_finite([weight], [before], torch.tensor(norm))
        assert scale.factor == factor * 65_536.0
    assert weight.tolist() == [8.0, 8.0]


def test_the_factor_begins_and_grows_as_that_of_torch():
    scale, expected = LossScale(CPU), torch.amp.GradScaler("cpu")
    assert scale.factor == expected.get_scale()
    interval = expected.get_growth_interval()
    for count, factor in ((interval - 1, 1.0), (1, 2.0)):
        for _ in range(count):
            scale.undo_if_not_finite([], [], torch.ones(()))
        assert scale.factor == factor * expected.get_scale()


def test_the_factor_stays_within_its_bounds():
    scale = LossScale(CPU, interval=1)
    for norm, factors in (
        (1.0, [*(2.0**k for k in range(17, 25)), 2.0**24]),
        (torch.nan, [*(2.0**k for k in range(23, -1, -1)), 1.0]),
    ):
        for factor in factors:
            is_reported = norm == 1.0 or scale.factor == 1.0
            left = scale.undo_if_not_finite([], [], torch.tensor(norm))
            assert scale.factor == factor
            torch.testing.assert_close(left, torch.tensor(norm if is_reported else 0.0), equal_nan=True)
