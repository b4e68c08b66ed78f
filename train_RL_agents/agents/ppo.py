"""PPO: clipped policy gradients from rollouts (Schulman et al. 2017), all robots sharing weights.

With ``critic=fleet`` it is MAPPO (Yu et al. 2022).
"""

import torch
from torch import Tensor

from train_RL_agents.agents.actor_critic import ActorCriticAgent
from train_RL_agents.agents.agent_configs import AGENT_TRAITS, PPOConfig
from train_RL_agents.agents.batches import Losses, RolloutBatch


class PPO(ActorCriticAgent[PPOConfig]):
    """Proximal policy optimisation agent."""

    config_type = PPOConfig
    trainer_defaults = AGENT_TRAITS["PPO"].trainer_defaults

    def loss(self, batch: RolloutBatch, noise: None) -> Losses:
        """Return the clipped surrogate loss with entropy bonus, the value loss and scalars; noise is not used."""
        log_prob, entropy, value = self.evaluate(batch)
        # Robots that were not active did not execute the sampled action.
        difference = torch.where(batch.active, log_prob - batch.extras["log_prob"], 0.0)
        ratio = difference.exp()
        surrogate = clipped_surrogate(ratio, batch.advantage, self.config.clip)
        # Schulman's estimator of the KL divergence: never negative, and of low variance.
        divergence = batch.mean(ratio - 1.0 - difference).detach()
        gain = batch.mean(surrogate)
        mean_entropy = batch.mean(entropy)
        objective = gain + self.entropy_weight(batch.progress) * mean_entropy
        if self.config.target_kl:
            objective = objective * (divergence <= self.config.target_kl)
        value_loss = batch.mean((value - batch.target).square())
        clipped = ((ratio - 1.0).abs() > self.config.clip).to(ratio.dtype)
        return {
            "loss_policy": -objective,
            "loss_value": self.config.value_coef * value_loss,
            "policy_gain": gain,
            "value_error": value_loss,
            "entropy": mean_entropy,
            "approx_kl": divergence,
            "clip_fraction": batch.mean(clipped),
            "value": batch.mean(value),
        }


def clipped_surrogate(ratio: Tensor, advantage: Tensor, clip: float) -> Tensor:
    """Return the smaller of the unclipped and the clipped objective, [B] (Schulman et al. 2017, equation 7)."""
    return torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)
