"""Scaling of losses for float16."""

import torch

from train_RL_agents.learning.loss_scale import LossScale

CPU = torch.device("cpu")


def test_the_factor_of_losses_is_halved_and_doubled():
    scale, weight = LossScale(CPU, interval=3), torch.zeros(2)
    for norm, factor in zip([torch.inf, 1.0, 1.0, torch.nan, 1.0, 1.0, 1.0, 1.0],
                            [0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.5, 0.5], strict=True):  # fmt: skip
        before = weight.clone()
        weight.add_(norm)
        scale.undo([weight], [before], torch.tensor(norm))
        assert scale.factor == factor * 65_536.0
    assert weight.tolist() == [6.0, 6.0]
