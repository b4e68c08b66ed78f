"""DDPG: a deterministic actor with critics Q(s, a) (Lillicrap et al. 2016).

Options: twin critics and noise on target actions (TD3, Fujimoto et al. 2018); critics with fixed quantiles, of which
the highest are dropped from the targets (TQC, Kuznetsov et al. 2020).
"""

from typing import Any

import torch
from torch import Tensor

from train_RL_agents.agents.action_critic import ActionCriticAgent
from train_RL_agents.agents.agent_configs import DDPGConfig
from train_RL_agents.agents.batches import Batch, Losses
from train_RL_agents.agents.losses import td_target
from train_RL_agents.networks.actors import Actor
from train_RL_agents.networks.layers import call_with_frozen_parameters, ensemble_outputs, squash
from train_RL_agents.networks.observation import Observation


class DDPG(ActionCriticAgent[DDPGConfig]):
    """Deep deterministic policy gradient agent."""

    config_type = DDPGConfig
    continuous = True

    def build(self) -> None:
        """Create the actor, the critics and the targets of both."""
        self.networks["actor"] = Actor(self.config, self.spec)
        self.add_critics()
        self.make_targets(*self.networks)

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the actor's action [B, D]; risk does not apply."""
        return {"action": self.networks["actor"](observation)}

    def loss_noise(self, batch_size: int, generator: torch.Generator) -> Tensor:
        """Sample standard normal noise [B, D] for the target actions."""
        return torch.randn(batch_size, self.spec.action_size, generator=generator, device=generator.device)

    def part_of_noise(self, noise: Tensor, rows: slice) -> Tensor:
        """Return the slice of the random numbers that belongs to a micro-batch of the transitions."""
        return noise[rows]

    def loss(self, batch: Batch, noise: Tensor) -> Losses:
        """Return the losses of the critics and the actor; the actor maximises the value of the first critic."""
        batch = self.share_geometry(batch)
        with torch.no_grad():
            smoothing = (self.config.target_noise * noise).clamp(-0.5, 0.5)
            action = self.targets["actor"](batch.next_observation) + smoothing
            action = action.clamp(-1.0, 1.0)
            next_values = self.target_values(batch.next_observation, action)
            targets = td_target(batch.reward, batch.discount, next_values)
        networks = [self.networks[name] for name in self.critics]
        encoded = ensemble_outputs(networks, batch.observation)
        values = ensemble_outputs(networks, batch.action, own=encoded)
        actor: Any = self.networks["actor"]
        pre_activation = actor.pre_activation(batch.observation)
        value = call_with_frozen_parameters(networks[0], encoded[0].detach(), squash(pre_activation))
        saturation = self.config.saturation_penalty * pre_activation.square().mean()
        return {
            "loss_critic": self.critics_loss(values, targets),
            "loss_actor": saturation - value.mean(),
            "value": values[0].mean(),
            "target": targets.mean(),
        }
