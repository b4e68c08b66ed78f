"""Implicit quantile networks (Dabney et al. 2018): fractions, risk levels, network of discrete actions."""

import torch
from torch import Tensor, nn

from train_RL_agents.agents.agent_configs import QuantileConfig
from train_RL_agents.networks.encoders import OBJECTS_STATE, ObservationNetwork
from train_RL_agents.networks.layers import CosineEmbedding, dueling_values, to_float32
from train_RL_agents.networks.observation import Observation, ObservationSpec


def fraction_midpoints(count: int) -> Tensor:
    """Return the midpoints [N] of N = ``count`` equal intervals of (0, 1), as quantile fractions."""
    return (torch.arange(count) + 0.5) / count


def sample_fractions(tau_midpoints: Tensor, generator: torch.Generator) -> Tensor:
    """Sample two sets [2, N] of quantile fractions, uniform in N equal intervals of (0, 1) with given midpoints [N]."""
    half = 0.5 / tau_midpoints.shape[0]
    # The offsets are drawn in their final range, which saves two kernels per update.
    jitter = torch.empty(2, *tau_midpoints.shape, device=generator.device)
    return tau_midpoints + jitter.uniform_(-half, half, generator=generator)


def nearness_risk(observation: Observation, full: float) -> Tensor:
    """Return a risk level (CVaR level) [B] by the closest object: clip(distance / full, 0, 1), and 1 without any."""
    distance = torch.linalg.vector_norm(observation["objects_state"][..., :2], dim=-1)
    # The mask of exported networks has a floating-point dtype.
    closest = torch.where(observation["objects_mask"].bool(), distance, torch.inf).amin(-1)
    return (closest / full).clamp(0.0, 1.0)


def risk_level(
    config: QuantileConfig, spec: ObservationSpec, observation: Observation, requested: Tensor | None
) -> Tensor:
    """Return the requested risk level (CVaR level, share of the worst outcomes) [B], else the configured one."""
    if requested is not None:
        return requested
    if config.risk == "adaptive" and OBJECTS_STATE in spec.entries and OBJECTS_STATE not in config.excluded:
        return nearness_risk(observation, spec.scales.risk_distance)
    return spec.batch_ones(observation)


class QuantileNetwork(ObservationNetwork):
    """Network that returns quantiles of the return of every discrete action at given quantile fractions."""

    def __init__(self, config: QuantileConfig, dueling: bool, num_actions: int, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        self.late = config.embedding == "late"
        width = config.hidden_sizes[-1]
        self.cos_embedding = CosineEmbedding(width if self.late else self.encoded_width)
        self.add_hidden(self.encoded_width, config.hidden_sizes, config.layer_norm)
        self.output_layer = nn.Linear(width, num_actions)
        self.value_layer = nn.Linear(width, 1) if dueling else None

    def forward(self, observation: Observation, taus: Tensor) -> Tensor:
        """Return the quantiles [B, N, A] at fractions [N] or [B, N]."""
        features, embedded = self.encode(observation)[..., None, :], self.cos_embedding(taus)
        late = self.trunk(features) * embedded if self.late else self.trunk(features * embedded)
        return dueling_values(late, self.output_layer, self.value_layer)

    def mean(self, observation: Observation, taus: Tensor) -> Tensor:
        """Return the means [B, A] of the actions' quantiles over fractions [N] or [B, N]."""
        if not self.late:
            return self(observation, taus).mean(-2)
        # The heads are linear, so the mean over fractions can be taken before them.
        features = self.trunk(self.encode(observation)) * self.cos_embedding(taus).mean(-2)
        return dueling_values(features, self.output_layer, self.value_layer)

    def action_quantiles(self, observation: Observation, taus: Tensor, action: Tensor) -> Tensor:
        """Return the quantiles [B, N] of actions [B] at fractions [N]."""
        if not self.late:
            index = action[..., None, None].expand(*action.shape, taus.shape[0], 1)
            return self(observation, taus).gather(-1, index).squeeze(-1)
        features = self.trunk(self.encode(observation))
        # Only the heads' row of each action is used, so that the 24 others are not computed.
        weight, bias = self.output_layer.weight[action], self.output_layer.bias[action]
        if self.value_layer is not None:
            weight = weight - self.output_layer.weight.mean(0) + self.value_layer.weight
            bias = bias - self.output_layer.bias.mean() + self.value_layer.bias
        return to_float32((features * weight) @ self.cos_embedding(taus).mT) + bias[..., None]
