"""Levels whose vessels and sensors differ from the world's: parameters drawn for every scenario."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import Level
from marinenav_env.state import Parameters

HEAVIER, STRONGER = ("m", "Izz"), ("min_thrust", "max_thrust")
"""Parameters of the vessel that are drawn together."""


class ParameterSampler:
    """Draws parameters of scenarios, without reading anything back.

    Args:
        shared: of the world, batch [1].
        levels: say by how much they vary.
        robots: R.
    """

    def __init__(self, shared: Parameters, levels: tuple[Level, ...], robots: int) -> None:
        self._shared, self._robots = shared, robots
        self.varies = any(level.noise != 1.0 or level.vessel_spread != 1.0 for level in levels)
        """Whether any level differs from the world."""
        self.spread = max(level.vessel_spread for level in levels)
        """Largest factor on a vessel's mass or thrust."""
        like: Any = {"dtype": shared.vessel.m.dtype, "device": shared.vessel.m.device}
        self._noise = torch.tensor([level.noise for level in levels], **like)
        self._spread = torch.tensor([math.log(level.vessel_spread) for level in levels], **like)

    def sample(self, level: Tensor, generator: torch.Generator) -> Parameters:
        """Draw the parameters of scenarios.

        Args:
            level: [P] int64, index into the levels.
            generator: source of randomness.

        Returns:
            Batch [P]; factors of vessels are drawn evenly on a logarithmic scale.
        """
        size = (2, len(level), self._robots)
        chance = torch.rand(size, generator=generator, device=level.device, dtype=self._noise.dtype)
        factors = torch.exp(self._spread[level][:, None] * (2.0 * chance - 1.0))
        drawn = self._shared[torch.zeros_like(level)]
        for names, factor in zip((HEAVIER, STRONGER), factors, strict=True):
            for name in names:
                drawn.vessel.set(name, drawn.vessel.get(name) * factor)
        for name in ("pos_std", "vel_std"):
            drawn.sensor.set(name, drawn.sensor.get(name) * self._noise[level][:, None])
        return drawn
