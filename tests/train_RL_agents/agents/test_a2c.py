"""A2C against numbers worked out by hand and against TorchRL's loss."""

import math

import pytest
import torch
from torchrl.objectives import A2CLoss

from tests.train_RL_agents.agents.on_policy_oracle import (
    ACTIONS,
    oracle_data,
    oracle_networks,
    parameters_of,
    scripted,
)
from tests.train_RL_agents.helpers import make_rollout, seeded
from tests.train_RL_agents.learners import agent_of
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


def test_gradient_of_the_policy_by_hand():
    """The gradient of a log probability is one minus the probabilities."""
    agent, batch = scripted(A2C(A2CConfig(entropy=0.0), 2), [0.0, math.log(3.0)], 0.0)
    batch = batch._replace(
        action=torch.tensor([0]), advantage=torch.tensor([2.0]), target=torch.zeros(1), weight=torch.ones(1)
    )
    agent.loss(batch, None)["loss_policy"].backward()
    gradient = agent.networks["policy"].outputs.grad.tolist()
    assert gradient == close([-2.0 * 0.75, 2.0 * 0.75])


@pytest.mark.parametrize("actions", ACTIONS)
def test_losses_and_gradients_equal_torchrl(actions):
    agent = agent_of("A2C", actions=actions, entropy=0.02, entropy_final=0.02, value_coef=0.7)
    batch = make_rollout(agent, 48, generator=seeded())
    batch = batch._replace(weight=torch.ones(48))
    actor, critic = oracle_networks(agent)
    theirs = A2CLoss(actor, critic, entropy_coeff=0.02, critic_coeff=0.7, loss_critic_type="l2", functional=False)
    theirs.set_keys(value_target="target")
    expected, ours = theirs(oracle_data(agent, batch)), agent.loss(batch, None)
    torch.testing.assert_close(-ours["policy_gain"], expected["loss_objective"])
    torch.testing.assert_close(ours["loss_value"], expected["loss_critic"])
    policy = expected["loss_objective"]
    if actions != "gaussian":  # theirs draws samples of its own for the entropy of squashed ones
        torch.testing.assert_close(-0.02 * ours["entropy"], expected["loss_entropy"])
        policy = policy + expected["loss_entropy"]
        ours_policy = ours["loss_policy"]
    else:
        ours_policy = -ours["policy_gain"]
    parameters = parameters_of(agent)
    for one, other in ((ours_policy, policy), (ours["loss_value"], expected["loss_critic"])):
        got, wanted = (
            torch.autograd.grad(each, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
            for each in (one, other)
        )
        torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-6)
        assert any(each.any() for each in got)
