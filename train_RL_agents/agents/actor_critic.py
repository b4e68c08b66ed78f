"""Stochastic policies with a value function: what PPO and A2C have in common, apart from the networks."""

import math
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor

from train_RL_agents.agents.actor_critic_network import ActorCriticNetwork
from train_RL_agents.agents.agent_configs import ActorCriticConfig
from train_RL_agents.agents.base import Agent
from train_RL_agents.agents.batches import RolloutBatch
from train_RL_agents.networks.actors import normal_log_density, squash_log_derivative
from train_RL_agents.networks.layers import squash
from train_RL_agents.networks.memory import NEXT_MEMORY
from train_RL_agents.networks.observation import ACTIVE_KEY, Observation

ConfigType = TypeVar("ConfigType", bound=ActorCriticConfig)


class ActorCriticAgent(Agent[ConfigType]):
    """Base class of on-policy agents with a stochastic policy and a value function; subclasses add the loss."""

    algorithm = "on-policy"
    adds_exploration = False
    scores_are_returns = False
    output_meanings: ClassVar[dict[str, str]]

    def build(self) -> None:
        """Create the network of the policy and the value, and describe its outputs."""
        self.config = self.config.with_actions(self.num_actions)
        self.continuous = self.config.actions != "categorical"
        self.networks["policy"] = ActorCriticNetwork(self.config, self.num_actions, self.spec)
        if self.continuous:
            self.output_meanings = {  # type: ignore[misc]
                "mu": "mean of z, before it is squashed or clipped",
                "log_sigma": "log standard deviation of z",
            }
            squashed = "(2 / pi) atan(mu)" if self.config.actions == "gaussian" else "mu, clipped"
            self.selection_rule = squashed  # type: ignore[misc]
        else:
            self.output_meanings = {"logits": "log probability of each action, but for a constant"}  # type: ignore[misc]
            self.selection_rule = "the index of the highest logit"  # type: ignore[misc]

    @property
    def samples_are_joint(self) -> bool:
        """Return whether each sample of a batch has all robots of an environment, as the value of a fleet needs."""
        return self.config.critic == "fleet"

    @property
    def memory_size(self) -> int:
        """Return the number of units of the gated recurrent unit, or that of Agent; 0 without memory."""
        return self.config.memory.size if self.is_recurrent else super().memory_size

    @property
    def is_recurrent(self) -> bool:
        """Return whether gradients go back over windows of steps, through the memory."""
        return self.config.memory.kind == "gru"

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the logits [B, A], or the mean and log standard deviation [B, D]; risk does not apply.

        The state [B, H] of a gated recurrent unit after the observation is an output, too.
        """
        network: Any = self.networks["policy"]
        outputs, memory = network.policy(observation)
        kept = {} if memory is None else {NEXT_MEMORY: memory}
        if not self.continuous:
            return {"logits": outputs, **kept}
        mean, log_std = outputs.chunk(2, -1)
        return {"mu": mean, "log_sigma": log_std, **kept}

    def scores(self, outputs: dict[str, Tensor]) -> Tensor | None:
        """Return the logits [B, A] if actions are discrete, else None."""
        return outputs.get("logits")

    def select(self, outputs: dict[str, Tensor]) -> Tensor:
        """Return the index of the highest logit [B], or the squashed or clipped mean [B, D]."""
        return self._to_action(outputs["mu"]) if self.continuous else super().select(outputs)

    def imitating_action(self, observation: Observation) -> Tensor:
        """Return the mean as an action [B, D], never clipped, because clipping has no gradient beyond the bounds."""
        mean = self.outputs(observation)["mu"]
        return squash(mean) if self.config.actions == "gaussian" else mean

    def _to_action(self, sample: Tensor) -> Tensor:
        """Convert samples of a normal distribution to actions in [-1, 1]."""
        return squash(sample) if self.config.actions == "gaussian" else sample.clamp(-1.0, 1.0)

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Tensor:
        """Sample standard normal numbers [B, D], or uniform ones [B, A] for discrete actions."""
        options: dict[str, Any] = {"generator": generator, "device": generator.device}
        if self.continuous:
            return torch.randn((*batch, self.spec.action_size), **options)
        return torch.rand((*batch, self.num_actions), **options)

    def explore(self, observation: Observation, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return sampled actions and a dict with their ``log_prob`` [B] and the ``value`` [B] of the observation.

        For continuous actions it also has ``sample`` [B, D], the action before squashing or clipping; with a memory,
        ``next_memory`` [B, H] after the observation.
        """
        outputs, value, memory = self.networks["policy"](observation)
        if self.continuous:
            mean, log_std = outputs.chunk(2, -1)
            sample = mean + log_std.exp() * noise
            action, extras = self._to_action(sample), {"sample": sample}
        else:
            # Gumbel-max trick: the index of the largest perturbed logit is a sample of the softmax of the logits.
            uniform = noise.clamp(1e-7, 1.0 - 1e-7)
            action, extras = (outputs - torch.log(-torch.log(uniform))).argmax(-1), {}
        log_prob, _ = self._density(outputs, action, extras)
        kept = {} if memory is None else {NEXT_MEMORY: memory}
        return action, {"log_prob": log_prob, "value": value, **extras, **kept}

    def evaluate(self, batch: RolloutBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Return log probability of the actions, entropy and value under the current weights, [B] each."""
        observation = {**batch.observation, ACTIVE_KEY: batch.active}
        outputs, value, _ = self.networks["policy"](observation)
        log_prob, entropy = self._density(outputs, batch.action, batch.extras)
        return log_prob, entropy, value

    def _density(self, outputs: Tensor, action: Tensor, extras: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the log probability (density) of actions and the entropy, [B] each."""
        if not self.continuous:
            log_probs = torch.log_softmax(outputs, -1)
            chosen = log_probs.gather(-1, action[..., None]).squeeze(-1)
            return chosen, -(log_probs.exp() * log_probs).sum(-1)
        mean, log_std = outputs.chunk(2, -1)
        log_prob = normal_log_density(extras["sample"], mean, log_std).sum(-1)
        entropy = (log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)
        if self.config.actions == "gaussian":
            normal = ((extras["sample"] - mean) * torch.exp(-log_std)).detach()
            log_slope = squash_log_derivative(mean + log_std.exp() * normal).sum(-1)
            return log_prob - squash_log_derivative(extras["sample"]).sum(-1), entropy + log_slope
        return log_prob, entropy

    def entropy_weight(self, progress: Tensor) -> Tensor:
        """Return the weight of the entropy after a share ``progress`` of the run, a scalar in [0, 1]."""
        first, last = self.config.entropy, self.config.entropy_final
        return first + progress.clamp_max(1.0) * (last - first)
