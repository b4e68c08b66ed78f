"""Stochastic policies with a value: networks, sampling, and what PPO and A2C share.

The value is that of a robot's own observation, or of the observations of all active robots of its
environment (MAPPO, Yu et al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from marinenav_env.validation import NonNegative, at_least, at_most
from train_RL_agents.agents.base import Agent, AgentConfig
from train_RL_agents.networks.actors import normal_log_density, squash_log_slope
from train_RL_agents.networks.encoders import EncoderConfig, ObservationNetwork, Size, Sizes
from train_RL_agents.networks.layers import orthogonal, squash, to_float32
from train_RL_agents.networks.observation import ACTIVE, Observation, ObservationSpec


@dataclass(frozen=True)
class ActorCriticConfig(AgentConfig):
    """Settings of policies with a value."""

    encoder: Literal["concat", "max", "attention"] = "max"
    """How the encoded objects are joined: concatenated slot by slot, by their maximum, or by
    attention; the latter two take any number of objects in any order."""
    self_width: Size = 32
    """Units of the encoder of the vessel's own state, and of further vectors."""
    object_width: Size = 32
    """Units of the encoder of each object."""
    hidden_sizes: Sizes = (64, 64)
    """Units of each hidden layer."""
    actions: Literal["categorical", "gaussian", "clipped_gaussian"] = "categorical"
    """Distribution of the actions: one of the thrust pairs; normal numbers, squashed into (-1, 1);
    or normal numbers, clipped to [-1, 1]."""
    state_dependent_std: bool = False
    """The standard deviation of normal numbers is an output of the network, not a parameter."""
    log_std: Annotated[float, at_least(-10.0), at_most(2.0)] = -0.5
    """First log standard deviation of normal numbers."""
    critic: Literal["own", "fleet"] = "own"
    """What the value is estimated from: a robot's own observation, or those of all active robots of
    its environment."""
    normalize_observations: bool = False
    """Shift and scale what encoders are given by its running mean and standard deviation."""
    value_coef: NonNegative = 0.5
    """Weight of the value loss."""
    entropy: NonNegative = 0.001
    """Weight of the entropy at the start."""
    entropy_final: NonNegative = 0.0
    """At the end of the run; it falls linearly."""


ConfigType = TypeVar("ConfigType", bound=ActorCriticConfig)


class RolloutBatch(NamedTuple):
    """Robot-steps of a rollout, [B]; environment-steps [B, R] if the value is the fleet's."""

    observation: Observation
    action: Tensor
    """[B, 2], or [B] int64."""
    extras: dict[str, Tensor]
    """What ``explore`` gave beside the action."""
    advantage: Tensor
    """[B], estimated, perhaps normalised."""
    target: Tensor
    """[B], the advantage before normalisation plus the value at the time."""
    weight: Tensor
    """[B], 1 for active robots, 0 for others."""
    progress: Tensor
    """Scalar, the share of the run done."""

    @property
    def size(self) -> int:
        """B."""
        return int(self.advantage.shape[0])

    def part(self, rows: slice) -> RolloutBatch:
        """Some of the rows, without copies."""
        chosen: RolloutBatch = tree_map_only(
            Tensor, lambda each: each[rows] if each.ndim else each, self
        )
        return chosen


class ActorCriticNetwork(ObservationNetwork):
    """Parameters of the action's distribution, and a value; the encoder is shared."""

    def __init__(self, config: ActorCriticConfig, num_actions: int, spec: ObservationSpec) -> None:
        super().__init__(config, spec, config.normalize_observations)
        normal = config.actions != "categorical"
        outputs = (4 if config.state_dependent_std else 2) if normal else num_actions
        width = self.add_hidden(self.encoded, config.hidden_sizes)
        self.output_layer, self.value_layer = nn.Linear(width, outputs), nn.Linear(width, 1)
        fixed = normal and not config.state_dependent_std
        self.log_std = nn.Parameter(torch.full((2,), config.log_std)) if fixed else None
        self._log_std = config.log_std
        self.fleet = FleetTrunk(self.encoded, config) if config.critic == "fleet" else None
        orthogonal(self, math.sqrt(2.0))
        orthogonal(self.output_layer, 0.01)
        orthogonal(self.value_layer, 1.0)

    def forward(self, observation: Observation) -> tuple[Tensor, Tensor]:
        """Outputs [B, N] and value [B] of observations [B]."""
        encoded = self.encode(observation)
        features = self.trunk(encoded)
        valued = features if self.fleet is None else self.fleet(encoded, observation[ACTIVE])
        return self._heads(features), to_float32(self.value_layer(valued)).squeeze(-1)

    def policy(self, observation: Observation) -> Tensor:
        """Outputs [B, N] of observations [B]."""
        return self._heads(self.trunk(self.encode(observation)))

    def _heads(self, features: Tensor) -> Tensor:
        """Logits, or mean and log standard deviation, [B, 4]."""
        outputs = to_float32(self.output_layer(features))
        if self.log_std is not None:
            return torch.cat((outputs, self.log_std.expand_as(outputs)), -1)
        return outputs


class FleetTrunk(nn.Module):
    """Hidden layers on a robot's own features and the mean over the active robots."""

    def __init__(self, encoded: int, config: EncoderConfig) -> None:
        super().__init__()
        sizes = (2 * encoded, *config.hidden_sizes)
        layers = [nn.Linear(a, b) for a, b in pairwise(sizes)]
        self.layers = nn.Sequential(*(each for layer in layers for each in (layer, nn.ReLU())))

    def forward(self, encoded: Tensor, active: Tensor) -> Tensor:
        """Features [..., R, H] of encoded observations [..., R, F]; active is [..., R]."""
        there = active.to(encoded.dtype)[..., None]
        count = there.sum(-2, keepdim=True).clamp_min(1.0)
        mean = (encoded * there).sum(-2, keepdim=True) / count
        joined: Tensor = self.layers(torch.cat((encoded, mean.expand_as(encoded)), -1))
        return joined


class ActorCriticAgent(Agent[ConfigType]):
    """An on-policy agent; subclasses add the loss."""

    algorithm = "on-policy"
    output_meanings: ClassVar[dict[str, str]]

    def __init__(
        self, config: ConfigType, num_actions: int = 25, spec: ObservationSpec | None = None
    ) -> None:
        super().__init__(config, num_actions, spec)
        self.continuous = config.actions != "categorical"
        self.networks["policy"] = ActorCriticNetwork(config, num_actions, self.spec)
        if self.continuous:
            self.output_meanings = {  # type: ignore[misc]
                "mu": "mean of z, before it is squashed or clipped",
                "log_sigma": "log standard deviation of z",
            }
            squashed = "(2 / pi) atan(mu)" if config.actions == "gaussian" else "mu, clipped"
            self.selection_rule = squashed  # type: ignore[misc]
        else:
            self.output_meanings = {"logits": "log probability of each action, but for a constant"}  # type: ignore[misc]
            self.selection_rule = "the index of the highest logit"  # type: ignore[misc]

    @property
    def joint(self) -> bool:
        """Whether robots of an environment must be learned from together."""
        return self.config.critic == "fleet"

    def outputs(self, observation: Observation, risk: Tensor | None = None) -> dict[str, Tensor]:
        """Logits, or mean and log standard deviation; risk does not apply."""
        network: Any = self.networks["policy"]
        outputs = network.policy(observation)
        if not self.continuous:
            return {"logits": outputs}
        mean, log_std = outputs.chunk(2, -1)
        return {"mu": mean, "log_sigma": log_std}

    def select(self, outputs: dict[str, Tensor]) -> Tensor:
        """The most probable action."""
        if self.continuous:
            return self._bounded(outputs["mu"])
        return outputs["logits"].argmax(-1)

    def _bounded(self, sample: Tensor) -> Tensor:
        """A normal number as an action in [-1, 1]."""
        return squash(sample) if self.config.actions == "gaussian" else sample.clamp(-1.0, 1.0)

    def exploration_noise(self, batch: torch.Size, generator: torch.Generator) -> Tensor:
        """Standard normal [B, 2], or uniform [B, A]."""
        options: dict[str, Any] = {"generator": generator, "device": generator.device}
        if self.continuous:
            return torch.randn((*batch, 2), **options)
        return torch.rand((*batch, self.num_actions), **options)

    def explore(self, observation: Observation, noise: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """A sample, with its log probability and the value; of a normal number also itself."""
        outputs, value = self.networks["policy"](observation)
        if self.continuous:
            mean, log_std = outputs.chunk(2, -1)
            sample = mean + log_std.exp() * noise
            action, extras = self._bounded(sample), {"sample": sample}
        else:
            # The Gumbel trick: the largest of perturbed logits is a sample of their softmax.
            uniform = noise.clamp(1e-7, 1.0 - 1e-7)
            action, extras = (outputs - torch.log(-torch.log(uniform))).argmax(-1), {}
        log_prob, _ = self._density(outputs, action, extras)
        return action, {"log_prob": log_prob, "value": value, **extras}

    def evaluate(self, batch: RolloutBatch) -> tuple[Tensor, Tensor, Tensor]:
        """Log probability, entropy and value [B] under the present weights."""
        observation = {**batch.observation, ACTIVE: batch.weight > 0.0}
        outputs, value = self.networks["policy"](observation)
        log_prob, entropy = self._density(outputs, batch.action, batch.extras)
        return log_prob, entropy, value

    def _density(
        self, outputs: Tensor, action: Tensor, extras: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Log probability (density) of actions, and entropy, [B] each.

        The entropy of a squashed number is estimated at the sample.
        """
        if not self.continuous:
            log_probs = torch.log_softmax(outputs, -1)
            chosen = log_probs.gather(-1, action[..., None]).squeeze(-1)
            return chosen, -(log_probs.exp() * log_probs).sum(-1)
        mean, log_std = outputs.chunk(2, -1)
        log_prob = normal_log_density(extras["sample"], mean, log_std).sum(-1)
        entropy = (log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)
        if self.config.actions == "gaussian":
            slope = squash_log_slope(extras["sample"]).sum(-1)
            return log_prob - slope, entropy + slope
        return log_prob, entropy

    def entropy_weight(self, progress: Tensor) -> Tensor:
        """Weight of the entropy at a share of the run."""
        first, last = self.config.entropy, self.config.entropy_final
        return first + progress.clamp_max(1.0) * (last - first)


def weighted_mean(values: Tensor, weight: Tensor) -> Tensor:
    """Mean of values [B] with weights [B]; 0 if all weights are."""
    return (values * weight).sum() / weight.sum().clamp_min(1.0)
