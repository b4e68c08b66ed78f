"""Rainbow: return distributions on fixed atoms, dueling noisy layers (Hessel et al. 2018).

The other components of Rainbow are settings of the trainer: multi-step returns (``trainer.n_steps``) and prioritised
replay (``trainer.prioritized``).
"""

import math
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor

from train_RL_agents.agents.agent_configs import AGENT_TRAITS, RainbowConfig
from train_RL_agents.agents.base import Agent
from train_RL_agents.agents.batches import Batch, Losses
from train_RL_agents.agents.losses import cross_entropy, project_categorical_targets
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.layers import to_float32
from train_RL_agents.networks.noisy import NoisyLinear
from train_RL_agents.networks.observation import Observation, ObservationSpec


class DistributionNetwork(ObservationNetwork):
    """Network that returns the log probabilities of the atoms (possible returns) for every discrete action."""

    def __init__(self, config: RainbowConfig, num_actions: int, spec: ObservationSpec) -> None:
        super().__init__(config, spec)
        self.shape = (num_actions, config.atoms)
        widths = [self.encoded_width, *config.hidden_sizes]
        heads = [(widths[-1], math.prod(self.shape)), (widths[-1], config.atoms)]
        sizes = [*pairwise(widths), *heads]
        *layers, output, value = (NoisyLinear(*size, config.sigma_0) for size in sizes)
        # The order must not change, because saved states of the optimiser refer to the parameters by number.
        self.add_layers(layers)
        self.output_layer, self.value_layer = output, value
        self.noise_sizes = [sum(size) for size in sizes]
        """Number of random numbers of each layer, in the order of the noise of ``forward``."""

    def forward(self, observation: Observation, noise: Tensor | None = None) -> Tensor:
        """Return the log probabilities [B, A, atoms] for observations [B] and noise [sum(noise_sizes)]."""
        count = len(self.noise_sizes)
        parts = [None] * count if noise is None else noise.split(self.noise_sizes)
        features = self.encode(observation)
        for layer, part in zip(self.hidden_layers, parts, strict=False):
            features = torch.relu(layer(features, part))
        advantages = to_float32(self.output_layer(features, parts[-2])).unflatten(-1, self.shape)
        advantages = advantages - advantages.mean(-2, keepdim=True)
        logits = advantages + to_float32(self.value_layer(features, parts[-1])).unsqueeze(-2)
        return torch.log_softmax(logits, -1)


class Rainbow(Agent[RainbowConfig]):
    """Rainbow agent."""

    config_type = RainbowConfig
    continuous = False
    output_meanings: ClassVar[dict[str, str]] = {
        "probabilities": "probability of each atom of the return for each action"
    }
    selection_rule = "the index of the highest mean over the atoms, which are evenly spaced"
    uses_priorities = AGENT_TRAITS["Rainbow"].uses_priorities
    support: Tensor

    def build(self) -> None:
        """Create the network, its target and the atoms of the support."""
        config = self.config
        critic = DistributionNetwork(config, self.num_actions, self.spec)
        self.networks["critic"], self.noise_size = critic, sum(critic.noise_sizes)
        self.make_targets("critic")
        support = torch.linspace(config.v_min, config.v_max, config.atoms)
        self.register_buffer("support", support, persistent=False)

    def follows_from_config(self, name: str) -> bool:
        """Return whether the configuration determines the weight of this name, as it does initial sizes of noise."""
        return name.endswith("_sigma") or super().follows_from_config(name)

    @property
    def return_range(self) -> tuple[float, float]:
        """Return the returns of the lowest and of the highest atom."""
        return self.config.v_min, self.config.v_max

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Return the probabilities [B, A, atoms], without noise; risk does not apply."""
        return {"probabilities": self.networks["critic"](observation).exp()}

    def scores(self, outputs: dict[str, Tensor]) -> Tensor:
        """Return the mean return [B, A] of each action."""
        return (outputs["probabilities"] * self.support).sum(-1)

    def explore(self, observation: Observation, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the actions with the highest mean under one sample of the noise, shared by all observations."""
        return self._choose(self.networks["critic"](observation, noise)), {}

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Tensor:
        """Sample the standard normal noise [F] of all layers, one sample for all observations."""
        return torch.randn(self.noise_size, generator=generator, device=generator.device)

    def return_quantiles(self, observation: Observation, action: Tensor) -> Tensor:
        """Return N quantiles [..., N] of the return of actions, where N is the number of atoms."""
        log_probabilities: Tensor = self.networks["critic"](observation)
        index = action[..., None, None].expand(*action.shape, 1, self.config.atoms)
        below = log_probabilities.gather(-2, index).squeeze(-2).exp().cumsum(-1)
        steps = torch.arange(self.config.atoms, device=below.device)
        fractions = ((steps + 0.5) / self.config.atoms).expand(below.shape).contiguous()
        atom = torch.searchsorted(below.contiguous(), fractions)
        return self.support[atom.clamp_max(self.config.atoms - 1)]

    def loss_noise(self, batch_size: int, generator: torch.Generator) -> Tensor:
        """Sample the noise [3, F] of the predictions, of the choice of next actions and of the target network."""
        return torch.randn(3, self.noise_size, generator=generator, device=generator.device)

    def loss(self, batch: Batch, noise: Tensor) -> Losses:
        """Return the mean cross entropy to the projected target distribution, and each transition's as ``priority``."""
        batch = self.share_geometry(batch)
        rows = torch.arange(batch.reward.shape[0], device=batch.reward.device)
        with torch.no_grad():
            choice = self._choose(self.networks["critic"](batch.next_observation, noise[1]))
            next_log_probabilities = self.targets["critic"](batch.next_observation, noise[2])[rows, choice]
            targets = project_categorical_targets(
                batch.reward, batch.discount, next_log_probabilities.exp(), self.support
            )
        predicted = self.networks["critic"](batch.observation, noise[0])[rows, batch.action]
        errors = cross_entropy(predicted, targets)
        return {
            "loss": (errors if batch.weights is None else batch.weights * errors).mean(),
            "value": (predicted.exp() * self.support).sum(-1).mean(),
            "target": (targets * self.support).sum(-1).mean(),
            "priority": errors.detach(),
        }

    def _choose(self, log_probabilities: Tensor) -> Tensor:
        """Return the actions [B] with the highest mean return, given log probabilities [B, A, atoms]."""
        return self.select({"probabilities": log_probabilities.exp()})
