"""DQN: a value per discrete action (Mnih et al. 2015), with the usual improvements as options.

Options: double targets (van Hasselt et al. 2016), dueling heads (Wang et al. 2016), the smaller
of twin target values (Fujimoto et al. 2018).
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from train_RL_agents.agents.agent_configs import DQNConfig
from train_RL_agents.agents.base import Agent
from train_RL_agents.agents.batches import Batch, Losses
from train_RL_agents.agents.losses import half_mse_loss, td_target
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import dueling_values, ensemble_outputs
from train_RL_agents.networks.observation import Observation, ObservationSpec


class ValueNetwork(ObservationNetwork):
    """Network that returns the values of all discrete actions."""

    def __init__(self, config: DQNConfig, num_actions: int, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        width = self.add_hidden(self.encoded_width, config.hidden_sizes, config.layer_norm)
        self.output_layer = nn.Linear(width, num_actions)
        self.value_layer = nn.Linear(width, 1) if config.dueling else None

    def forward(self, observation: Observation) -> Tensor:
        """Return the values [B, A] of observations [B]."""
        return dueling_values(self.trunk(self.encode(observation)), self.output_layer, self.value_layer)


class DQN(Agent[DQNConfig]):
    """Deep Q-network agent."""

    config_type = DQNConfig
    continuous = False
    output_meanings: ClassVar[dict[str, str]] = {"values": "value of each action (scaled reward)"}
    selection_rule = "the index of the highest value"

    def build(self) -> None:
        """Create the value networks and their targets."""
        for index in range(self.config.critics):
            self.networks[f"critic_{index}"] = ValueNetwork(self.config, self.num_actions, self.spec)
        self.make_targets(*self.networks)

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the values [B, A], averaged over the critics; risk does not apply."""
        return {"values": self._average_values(observation)}

    def scores(self, outputs: dict[str, Tensor]) -> Tensor:
        """Return the values [B, A] of the actions."""
        return outputs["values"]

    def loss(self, batch: Batch, noise: Any) -> Losses:
        """Return half the mean squared temporal-difference error, summed over the critics; noise is not used."""
        batch = self.share_geometry(batch)
        with torch.no_grad():
            target = torch.stack(ensemble_outputs([*self.targets.values()], batch.next_observation))
            chooser = self._average_values(batch.next_observation) if self.config.double else target.mean(0)
            choice = chooser.argmax(-1, keepdim=True)
            next_value = target.amin(0).gather(-1, choice).squeeze(-1)
            targets = td_target(batch.reward, batch.discount, next_value)
        chosen = [
            values.gather(-1, batch.action[:, None]).squeeze(-1)
            for values in ensemble_outputs([*self.networks.values()], batch.observation)
        ]
        loss = torch.stack([half_mse_loss(values, targets) for values in chosen]).sum()
        return {"loss": loss, "value": chosen[0].mean(), "target": targets.mean()}

    def _average_values(self, observation: Observation) -> Tensor:
        """Return the values [B, A] of all actions, averaged over the networks."""
        return torch.stack(ensemble_outputs([*self.networks.values()], observation)).mean(0)
