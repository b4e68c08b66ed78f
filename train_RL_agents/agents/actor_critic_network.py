"""Networks of stochastic policies with a value function.

The value is a function of a robot's own observation, or of the observations of all active robots of its environment
(MAPPO, Yu et al. 2022).
"""

import math
from itertools import pairwise

import torch
from torch import Tensor, nn

from train_RL_agents.agents.agent_configs import ActorCriticConfig
from train_RL_agents.networks.encoder_config import EncoderConfig
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import init_orthogonal, to_float32
from train_RL_agents.networks.memory import MEMORY, STARTS, GRUMemory
from train_RL_agents.networks.observation import ACTIVE_KEY, Observation, ObservationSpec


class ActorCriticNetwork(ObservationNetwork):
    """Network with a shared encoder that returns parameters of the action distribution and the value of the state."""

    def __init__(self, config: ActorCriticConfig, num_actions: int, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        config = config.with_actions(num_actions)
        is_normal = config.actions != "categorical"
        size = spec.action_size
        outputs = size if is_normal else num_actions
        self.memory: GRUMemory | None = None
        if config.memory.kind == "gru":
            self.memory = GRUMemory(self.encoded_width, config.memory.size)
            self.encoded_width += config.memory.size
        width = self.add_hidden(self.encoded_width, config.hidden_sizes)
        self.output_layer, self.value_layer = nn.Linear(width, outputs), nn.Linear(width, 1)
        self.log_std = nn.Parameter(torch.full((size,), config.log_std)) if is_normal else None
        self.fleet = FleetTrunk(self.encoded_width, config) if config.critic == "fleet" else None
        init_orthogonal(self, math.sqrt(2.0))
        init_orthogonal(self.output_layer, 0.01)
        init_orthogonal(self.value_layer, 1.0)

    def forward(self, observation: Observation) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the parameters of the action distribution, the values [B] and the memory after observations [B].

        The parameters are logits [B, A], or means and log standard deviations [B, 2D]; the memory is [B, H], None
        without any.
        """
        encoded, memory = self._remember(observation)
        features = self.trunk(encoded)
        value_features = features if self.fleet is None else self.fleet(encoded, observation[ACTIVE_KEY])
        return self._heads(features), to_float32(self.value_layer(value_features)).squeeze(-1), memory

    def policy(self, observation: Observation) -> tuple[Tensor, Tensor | None]:
        """Return the parameters of the action distribution and the memory after observations [B]; see ``forward``."""
        encoded, memory = self._remember(observation)
        return self._heads(self.trunk(encoded)), memory

    def _remember(self, observation: Observation) -> tuple[Tensor, Tensor | None]:
        """Return the encoded observations [B, F], with the memory after them if there is one, and this memory."""
        encoded = self.encode(observation)
        if self.memory is None:
            return encoded, None
        before = observation[MEMORY]
        if STARTS in observation:
            memory = self.memory.unroll(encoded, before, observation[STARTS], observation[ACTIVE_KEY])
        else:
            memory = self.memory(encoded, before)
        return torch.cat((encoded, memory), -1), memory

    def _heads(self, features: Tensor) -> Tensor:
        """Return the parameters of the action distribution for the output [B, H] of the last hidden layer."""
        outputs = to_float32(self.output_layer(features))
        if self.log_std is not None:
            return torch.cat((outputs, self.log_std.expand_as(outputs)), -1)
        return outputs


class FleetTrunk(nn.Module):
    """Hidden layers of the value of a fleet, for a robot's own features and the mean of those of all active robots."""

    def __init__(self, encoded_width: int, config: EncoderConfig) -> None:
        super().__init__()
        sizes = (2 * encoded_width, *config.hidden_sizes)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.Sequential(*(module for layer in layers for module in (layer, nn.ReLU())))

    def forward(self, encoded: Tensor, active: Tensor) -> Tensor:
        """Return the output [..., R, H] for encoded observations [..., R, F] and the mask [..., R] of active robots."""
        present = active.to(encoded.dtype)[..., None]
        count = present.sum(-2, keepdim=True).clamp_min(1.0)
        mean = (encoded * present).sum(-2, keepdim=True) / count
        joined: Tensor = self.layers(torch.cat((encoded, mean.expand_as(encoded)), -1))
        return joined
