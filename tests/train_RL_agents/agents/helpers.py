"""Networks that are formulas, agents that always give the same, and batches by hand."""

import math

import torch
from torch import nn

from tests.train_RL_agents.helpers import make_rollout, make_transitions, seeded
from train_RL_agents.agents.batches import Batch
from train_RL_agents.agents.ddpg import DDPG, DDPGConfig
from train_RL_agents.networks.layers import squash


class Script(nn.Module):
    """The same outputs and value everywhere."""

    def __init__(self, outputs, value):
        super().__init__()
        self.outputs = nn.Parameter(torch.tensor(outputs))
        self.value = nn.Parameter(torch.tensor(value))

    def forward(self, observation):
        shape = observation["self_state"].shape[:-1]
        return self.policy(observation)[0], self.value.expand(shape), None

    def policy(self, observation):
        return self.outputs.expand(*observation["self_state"].shape[:-1], -1), None


def scripted(agent, outputs, value, count=3):
    """An agent that always gives the same, and a batch of it."""
    agent.networks["policy"] = Script(outputs, value)
    batch = make_rollout(agent, count, generator=seeded())
    return agent, batch


def scalar_quantile_huber(quantiles, targets, taus, kappa):
    """Equation 3 of Dabney et al. (2018), one pair of fraction and sample at a time."""
    total = 0.0
    for b, row in enumerate(quantiles):
        for i, quantile in enumerate(row):
            tau = taus[b][i] if isinstance(taus[0], list) else taus[i]
            for target in targets[b]:
                delta = target - quantile
                huber = 0.5 * delta * delta if abs(delta) <= kappa else kappa * (abs(delta) - 0.5 * kappa)
                below = 1.0 if delta < 0.0 else 0.0
                total += abs(tau - below) * huber / kappa / len(targets[b])
    return total / len(quantiles)


class Constant(nn.Module):
    """An actor that always does the same."""

    def __init__(self, left, right):
        super().__init__()
        # What becomes the action in (2 / pi) atan.
        self.before = nn.Parameter(torch.tan(0.5 * math.pi * torch.tensor([left, right])))

    def pre_activation(self, observation):
        return self.before.expand(*observation["self_state"].shape[:-1], 2)

    def forward(self, observation):
        return squash(self.pre_activation(observation))


def states(*numbers):
    own = torch.zeros(len(numbers), 7)
    own[:, 0] = torch.tensor(numbers)
    return {
        "self_state": own,
        "objects_state": torch.zeros(len(numbers), 5, 5),
        "objects_mask": torch.zeros(len(numbers), 5, dtype=torch.bool),
    }


def transition(reward=1.0, discount=0.5):
    """From state 0 with action 1 to state 1."""
    return Batch(states(0.0), torch.tensor([1]), torch.tensor([reward]), torch.tensor([discount]), states(1.0))


class Formula(nn.Module):
    """A critic whose outputs are formulas of the action."""

    def __init__(self, *formulas):
        super().__init__()
        self.formulas, self.factor = formulas, nn.Parameter(torch.ones(()))

    def forward(self, observation, action=None):
        if action is None:
            return observation["self_state"]
        left, right = action.unbind(-1)
        found = [formula(left, right) + 0.0 * left for formula in self.formulas]
        return self.factor * torch.stack(found, -1)


def always(*values):
    return Formula(*(lambda left, right, value=value: value for value in values))


def batch_of(rewards, discounts, actions):
    batch = make_transitions(DDPG(DDPGConfig()), len(rewards), seeded())
    given = (torch.tensor(each) for each in (actions, rewards, discounts))
    return batch._replace(**dict(zip(("action", "reward", "discount"), given, strict=True)))
