"""What AC-IQN and IQN share: settings of implicit quantile networks (Dabney et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from marinenav_env.validation import require_numbers
from train_RL_agents.agents.base import AgentConfig
from train_RL_agents.networks import Inputs


@dataclass(frozen=True)
class QuantileConfig(AgentConfig):
    """Settings of implicit quantile networks."""

    quantiles: int = 16
    """Quantile fractions N per network and update."""
    critics: int = 2
    """Independent networks that give values; targets are pessimistic over them."""
    embedding: Literal["late", "published"] = "late"
    """Where the fractions enter: after the last hidden layer, or as published, before the first."""
    layer_norm: bool = True
    """LayerNorm in the hidden layers of the networks that give values."""
    kappa: float = 1.0
    """Threshold of the Huber loss (scaled reward)."""
    risk: Literal["neutral", "adaptive"] = "adaptive"
    """How evaluations judge actions where no risk level is asked for: by their mean, or near other
    objects by their worst outcomes (see ``nearness_risk``)."""

    def __post_init__(self) -> None:
        require_numbers(self, "agent", ("quantiles",), at_least=1, at_most=1024)
        require_numbers(self, "agent", ("critics",), at_least=1, at_most=10)
        require_numbers(self, "agent", ("kappa",), above=0.0)


def midpoints(count: int) -> Tensor:
    """Middles [N] of N equal strata of (0, 1)."""
    return (torch.arange(count) + 0.5) / count


def draw_fractions(middles: Tensor, generator: torch.Generator) -> Tensor:
    """Two draws [2, N] of fractions, one from each stratum of given middles [N]."""
    count = middles.shape[0]
    jitter = torch.rand(2, count, generator=generator, device=generator.device)
    return middles + (jitter - 0.5) / count


def nearness_risk(inputs: Inputs, full: float = 10.0) -> Tensor:
    """Risk level [B] adapted to the closest object, clip(distance / full, 0, 1); 1 without any.

    Args:
        inputs: observations [B]; the mask may be of floating point, as exported networks have it.
        full: distance from which all outcomes count (m).
    """
    distance = torch.linalg.vector_norm(inputs.objects_state[..., :2], dim=-1)
    closest = torch.where(inputs.objects_mask.bool(), distance, torch.inf).amin(-1)
    return (closest / full).clamp(0.0, 1.0)


def risk_level(config: QuantileConfig, inputs: Inputs, asked: Tensor | None) -> Tensor | None:
    """The risk level [B] asked for, else the configured one; None for the mean."""
    if asked is None and config.risk == "adaptive":
        return nearness_risk(inputs)
    return asked
