"""A2C: policy gradients from short rollouts, each used once (Mnih et al. 2016, synchronous)."""

from __future__ import annotations

from dataclasses import dataclass

from train_RL_agents.agents.actor_critic import (
    ActorCriticAgent,
    ActorCriticConfig,
    RolloutBatch,
    weighted_mean,
)
from train_RL_agents.agents.base import Losses


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of A2C."""


class A2C(ActorCriticAgent[A2CConfig]):
    """See the module."""

    config_type = A2CConfig

    def loss(self, batch: RolloutBatch, noise: None) -> Losses:
        """Policy gradient, value loss, and entropy."""
        log_prob, entropy, value = self.evaluate(batch)
        weight = batch.weight
        gain = weighted_mean(log_prob * batch.advantage, weight)
        mean_entropy = weighted_mean(entropy, weight)
        value_loss = weighted_mean((value - batch.target).square(), weight)
        return {
            "loss_policy": -(gain + self.entropy_weight(batch.progress) * mean_entropy),
            "loss_value": self.config.value_coef * value_loss,
            "policy_gain": gain,
            "value_error": value_loss,
            "entropy": mean_entropy,
            "value": weighted_mean(value, weight),
        }
