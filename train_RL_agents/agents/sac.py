"""SAC: a stochastic actor with an entropy bonus (Haarnoja et al. 2018).

The temperature of the bonus is learned, or fixed as published. Critics are those of DDPG: scalar, or
with fixed quantiles, of which the highest are dropped from the targets (TQC, Kuznetsov et al. 2020).
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from train_RL_agents.agents.action_critic import ActionCriticAgent
from train_RL_agents.agents.agent_configs import SACConfig
from train_RL_agents.agents.batches import Batch, Losses
from train_RL_agents.agents.losses import td_target
from train_RL_agents.networks.actors import GaussianActor, sample_squashed
from train_RL_agents.networks.layers import ensemble_outputs, squash
from train_RL_agents.networks.observation import Observation


class Temperature(nn.Module):
    """Module with the temperature, the weight of the entropy bonus, stored as its logarithm."""

    def __init__(self, config: SACConfig) -> None:
        super().__init__()
        start = torch.tensor(math.log(config.temperature))
        self.logarithm = nn.Parameter(start, requires_grad=config.learn_temperature)

    def forward(self) -> Tensor:
        """Return the logarithm of the temperature, a scalar."""
        return self.logarithm


class SAC(ActionCriticAgent[SACConfig]):
    """Soft actor-critic agent."""

    config_type = SACConfig
    continuous = True
    output_meanings: ClassVar[dict[str, str]] = {
        "mu": "mean of z, before squashing",
        "log_sigma": "log standard deviation of z",
    }
    selection_rule = "(2 / pi) atan(mu); to sample, (2 / pi) atan(z) with z normal"

    def build(self) -> None:
        """Create the actor, the critics, their targets and the temperature."""
        self.networks["actor"] = GaussianActor(self.config, self.spec)
        self.add_critics()
        self.make_targets(*self.critics)
        self.networks["temperature"] = Temperature(self.config)
        stated = self.config.target_entropy
        self.target_entropy = -float(self.spec.action_size) if stated is None else stated

    def follows_from_config(self, name: str) -> bool:
        """Return whether the configuration determines the weight of this name, as it does a fixed temperature."""
        is_fixed = name.startswith("temperature.") and not self.config.learn_temperature
        return is_fixed or super().follows_from_config(name)

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the mean and log standard deviation before squashing, [B, D] each; risk does not apply."""
        mean, log_std = self.networks["actor"](observation)
        return {"mu": mean, "log_sigma": log_std}

    def select(self, outputs: dict[str, Tensor]) -> Tensor:
        """Return the squashed mean [B, D]."""
        return squash(outputs["mu"])

    def explore(self, observation: Observation, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return actions [B, D] that are sampled from the policy, and an empty dict."""
        return sample_squashed(self.networks["actor"](observation), noise)[0], {}

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Tensor:
        """Sample standard normal numbers [B, D]."""
        return torch.randn((*batch, self.spec.action_size), generator=generator, device=generator.device)

    def loss_noise(self, batch_size: int, generator: torch.Generator) -> Tensor:
        """Sample standard normal numbers [2, B, D], for the next and the current actions."""
        return torch.randn(2, batch_size, self.spec.action_size, generator=generator, device=generator.device)

    def part_of_noise(self, noise: Tensor, rows: slice) -> Tensor:
        """Return the slice of the random numbers that belongs to a micro-batch of the transitions."""
        return noise[:, rows]

    def loss(self, batch: Batch, noise: Tensor) -> Losses:
        """Return the losses of the critics, of the actor, and of the temperature if it is learned."""
        batch = self.share_geometry(batch)
        log_temperature = self.networks["temperature"]()
        temperature = log_temperature.detach().exp()
        with torch.no_grad():
            shape = self.networks["actor"](batch.next_observation)
            action, log_density = sample_squashed(shape, noise[0])
            next_values = self.target_values(batch.next_observation, action)
            entropy = -(temperature * log_density)[:, None]
            targets = td_target(batch.reward, batch.discount, next_values + entropy)
        networks = [self.networks[name] for name in self.critics]
        encoded = ensemble_outputs(networks, batch.observation)
        values = ensemble_outputs(networks, batch.action, own=encoded)
        action, log_density = sample_squashed(self.networks["actor"](batch.observation), noise[1])
        own = [features.detach() for features in encoded]
        critic_values = ensemble_outputs(networks, action, own=own, frozen=True)
        actor_values = [critic_value.mean(-1) for critic_value in critic_values]
        value = torch.stack(actor_values).amin(0)
        surplus = (-log_density.detach() - self.target_entropy).mean()
        return {
            "loss_critic": self.critics_loss(values, targets),
            "loss_actor": (temperature * log_density - value).mean(),
            "loss_temperature": (log_temperature * surplus).sum(),
            "value": values[0].mean(),
            "target": targets.mean(),
            "temperature": temperature.mean(),
        }
