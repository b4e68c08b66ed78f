"""An agent as a user may write it: continuous, off-policy, linear, and without any extras."""

from dataclasses import dataclass

import torch
from torch import nn

from train_RL_agents.agents import Agent, AgentConfig
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import call_with_frozen_parameters


@dataclass(frozen=True)
class OwnConfig(AgentConfig):
    """Settings."""

    steepness: float = 2.0
    """Factor before the tanh of the actor."""


class Linear(ObservationNetwork):
    """Numbers that are linear in the encoded observation, and perhaps in an action."""

    def __init__(self, config, spec, inputs, outputs):
        super().__init__(config, spec)
        self.layer = nn.Linear(self.encoded_width + inputs, outputs)

    def forward(self, observation, *more):
        return self.layer(torch.cat((self.encode(observation), *more), -1))


class OwnAgent(Agent):
    """Deterministic policy gradients with the least that the contract asks for."""

    config_type = OwnConfig
    continuous = True
    output_meanings = {"command": "left and right command before tanh"}  # noqa: RUF012
    selection_rule = "tanh of the command"

    def __init__(self, config, num_actions=25, spec=None):
        super().__init__(config, num_actions, spec)
        self.networks["actor"] = Linear(config, self.spec, 0, 2)
        self.networks["critic"] = Linear(config, self.spec, 2, 1)
        self.make_targets("actor", "critic")

    def outputs(self, observation, risk=None):
        return {"command": self.config.steepness * self.networks["actor"](observation)}

    def select(self, outputs):
        return torch.tanh(outputs["command"])

    def loss(self, batch, noise):
        with torch.no_grad():
            command = self.config.steepness * self.targets["actor"](batch.next_observation)
            following = self.targets["critic"](batch.next_observation, torch.tanh(command))
            target = batch.reward + batch.discount * following.squeeze(-1)
        value = self.networks["critic"](batch.observation, batch.action).squeeze(-1)
        action = self.act(batch.observation)
        judged = call_with_frozen_parameters(self.networks["critic"], batch.observation, action)
        return {
            "loss_critic": (value - target).square().mean(),
            "loss_actor": -judged.mean(),
            "value": value.mean(),
            "target": target.mean(),
        }
