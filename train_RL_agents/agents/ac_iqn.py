"""AC-IQN: a deterministic actor with implicit quantile networks as critics.

Lin, Szenher, Huang and Englot, RA-L 2025 (arXiv 2412.09466): the critic embeds sampled quantile fractions (Dabney et
al. 2018), the actor follows the gradient of the mean of the critic's quantiles. Fractions are drawn and embedded as in
``iqn``.
"""

import math
from typing import Any, cast

import torch
from torch import Tensor, nn

from train_RL_agents.agents.agent_configs import ACIQNConfig
from train_RL_agents.agents.base import Agent, average_critics
from train_RL_agents.agents.batches import Batch, Losses
from train_RL_agents.agents.implicit_critic import ImplicitQuantileCritic, best_action, neighbour_offsets
from train_RL_agents.agents.losses import quantile_huber_loss, td_target, truncated_targets
from train_RL_agents.agents.quantile import fraction_midpoints, risk_level, sample_fractions
from train_RL_agents.networks.actors import Actor
from train_RL_agents.networks.layers import ensemble_outputs, squash
from train_RL_agents.networks.observation import Observation


class ACIQN(Agent[ACIQNConfig]):
    """Actor-critic agent with a deterministic actor and implicit quantile networks as critics."""

    config_type = ACIQNConfig
    continuous = True
    supports_risk = True
    tau_midpoints: Tensor
    neighbours: Tensor

    def build(self) -> None:
        """Create the actor, the critics, their targets, the quantile fractions and the neighbours' offsets."""
        config = self.config
        self.networks["actor"] = Actor(config, self.spec)
        self.critics = [f"critic_{index}" for index in range(config.critics)]
        for name in self.critics:
            self.networks[name] = ImplicitQuantileCritic(config, self.spec)
        self.make_targets(*self.networks)
        self.register_buffer("tau_midpoints", fraction_midpoints(config.quantiles), persistent=False)
        self.register_buffer("neighbours", neighbour_offsets(self.spec.action_size), persistent=False)

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the actor's action [B, D]; with ``refine`` or ``risk`` below 1, the best of it and its neighbours."""
        action: Tensor = self.networks["actor"](observation)
        if risk is None and not self.config.refine:
            return {"action": action}
        level = risk_level(self.config, self.spec, observation, risk)[..., None]
        # An actor is continuous: where passing on either side is good, it may also choose the course in between.
        choices = (action[..., None, :] + self.neighbours).clamp(-1.0, 1.0)
        critics: list[Any] = [self.networks[name] for name in self.critics]
        better = best_action(critics, observation, choices, level * self.tau_midpoints)
        if not self.config.refine:
            better = torch.where(level < 1.0, better, action)
        return {"action": better}

    def output_networks(self) -> list[str]:
        """Return the name of the actor, and those of the critics if they refine its action."""
        return ["actor", *self.critics] if self.config.refine else ["actor"]

    def explore(self, observation: Observation, noise: None) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the actor's action [B, D], to which the policy adds exploration noise, and an empty dict."""
        return self.networks["actor"](observation), {}

    def return_quantiles(self, observation: Observation, action: Tensor) -> Tensor:
        """Return the sorted quantiles [..., N] of the return of actions, averaged over the critics; see Agent."""
        taus = self.tau_midpoints
        return average_critics([self.networks[name](observation, action, taus) for name in self.critics])

    def loss_noise(self, batch_size: int, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Sample quantile fractions [2, N], one in each of N equal intervals, and normal noise of actions.

        The noise is that of the target actions [B, D], and that of the actor's [A, D], which learns from A transitions.
        """
        rows = math.ceil(self.config.actor_share * batch_size)
        noise = torch.randn(batch_size + rows, self.spec.action_size, generator=generator, device=generator.device)
        return (sample_fractions(self.tau_midpoints, generator), *noise.split((batch_size, rows)))

    def part_of_noise(self, noise: tuple[Tensor, ...], rows: slice) -> tuple[Tensor, ...]:
        """Return all fractions and the action noise of a micro-batch; it may have fewer rows for the actor, or none."""
        return (noise[0], *(part[rows] for part in noise[1:]))

    def loss(self, batch: Batch, noise: tuple[Tensor, ...]) -> Losses:
        """Return the losses of the critics (quantile regression) and of the actor, which maximises the lowest value."""
        batch = self.share_geometry(batch)
        (taus, target_taus), smoothing, actor_noise = noise
        critics, targets = ([group[name] for name in self.critics] for group in (self.networks, self.targets))
        with torch.no_grad():
            smoothing = (self.config.target_noise * smoothing).clamp(-0.5, 0.5)
            action = (self.targets["actor"](batch.next_observation) + smoothing).clamp(-1.0, 1.0)
            target_values = ensemble_outputs(targets, batch.next_observation, action, target_taus)
            next_quantiles = truncated_targets(torch.stack(target_values), self.config.dropped)
            target = td_target(batch.reward, batch.discount, next_quantiles)
        encoded = ensemble_outputs(critics, batch.observation)
        quantiles = ensemble_outputs(critics, batch.action, taus, own=encoded)
        errors = [quantile_huber_loss(values, target, taus, self.config.kappa) for values in quantiles]
        return {
            "loss_critic": torch.stack(errors).sum(),
            "loss_actor": self._actor_loss(critics, encoded, batch, actor_noise),
            "value": quantiles[0].mean(),
            "target": target.mean(),
        }

    def _actor_loss(self, critics: list[nn.Module], encoded: list[Tensor], batch: Batch, noise: Tensor) -> Tensor:
        """Return the loss of the actor on the first A transitions, a scalar; noise is standard normal [A, D]."""
        rows, actor = len(noise), cast(Actor, self.networks["actor"])
        observation = {name: entry[:rows] for name, entry in batch.observation.items()}
        pre_activation = actor.pre_activation(observation)
        action = squash(pre_activation + self.config.actor_noise * noise)
        own = [features[:rows].detach() for features in encoded]
        values = ensemble_outputs(critics, action, self.tau_midpoints, own=own, frozen=True)
        value = torch.stack([quantiles.mean(-1) for quantiles in values]).amin(0)
        saturation = self.config.saturation_penalty * pre_activation.square().mean(-1)
        # Not the mean over the rows, because a micro-batch may have fewer of the actor's transitions than others, or
        # none.
        return (saturation - value).sum() / (self.config.actor_share * batch.size)
