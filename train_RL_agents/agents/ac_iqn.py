"""AC-IQN: a deterministic actor judged by implicit quantile networks.

Lin, Szenher, Huang and Englot, RA-L 2025 (arXiv 2412.09466): the critic embeds sampled quantile
fractions (Dabney et al. 2018), the actor follows the gradient of the mean of its quantiles. Here
the fractions are drawn once per update, one from each of N equal strata, and may enter after the
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
    Actor,
    CosineEmbedding,
    Inputs,
    ObservationNetwork,
    frozen_call,
    hidden,
)


@dataclass(frozen=True)
class ACIQNConfig(AgentConfig):
    """Settings of AC-IQN."""

    quantiles: int = 16
    """Quantile fractions N per critic and update."""
    critics: int = 2
    """Independent critics; targets take the smallest of their quantiles, fraction by fraction."""
    embedding: Literal["late", "published"] = "late"
    """Where the fractions enter: after the last hidden layer, or as published, before the first
    (then the action enters after it)."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers of the critics."""
    target_noise: float = 0.1
    """Standard deviation of the noise on target actions (1)."""
    kappa: float = 1.0
    """Threshold of the Huber loss (scaled reward)."""

    def __post_init__(self) -> None:
        require_numbers(self, "agent", ("quantiles",), at_least=1, at_most=1024)
        require_numbers(self, "agent", ("critics",), at_least=1, at_most=10)
        require_numbers(self, "agent", ("target_noise",), at_least=0.0, at_most=1.0)
        require_numbers(self, "agent", ("kappa",), above=0.0)


class QuantileCritic(ObservationNetwork):
    """Quantiles of the return of an action."""

    def __init__(self, config: ACIQNConfig) -> None:
        super().__init__(config.features)
        self.late = config.embedding == "late"
        joined = ENCODED + 2 if self.late else ENCODED
        self.cos_embedding = CosineEmbedding(HIDDEN if self.late else ENCODED)
        self.hidden_layer = hidden(joined, HIDDEN, config.layer_norm)
        self.hidden_layer_2 = hidden(HIDDEN, HIDDEN, config.layer_norm)
        self.action_encoder = None if self.late else nn.Sequential(nn.Linear(2, HIDDEN), nn.ReLU())
        self.output_layer = nn.Linear(HIDDEN, 1)

    def forward(self, inputs: Inputs, action: Tensor, taus: Tensor) -> Tensor:
        """Quantiles [B, N] at fractions [N] or [B, N] of actions [B, 2]."""
        features, embedded = self.encode(inputs), self.cos_embedding(taus)
        if self.action_encoder is None:
            features = torch.relu(self.hidden_layer(torch.cat((features, action), -1)))
            features = torch.relu(self.hidden_layer_2(features))
            # (features x embedded) W^T, without an [B, N, 128] intermediate where taus are shared.
            weighted = embedded * self.output_layer.weight
            if taus.ndim == 1:
                return features @ weighted.mT + self.output_layer.bias
            return (weighted @ features[..., None]).squeeze(-1) + self.output_layer.bias
        features = torch.relu(self.hidden_layer(features[..., None, :] * embedded))
        features = features * self.action_encoder(action)[..., None, :]
        features = torch.relu(self.hidden_layer_2(features))
        return self.output_layer(features).squeeze(-1)


class ACIQN(Agent[ACIQNConfig]):
    """See the module."""

    config_type = ACIQNConfig
    continuous = True
    acting = "actor"
    answers: ClassVar[dict[str, str]] = {"action": "left and right command, in [-1, 1]"}
    rule = "the answer is the action"
    heeds_risk = True
    strata: Tensor
    neighbours: Tensor

    def __init__(self, config: ACIQNConfig, num_actions: int = 25) -> None:
        super().__init__(config, num_actions)
        self.networks["actor"] = Actor(config.features)
        self.critics = [f"critic_{index}" for index in range(config.critics)]
        for name in self.critics:
            self.networks[name] = QuantileCritic(config)
        self.make_targets(*self.networks)
        strata = torch.arange(config.quantiles) / config.quantiles
        self.register_buffer("strata", strata, persistent=False)
        steps = torch.tensor([0.0, -0.5, 0.5])
        self.register_buffer("neighbours", torch.cartesian_prod(steps, steps), persistent=False)

    def act(self, inputs: Inputs, risk: Tensor | None = None) -> Tensor:
        """The actor's action; below risk level 1 the neighbour of it with the best bad outcomes."""
        action: Tensor = self.networks["actor"](inputs)
        if risk is None:
            return action
        choices = (action[..., None, :] + self.neighbours).clamp(-1.0, 1.0)
        repeated = Inputs(*(
            tensor.unsqueeze(action.ndim - 1).expand(
                *choices.shape[:-1], *tensor.shape[action.ndim - 1 :])
            for tensor in inputs
        ))  # fmt: skip
        taus = (risk[..., None] * (self.strata + 0.5 / self.config.quantiles))[..., None, :]
        taus = taus.expand(*choices.shape[:-1], -1)
        quantiles = self.networks[self.critics[0]](repeated, choices, taus)
        best = quantiles.mean(-1).argmax(-1)[..., None, None].expand(*action.shape[:-1], 1, 2)
        return torch.where(risk[..., None] < 1.0, choices.gather(-2, best).squeeze(-2), action)

    def answer(self, inputs: Inputs, taus: Tensor | None = None) -> tuple[Tensor, ...]:
        """The actor's action [B, 2]."""
        return (self.networks["actor"](inputs),)

    def decide(self, *answers: Tensor) -> Tensor:
        """The action itself."""
        return answers[0]

    def draw(self, batch_size: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Fractions [2, N], one from each stratum, and the noise [B, 2] of target actions."""
        count = self.config.quantiles
        options: dict[str, Any] = {"generator": generator, "device": generator.device}
        jitter = torch.rand(2, count, **options) / count
        return self.strata + jitter, torch.randn(batch_size, 2, **options)

    def losses(self, batch: Batch, random: tuple[Tensor, Tensor]) -> Losses:
        """Quantile regression of the critics; the actor climbs the mean of the first critic."""
        (taus, target_taus), smoothing = random
        with torch.no_grad():
            noise = (self.config.target_noise * smoothing).clamp(-0.5, 0.5)
            action = (self.targets["actor"](batch.next_observation) + noise).clamp(-1.0, 1.0)
            slow = [self.targets[name](batch.next_observation, action, target_taus)
                    for name in self.critics]  # fmt: skip
            targets = bootstrap(batch.reward, batch.discount, torch.stack(slow).amin(0))
        quantiles = [self.networks[name](batch.observation, batch.action, taus)
                     for name in self.critics]  # fmt: skip
        errors = [quantile_huber(each, targets, taus, self.config.kappa) for each in quantiles]
        action = self.networks["actor"](batch.observation)
        critic = self.networks[self.critics[0]]
        value = frozen_call(critic, batch.observation, action, taus).mean()
        return {
            "loss_critic": torch.stack(errors).sum(),
            "loss_actor": -value,
            "value": quantiles[0].mean(),
            "target": targets.mean(),
        }
