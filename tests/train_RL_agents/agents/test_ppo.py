"""PPO against numbers worked out by hand."""

import math

import pytest
import torch

from tests.train_RL_agents.agents.helpers import scripted
from train_RL_agents.agents.ppo import PPO, PPOConfig

close = pytest.approx


def scripted_ppo(ratios, advantages, values=(0.0,), targets=(0.0,), weights=None, **settings):
    """A PPO with two equally likely actions, whose probabilities changed by given ratios."""
    count = len(ratios)
    agent, batch = scripted(PPO(PPOConfig(**{"entropy": 0.0} | settings), 2), [0.0, 0.0], 0.0, count)
    before = math.log(0.5) - torch.tensor(ratios).log()
    return agent, batch._replace(
        action=torch.zeros(count, dtype=torch.int64),
        advantage=torch.tensor(advantages),
        target=torch.tensor(targets).expand(count),
        weight=torch.ones(count) if weights is None else torch.tensor(weights),
        progress=torch.zeros(()),
        extras={"log_prob": before, "value": torch.tensor(values).expand(count)},
    )


def test_losses_and_gradients_by_hand():
    """Ratios within and beyond the clip of 0.2; the last row does not count."""
    ratios, advantages = [0.5, 0.5, 1.1, 2.0, 2.0, 9.0], [1.0, -1.0, 2.0, 1.0, -1.0, 5.0]
    weights = [1.0] * 5 + [0.0]
    agent, batch = scripted_ppo(ratios, advantages, targets=(3.0,), weights=weights, value_coef=0.7, entropy=0.1)
    losses = agent.loss(batch, None)
    gain = (0.5 - 0.8 + 2.2 + 1.2 - 2.0) / 5
    assert losses["policy_gain"].item() == close(gain)
    assert losses["loss_policy"].item() == close(-gain - 0.1 * math.log(2.0))
    assert losses["loss_value"].item() == close(0.7 * 9.0)
    assert losses["clip_fraction"].item() == close(0.8)
    (losses["loss_policy"] + losses["loss_value"]).backward()
    network, moved = agent.networks["policy"], (0.5 + 2.2 - 2.0) / 5  # by rows that are not clipped
    assert network.outputs.grad.tolist() == close([-0.5 * moved, 0.5 * moved])
    assert network.value.grad.item() == close(0.7 * 2.0 * -3.0)


def test_metrics_for_the_log_by_hand():
    agent, batch = scripted_ppo([1.0, 2.0, 9.0], [1.0, 1.0, 1.0], weights=[1.0, 1.0, 0.0])
    losses = agent.loss(batch, None)
    assert losses["approx_kl"].item() == close((0.0 + 2.0 - 1.0 - math.log(2.0)) / 2)
    assert losses["clip_fraction"].item() == close(0.5)
    assert losses["entropy"].item() == close(math.log(2.0))


def test_beyond_the_target_divergence_the_policy_stays():
    """The value goes on learning."""
    for ratio, changes in ((1.05, True), (1.6, False)):
        agent, batch = scripted_ppo([ratio], [-1.0], targets=(3.0,), target_kl=0.05)
        losses = agent.loss(batch, None)
        assert (losses["approx_kl"].item() <= 0.05) == changes
        (losses["loss_policy"] + losses["loss_value"]).backward()
        network = agent.networks["policy"]
        assert bool(network.outputs.grad.any()) == changes
        assert network.value.grad.item() == close(0.5 * 2.0 * (0.0 - 3.0))
        # It is logged in any case.
        assert losses["policy_gain"].item() == close(-ratio)
    agent, batch = scripted_ppo([9.0], [-1.0])
    agent.loss(batch, None)["loss_policy"].backward()
    assert agent.networks["policy"].outputs.grad.any()  # no limit


def test_actions_that_were_replaced_cannot_spoil_the_loss():
    """An inactive robot gets another action than it drew: the ratio may be infinite."""
    agent, batch = scripted_ppo([1.0, 1.0], [1.0, 1.0], weights=[1.0, 0.0])
    batch.extras["log_prob"][1] = -300.0
    losses = agent.loss(batch, None)
    assert all(value.isfinite() for value in losses.values())
    losses["loss_policy"].backward()
    assert agent.networks["policy"].outputs.grad.isfinite().all()
