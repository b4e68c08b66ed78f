"""IQN: implicit quantile network, which estimates quantiles of the return of each action (Dabney et al. 2018).

Quantile fractions are drawn once per update, one from each of N strata, and may enter after the last hidden layer, so
that the trunk is evaluated once and not once per fraction.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from train_RL_agents.agents.agent_configs import IQNConfig
from train_RL_agents.agents.base import Agent, average_critics
from train_RL_agents.agents.batches import Batch, Losses
from train_RL_agents.agents.losses import quantile_huber_loss, td_target
from train_RL_agents.agents.quantile import QuantileNetwork, fraction_midpoints, risk_level, sample_fractions
from train_RL_agents.networks.observation import Observation


class IQN(Agent[IQNConfig]):
    """Implicit quantile network agent."""

    config_type = IQNConfig
    continuous = False
    output_meanings: ClassVar[dict[str, str]] = {
        "quantiles": "quantile of the return of each action at each fraction (scaled reward)"
    }
    selection_rule = "the index of the highest mean over the fractions"
    supports_risk = True
    tau_midpoints: Tensor
    acting_taus: Tensor

    def build(self) -> None:
        """Create the critics, their targets and the quantile fractions."""
        config = self.config
        for index in range(config.critics):
            self.networks[f"critic_{index}"] = QuantileNetwork(config, config.dueling, self.num_actions, self.spec)
        self.make_targets(*self.networks)
        self.register_buffer("tau_midpoints", fraction_midpoints(config.quantiles), persistent=False)
        self.register_buffer("acting_taus", fraction_midpoints(config.acting_quantiles), persistent=False)

    def outputs(
        self, observation: Observation, risk: Tensor | None = None, taus: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the quantiles [B, N, A] at ``taus`` [B, N], by default evenly spaced ones below the risk level."""
        taus = self._taus(observation, risk) if taus is None else taus
        quantiles = [net(observation, taus) for net in _list_networks(self.networks)]
        return {"quantiles": torch.stack(quantiles).mean(0)}

    def scores(self, outputs: dict[str, Tensor]) -> Tensor:
        """Return the mean [B, A] of each action's quantiles over the fractions."""
        return outputs["quantiles"].mean(-2)

    def extra_inputs(self, observation: Observation) -> dict[str, Tensor]:
        """Return the quantile fractions [B, N] that ``act`` uses, as ``taus``."""
        return {"taus": self._taus(observation, None)}

    def _taus(self, observation: Observation, risk: Tensor | None) -> Tensor:
        """Return evenly spaced quantile fractions [B, N] below the risk level."""
        return risk_level(self.config, self.spec, observation, risk)[..., None] * self.acting_taus

    def return_quantiles(self, observation: Observation, action: Tensor) -> Tensor:
        """Return the sorted quantiles [..., N] of the return of actions, averaged over the networks; see Agent."""
        networks = _list_networks(self.networks)
        return average_critics([net.action_quantiles(observation, self.acting_taus, action) for net in networks])

    def explore(self, observation: Observation, noise: Tensor | None) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the actions [B] with the highest mean quantile over fixed fractions or, with noise, random ones."""
        # The mean is taken before the heads, which are linear; this takes a tenth of the work of ``outputs``.
        taus = self.acting_taus if noise is None else noise
        mean = self._mean_values(observation, taus, self.networks)
        return self.select({"quantiles": mean[..., None, :]}), {}

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Tensor | None:
        """Sample fractions [B, N] to act on if they are configured to be random, else return None."""
        if not self.config.random_fractions:
            return None
        shape = (*batch, self.config.acting_quantiles)
        return torch.rand(shape, generator=generator, device=generator.device)

    def loss_noise(self, batch_size: int, generator: torch.Generator) -> Tensor:
        """Sample quantile fractions [2, N], one from each of N equal intervals, for predictions and for targets."""
        return sample_fractions(self.tau_midpoints, generator)

    def loss(self, batch: Batch, noise: Tensor) -> Losses:
        """Return the quantile regression loss, summed over the networks."""
        batch = self.share_geometry(batch)
        taus, target_taus = noise
        with torch.no_grad():
            chooser = self.networks if self.config.double else self.targets
            choice = self._mean_values(batch.next_observation, target_taus, chooser).argmax(-1)
            target = [
                net.action_quantiles(batch.next_observation, target_taus, choice)
                for net in _list_networks(self.targets)
            ]
            targets = td_target(batch.reward, batch.discount, torch.stack(target).amin(0))
        chosen = [net.action_quantiles(batch.observation, taus, batch.action) for net in _list_networks(self.networks)]
        errors = [quantile_huber_loss(quantiles, targets, taus, self.config.kappa) for quantiles in chosen]
        return {"loss": torch.stack(errors).sum(), "value": chosen[0].mean(), "target": targets.mean()}

    @staticmethod
    def _mean_values(observation: Observation, taus: Tensor, networks: nn.ModuleDict) -> Tensor:
        """Return the values [B, A] of actions: the means of their quantiles over fractions and networks."""
        return torch.stack([net.mean(observation, taus) for net in _list_networks(networks)]).mean(0)


def _list_networks(networks: nn.ModuleDict) -> list[Any]:
    """Return the networks as a list of type Any, so that their own methods can be called."""
    return list(networks.values())
