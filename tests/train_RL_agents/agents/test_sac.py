"""SAC: targets, losses and the temperature against numbers worked out by hand."""

import math

import pytest
import torch
from torch import nn
from torch.distributions import Normal, TransformedDistribution

from tests.train_RL_agents.agents.helpers import Formula, always, batch_of
from tests.train_RL_agents.helpers import Atan, make_inputs, seeded
from train_RL_agents.agents.sac import SAC, SACConfig

close = pytest.approx
MEAN, LOG_STD = torch.tensor([0.3, -0.2]), torch.tensor([-1.0, 0.5])
NOISE = torch.tensor([[[0.5, -1.0], [0.0, 2.0]], [[-0.7, 0.1], [1.5, 0.4]]])
"""For the next and the present actions of two rows."""


class Gaussian(nn.Module):
    """An actor with one distribution."""

    def __init__(self):
        super().__init__()
        self.mean, self.log_std = nn.Parameter(MEAN.clone()), nn.Parameter(LOG_STD.clone())

    def forward(self, observation):
        shape = (*observation["self_state"].shape[:-1], 2)
        return self.mean.expand(shape), self.log_std.expand(shape)


def agent_with(critics, targets, **settings):
    agent = SAC(SACConfig(critics=len(critics), critic="scalar", **settings))
    agent.networks["actor"] = Gaussian()
    for index, each in enumerate(critics):
        agent.networks[f"critic_{index}"] = each
        agent.targets[f"critic_{index}"] = targets[index]
    return agent


def sampled(noise):
    """Actions and their log densities, by torch's distributions."""
    action = 2.0 / math.pi * torch.atan(MEAN + LOG_STD.exp() * noise)
    density = TransformedDistribution(Normal(MEAN, LOG_STD.exp()), [Atan()])
    return action, density.log_prob(action).sum(-1)


def weighted(left, right):
    return left + 10.0 * right


def test_losses_by_hand():
    agent = agent_with(
        [Formula(weighted), always(0.5)], [Formula(weighted), always(100.0)], temperature=0.1, target_entropy=-1.5
    )
    actions, discounts = torch.tensor([[0.5, 0.25], [-0.5, 0.1]]), torch.tensor([0.5, 0.9])
    batch = batch_of([1.0, -2.0], discounts.tolist(), actions.tolist())
    losses = agent.loss(batch, NOISE)
    (following, next_density), (own, density) = sampled(NOISE[0]), sampled(NOISE[1])
    target = batch.reward + discounts * (weighted(*following.T) - 0.1 * next_density)
    torch.testing.assert_close(losses["target"], target.mean())
    values = [weighted(*actions.T), torch.full((2,), 0.5)]
    expected = sum(0.5 * (value - target).square().mean() for value in values)
    torch.testing.assert_close(losses["loss_critic"], expected)
    torch.testing.assert_close(losses["value"], values[0].mean())
    lower = weighted(*own.T).clamp_max(0.5)
    assert (lower == 0.5).any() and (lower < 0.5).any()
    torch.testing.assert_close(losses["loss_actor"], (0.1 * density - lower).mean())
    surplus = (-density + 1.5).mean()
    torch.testing.assert_close(losses["loss_temperature"], math.log(0.1) * surplus)
    assert losses["temperature"].item() == close(0.1)


def test_quantile_critics_are_averaged_for_the_actor():
    agent = agent_with([always(1.0, 2.0, 6.0)], [always(0.0)], temperature=1e-9)
    losses = agent.loss(batch_of([0.0] * 2, [0.0] * 2, [[0.0, 0.0]] * 2), NOISE)
    assert losses["loss_actor"].item() == close(-3.0, abs=1e-6)


def test_acts_by_the_mean_and_explores_by_samples():
    agent = agent_with([always(0.0)], [always(0.0)])
    given = make_inputs(2, generator=seeded())
    expected = 2.0 / math.pi * torch.atan(MEAN).expand(2, 2)
    torch.testing.assert_close(agent.act(given).detach(), expected)
    outputs = agent.outputs(given)
    torch.testing.assert_close(outputs["log_sigma"].detach(), LOG_STD.expand(2, 2))
    torch.testing.assert_close(agent.explore(given, NOISE[0])[0].detach(), sampled(NOISE[0])[0])
    assert agent.output_networks() == ["actor"] and "actor" not in agent.targets
