"""PPO against numbers worked out by hand and against TorchRL's loss."""

import math

import pytest
import torch
from torchrl.objectives import ClipPPOLoss

from tests.train_RL_agents.agents.on_policy_oracle import (
    ACTIONS,
    assert_gradients_equal,
    oracle_data,
    oracle_networks,
    scripted,
)
from tests.train_RL_agents.helpers import make_rollout, seeded
from tests.train_RL_agents.learners import agent_of
from train_RL_agents.agents.ppo import PPO, PPOConfig

close = pytest.approx


def scripted_ppo(ratios, advantages, values=(0.0,), targets=(0.0,), weights=None, **settings):
    """A PPO with two equally likely actions, whose probabilities changed by given ratios."""
    count = len(ratios)
    agent, batch = scripted(PPO(PPOConfig(entropy=0.0, **settings), 2), [0.0, 0.0], 0.0, count)
    before = math.log(0.5) - torch.tensor(ratios).log()
    return agent, batch._replace(
        action=torch.zeros(count, dtype=torch.int64),
        advantage=torch.tensor(advantages),
        target=torch.tensor(targets).expand(count),
        weight=torch.ones(count) if weights is None else torch.tensor(weights),
        extras={"log_prob": before, "value": torch.tensor(values).expand(count)},
    )


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


@pytest.mark.parametrize("actions", ACTIONS)
def test_losses_and_gradients_equal_torchrl(actions):
    agent = agent_of("PPO", actions=actions, entropy=0.02, entropy_final=0.02, value_coef=0.7, clip=0.15)
    batch = make_rollout(agent, 48, generator=seeded())
    extras = dict(batch.extras)
    extras["log_prob"] = extras["log_prob"] + 0.2 * torch.randn(48, generator=seeded(5))
    extras["value"] = extras["value"] + 0.3 * torch.randn(48, generator=seeded(6))
    batch = batch._replace(weight=torch.ones(48), extras=extras)
    actor, critic = oracle_networks(agent)
    theirs = ClipPPOLoss(
        actor,
        critic,
        clip_epsilon=0.15,
        entropy_coeff=0.02,
        critic_coeff=0.7,
        loss_critic_type="l2",
        normalize_advantage=False,
        functional=False,
    )
    theirs.set_keys(value_target="target")
    expected, ours = theirs(oracle_data(agent, batch)), agent.loss(batch, None)
    torch.testing.assert_close(ours["clip_fraction"], expected["clip_fraction"])
    assert 0.1 < ours["clip_fraction"].item() < 0.9
    assert_gradients_equal(agent, ours, expected)
