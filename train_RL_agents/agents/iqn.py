"""IQN: implicit quantiles of the return of each discrete action (Dabney et al. 2018).

The fractions are drawn once per update, one from each of N equal strata, and may enter after the
last hidden layer, so that the trunk is evaluated once and not once per fraction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from marinenav_env.validation import require_numbers
from train_RL_agents.agents.base import Agent, AgentConfig, Batch, Losses
from train_RL_agents.losses import bootstrap, quantile_huber
from train_RL_agents.networks import (
    ENCODED,
    HIDDEN,
    CosineEmbedding,
    Inputs,
    ObservationNetwork,
    hidden,
)


@dataclass(frozen=True)
class IQNConfig(AgentConfig):
    """Settings of IQN."""

    quantiles: int = 16
    """Quantile fractions N per network and update."""
    acting_quantiles: int = 32
    """Quantile fractions when acting, evenly spread below the risk level."""
    random_fractions: bool = False
    """While training, act on fractions drawn afresh for every robot, as published."""
    critics: int = 2
    """Independent networks; targets take the smallest of their quantiles, fraction by fraction."""
    embedding: Literal["late", "published"] = "late"
    """Where the fractions enter: after the last hidden layer, or as published, before the first."""
    double: bool = True
    """Choose the next action with the learned network, value it with the slow one."""
    duelling: bool = True
    """Separate heads for the value of the state and the advantages of the actions."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers."""
    kappa: float = 1.0
    """Threshold of the Huber loss (scaled reward)."""

    def __post_init__(self) -> None:
        counts = ("quantiles", "acting_quantiles")
        require_numbers(self, "agent", counts, at_least=1, at_most=1024)
        require_numbers(self, "agent", ("critics",), at_least=1, at_most=10)
        require_numbers(self, "agent", ("kappa",), above=0.0)


class QuantileNetwork(ObservationNetwork):
    """Quantiles of the return of every action."""

    def __init__(self, config: IQNConfig, num_actions: int) -> None:
        super().__init__(config.features)
        self.late = config.embedding == "late"
        self.cos_embedding = CosineEmbedding(HIDDEN if self.late else ENCODED)
        self.hidden_layer = hidden(ENCODED, HIDDEN, config.layer_norm)
        self.hidden_layer_2 = hidden(HIDDEN, HIDDEN, config.layer_norm)
        self.output_layer = nn.Linear(HIDDEN, num_actions)
        self.value_layer = nn.Linear(HIDDEN, 1) if config.duelling else None

    def forward(self, inputs: Inputs, taus: Tensor) -> Tensor:
        """Quantiles [B, N, A] at fractions [N] or [B, N]."""
        features, embedded = self.encode(inputs)[..., None, :], self.cos_embedding(taus)
        if not self.late:
            features = features * embedded
        features = torch.relu(self.hidden_layer(features))
        features = torch.relu(self.hidden_layer_2(features))
        if self.late:
            features = features * embedded
        return self._heads(features)

    def mean(self, inputs: Inputs, taus: Tensor) -> Tensor:
        """Means [B, A] over the fractions [N] or [B, N]."""
        if not self.late:
            return self(inputs, taus).mean(-2)
        # The heads are linear, so that the mean over fractions can be taken before them.
        features = torch.relu(self.hidden_layer(self.encode(inputs)))
        features = torch.relu(self.hidden_layer_2(features))
        return self._heads(features * self.cos_embedding(taus).mean(-2))

    def _heads(self, features: Tensor) -> Tensor:
        quantiles: Tensor = self.output_layer(features)
        if self.value_layer is None:
            return quantiles
        advantages = quantiles - quantiles.mean(-1, keepdim=True)
        return advantages + self.value_layer(features)


class IQN(Agent[IQNConfig]):
    """See the module."""

    config_type = IQNConfig
    continuous = False
    acting = "critic_0"
    answers: ClassVar[dict[str, str]] = {
        "quantiles": "quantile of the return of each action at each fraction (scaled reward)"
    }
    rule = "the index of the highest mean over the fractions"
    heeds_risk = True
    strata: Tensor
    acting_taus: Tensor

    def __init__(self, config: IQNConfig, num_actions: int = 25) -> None:
        super().__init__(config, num_actions)
        for index in range(config.critics):
            self.networks[f"critic_{index}"] = QuantileNetwork(config, num_actions)
        self.make_targets(*self.networks)
        strata = torch.arange(config.quantiles) / config.quantiles
        acting = (torch.arange(config.acting_quantiles) + 0.5) / config.acting_quantiles
        self.register_buffer("strata", strata, persistent=False)
        self.register_buffer("acting_taus", acting, persistent=False)

    def act(self, inputs: Inputs, risk: Tensor | None = None) -> Tensor:
        """The action of the highest mean over the quantiles below the risk level."""
        taus = self.acting_taus if risk is None else risk[..., None] * self.acting_taus
        return self._mean_values(inputs, taus).argmax(-1)

    def answer(self, inputs: Inputs, taus: Tensor | None = None) -> tuple[Tensor, ...]:
        """Quantiles [B, N, A] at fractions [B, N], averaged over the networks."""
        nets: Any = self.networks.values()
        return (torch.stack([net(inputs, taus) for net in nets]).mean(0),)

    def decide(self, *answers: Tensor) -> Tensor:
        """The action of the highest mean."""
        return answers[0].mean(-2).argmax(-1)

    def answering(self) -> list[str]:
        """All networks."""
        return list(self.networks)

    def answer_taus(self) -> Tensor:
        """The fractions [N] of ``act``."""
        return self.acting_taus

    def behave(self, inputs: Inputs, generator: torch.Generator) -> Tensor:
        """The action of the highest mean over the same quantiles, or over random ones."""
        if not self.config.random_fractions:
            return self.act(inputs)
        shape = (*inputs.self_state.shape[:-1], self.config.acting_quantiles)
        taus = torch.rand(shape, generator=generator, device=generator.device)
        return self._mean_values(inputs, taus).argmax(-1)

    def draw(self, batch_size: int, generator: torch.Generator) -> Tensor:
        """Fractions [2, N], one from each stratum."""
        count = self.config.quantiles
        jitter = torch.rand(2, count, generator=generator, device=generator.device)
        return self.strata + jitter / count

    def losses(self, batch: Batch, random: Tensor) -> Losses:
        """Quantile regression of every network."""
        taus, target_taus = random
        with torch.no_grad():
            slow = torch.stack(
                [net(batch.next_observation, target_taus) for net in self.targets.values()]
            )
            means = slow.mean((0, 2))
            if self.config.double:
                means = self._mean_values(batch.next_observation, target_taus)
            choice = means.argmax(-1)[:, None, None].expand(-1, slow.shape[2], 1)
            next_quantiles = slow.amin(0).gather(-1, choice).squeeze(-1)
            targets = bootstrap(batch.reward, batch.discount, next_quantiles)
        index = batch.action[:, None, None].expand(-1, taus.shape[0], 1)
        chosen = [
            net(batch.observation, taus).gather(-1, index).squeeze(-1)
            for net in self.networks.values()
        ]
        errors = [quantile_huber(each, targets, taus, self.config.kappa) for each in chosen]
        loss = torch.stack(errors).sum()
        return {"loss": loss, "value": chosen[0].mean(), "target": targets.mean()}

    def _mean_values(self, inputs: Inputs, taus: Tensor) -> Tensor:
        """Means over fractions and networks, [B, A]."""
        nets: Any = self.networks.values()
        return torch.stack([net.mean(inputs, taus) for net in nets]).mean(0)
