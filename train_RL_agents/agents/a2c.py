"""A2C, the synchronous variant of A3C (Mnih et al. 2016): policy gradients from short rollouts, each used once."""

from train_RL_agents.agents.actor_critic import ActorCriticAgent
from train_RL_agents.agents.agent_configs import AGENT_TRAITS, A2CConfig
from train_RL_agents.agents.batches import Losses, RolloutBatch


class A2C(ActorCriticAgent[A2CConfig]):
    """Advantage actor-critic agent."""

    config_type = A2CConfig
    trainer_defaults = AGENT_TRAITS["A2C"].trainer_defaults

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
