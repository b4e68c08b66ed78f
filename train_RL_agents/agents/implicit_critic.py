"""Critic of AC-IQN: implicit quantiles of the return of continuous actions, and the choice among several actions."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from train_RL_agents.agents.action_critic import action_encoder
from train_RL_agents.agents.agent_configs import QuantileConfig
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import CosineEmbedding, add_action, features_product, to_float32
from train_RL_agents.networks.observation import Observation, ObservationSpec, repeat_observation


class ImplicitQuantileCritic(ObservationNetwork):
    """Critic that gives quantiles of the return of a given action at any fractions (AC-IQN)."""

    def __init__(self, config: QuantileConfig, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        self.late, sizes = config.embedding == "late", config.hidden_sizes
        joined = self.encoded_width + spec.action_size if self.late else self.encoded_width
        self.cos_embedding = CosineEmbedding(sizes[-1] if self.late else self.encoded_width)
        width = self.add_hidden(joined, sizes, config.layer_norm)
        self.action_encoder = None if self.late else action_encoder(spec.action_size, sizes[0])
        self.output_layer = nn.Linear(width, 1)

    def forward(
        self, observation: Observation | Tensor, action: Tensor | None = None, taus: Tensor | None = None
    ) -> Tensor:
        """Return the quantiles [B, N] at fractions [N] or [B, N] of actions [B, D].

        Without actions, return the encoded observations, which can be passed in their place.
        """
        features = observation if isinstance(observation, Tensor) else self._encode_state(observation)
        if action is None or taus is None:
            return features
        embedded = self.cos_embedding(taus)
        if self.action_encoder is None:
            features = self._late_trunk(features, action)
            # Computes (features x embedded) W^T without a [B, N, H] intermediate where all rows share taus.
            weighted = embedded * self.output_layer.weight
            if taus.ndim == 1:
                return to_float32(features @ weighted.mT) + self.output_layer.bias
            values = to_float32(weighted @ features[..., None]).squeeze(-1)
            return values + self.output_layer.bias
        features = self.trunk(features[..., None, :] * embedded, end=1)
        features = features * self.action_encoder(action)[..., None, :]
        features = self.trunk(features, begin=1)
        return to_float32(self.output_layer(features)).squeeze(-1)

    def mean(self, observation: Observation, actions: Tensor, taus: Tensor) -> Tensor:
        """Return the values [B, K] of actions [B, K, D]: the means of their quantiles at fractions [B, N]."""
        count = actions.shape[-2]
        if not self.late:
            taus = taus[..., None, :].expand(*actions.shape[:-1], -1)
            return self(repeat_observation(observation, actions.ndim - 2, count), actions, taus).mean(-1)
        # The head is linear, so the mean over fractions can be taken before it.
        features = self._late_trunk(self._encode_state(observation)[..., None, :], actions)
        embedded = self.cos_embedding(taus).mean(-2, keepdim=True)
        return to_float32(self.output_layer(features * embedded)).squeeze(-1)

    def _encode_state(self, observation: Observation) -> Tensor:
        """Return the part of the computation that does not depend on the action."""
        features = self.encode(observation)
        return features_product(self.hidden_layers[0], features) if self.late else features

    def _late_trunk(self, features: Tensor, action: Tensor) -> Tensor:
        """Return the output [..., H] of the hidden layers for results of ``_encode_state`` and actions [..., D]."""
        return self.trunk(torch.relu(add_action(self.hidden_layers[0], features, action)), begin=1)


def best_action(
    critics: Sequence[ImplicitQuantileCritic], observation: Observation, choices: Tensor, taus: Tensor
) -> Tensor:
    """Return, of candidate actions [B, K, D], the one [B, D] with the highest value: the minimum over critics."""
    values = [critic.mean(observation, choices, taus) for critic in critics]
    best = torch.stack(values).amin(0).argmax(-1)[..., None, None]
    shape = *best.shape[:-2], 1, choices.shape[-1]
    return choices.gather(-2, best.expand(shape)).squeeze(-2)


def neighbour_offsets(size: int) -> Tensor:
    """Return the offsets [K, D] of K candidates from an action of ``size`` D: 0, and 0.5 away along the axes.

    For D = 2 they are the nine points of a grid; otherwise, 0 and a step in either direction along each axis.
    """
    steps = torch.tensor([0.0, -0.5, 0.5])
    if size == 2:
        return torch.cartesian_prod(steps, steps)
    axes = torch.eye(size)
    return torch.cat((torch.zeros(1, size), -0.5 * axes, 0.5 * axes))
