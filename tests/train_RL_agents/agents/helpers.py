"""On-policy agents that always give the same."""

import torch
from torch import nn

from tests.train_RL_agents.helpers import make_rollout, seeded


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
