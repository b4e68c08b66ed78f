"""A2C, the synchronous variant of A3C (Mnih et al. 2016): policy gradients from short rollouts, each used once."""

from dataclasses import dataclass
from typing import Any, ClassVar

from train_RL_agents.agents.actor_critic import ActorCriticAgent
from train_RL_agents.agents.actor_critic_network import ActorCriticConfig
from train_RL_agents.agents.batches import Losses, RolloutBatch


@dataclass(frozen=True)
class A2CConfig(ActorCriticConfig):
    """Settings of A2C."""


class A2C(ActorCriticAgent[A2CConfig]):
    """Advantage actor-critic agent."""

    config_type = A2CConfig
    trainer_defaults: ClassVar[dict[str, Any]] = {
        "num_envs": 256,
        "rollout_steps": 5,
        "batch_size": 3072,
        "optimizer": "rmsprop",
        "max_grad_norm": 0.5,
    }

    def loss(self, batch: RolloutBatch, noise: None) -> Losses:
        """Return the policy gradient loss with entropy bonus, the value loss, and scalars to log; noise is not used."""
        log_prob, entropy, value = self.evaluate(batch)
        gain = batch.mean(log_prob * batch.advantage)
        mean_entropy = batch.mean(entropy)
        value_loss = batch.mean((value - batch.target).square())
        return {
            "loss_policy": -(gain + self.entropy_weight(batch.progress) * mean_entropy),
            "loss_value": self.config.value_coef * value_loss,
            "policy_gain": gain,
            "value_error": value_loss,
            "entropy": mean_entropy,
            "value": batch.mean(value),
        }
