"""A2C against numbers worked out by hand."""

import math

import pytest
import torch

from tests.train_RL_agents.agents.helpers import scripted
from train_RL_agents.agents.a2c import A2C, A2CConfig

close = pytest.approx


def test_losses_by_hand():
    """Two actions with logits 0 and log 3 (chances 1/4 and 3/4), and a value of 2."""
    agent, batch = scripted(A2C(A2CConfig(entropy=0.1, value_coef=0.5), 2), [0.0, math.log(3.0)], 2.0)
    batch = batch._replace(
        action=torch.tensor([0, 1, 1]),
        advantage=torch.tensor([1.0, 2.0, 9.0]),
        target=torch.tensor([3.0, 0.0, 9.0]),
        weight=torch.tensor([1.0, 1.0, 0.0]),
        progress=torch.zeros(()),
    )
    losses = agent.loss(batch, None)
    gain = (math.log(0.25) * 1.0 + math.log(0.75) * 2.0) / 2
    entropy = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75))
    assert losses["policy_gain"].item() == close(gain)
    assert losses["entropy"].item() == close(entropy)
    assert losses["loss_policy"].item() == close(-gain - 0.1 * entropy)
    assert losses["loss_value"].item() == close(0.5 * (1.0 + 4.0) / 2)
    assert losses["value"].item() == close(2.0)
