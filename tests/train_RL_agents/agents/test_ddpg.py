"""DDPG: targets, losses and gradients against numbers worked out by hand."""

import math

import pytest
import torch

from tests.train_RL_agents.agents.helpers import Constant, Formula, always, batch_of
from train_RL_agents.agents.ddpg import DDPG, DDPGConfig

close = pytest.approx


def agent_with(actor, critics, targets=None, **settings):
    agent = DDPG(DDPGConfig(critics=len(critics), **settings))
    agent.networks["actor"] = agent.targets["actor"] = Constant(*actor)
    for index, each in enumerate(critics):
        agent.networks[f"critic_{index}"] = each
        agent.targets[f"critic_{index}"] = targets[index] if targets else each
    return agent


def test_losses_of_scalar_critics():
    agent = agent_with(
        (0.0, 0.0),
        [Formula(lambda left, right: left + 10.0 * right), always(4.0)],
        [always(7.0), always(3.0)],
        critic="scalar",
    )
    batch = batch_of([1.0, -2.0], [0.5, 0.0], [[0.5, 0.25], [-0.5, 0.1]])
    losses = agent.loss(batch, torch.zeros(2, 2))
    # The lower target says 3: targets are 1 + 0.5 x 3 and -2; the critics say 3, 0.5 and 4, 4.
    assert losses["target"].item() == close((2.5 - 2.0) / 2)
    assert losses["value"].item() == close((3.0 + 0.5) / 2)
    first, second = (0.5**2 + 2.5**2) / 4, (1.5**2 + 6.0**2) / 4
    assert losses["loss_critic"].item() == close(first + second)


def test_losses_of_quantile_critics():
    agent = agent_with((0.0, 0.0), [always(1.0, 6.0)], [always(9.0, 2.0)],
                       quantiles=2, dropped=1, kappa=2.0)  # fmt: skip
    losses = agent.loss(batch_of([1.0], [0.5], [[0.0, 0.0]]), torch.zeros(1, 2))
    assert losses["target"].item() == close(1.0 + 0.5 * 2.0)
    # Errors 1 and -4 at the fractions 1/4 and 3/4; the second is beyond kappa.
    expected = (0.25 * 0.5 * 1.0 + 0.25 * 2.0 * (4.0 - 1.0)) / 2.0
    assert losses["loss_critic"].item() == close(expected)
    assert losses["value"].item() == close(3.5)


def test_noise_on_target_actions_is_scaled_and_clipped():
    agent = agent_with(
        (0.2, -0.9), [Formula(lambda left, right: left + 10.0 * right)], critic="scalar", target_noise=0.2
    )

    def target(*noise):
        return agent.loss(batch_of([0.0], [1.0], [[0.0, 0.0]]), torch.tensor([noise]))["target"]

    assert target(0.0, 0.0).item() == close(0.2 - 9.0)
    assert target(1.0, 2.0).item() == close(0.4 - 5.0)
    assert target(-1.0, -1.0).item() == close(0.0 - 10.0)  # the action ends at -1
    assert target(6.0, 0.0).item() == close(0.7 - 9.0)  # the noise at 0.5
    assert target(-6.0, 0.0).item() == close(-0.3 - 9.0)
    agent.targets["actor"] = Constant(0.9, 0.0)
    assert target(2.0, 0.0).item() == close(1.0)  # the action ends at 1


def test_actor_climbs_the_first_critic_and_pays_for_saturation():
    peak = Formula(lambda left, right: 3.0 - (left - 0.75) ** 2 - (right + 0.25) ** 2)
    agent = agent_with(
        (0.5, 0.0), [peak, Formula(lambda left, right: -100.0 * left)], critic="scalar", saturation_penalty=0.1
    )
    losses = agent.loss(batch_of([0.0, 0.0], [0.0, 0.0], [[0.0, 0.0]] * 2), torch.zeros(2, 2))
    # tan(pi / 4) = 1 becomes action 0.5: mean square of 1 and 0.
    assert losses["loss_actor"].item() == close(0.1 * 0.5 - (3.0 - 0.0625 - 0.0625))
    losses["loss_actor"].backward()
    slope = 2.0 / math.pi * torch.tensor([0.5, 1.0])  # of (2 / pi) atan at 1 and 0
    expected = torch.tensor([-0.5, 0.5]) * slope + 0.1 * torch.tensor([1.0, 0.0])
    torch.testing.assert_close(agent.networks["actor"].before.grad, expected)
    assert all(agent.networks[name].factor.grad is None for name in agent.critics)
