"""Running scale of the returns, on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from train_RL_agents.networks.normalization import merge


class ReturnScale:
    """Divides rewards by the running standard deviation of the discounted return.

    Args:
        gamma: discount per step.
    """

    def __init__(self, gamma: float) -> None:
        self._gamma = gamma
        self._moments: tuple[Tensor, Tensor, Tensor] | None = None
        self._return: Tensor | None = None

    def __call__(self, reward: Tensor, done: Tensor, active: Tensor) -> Tensor:
        """Scaled rewards.

        Args:
            reward: [E, T, R].
            done: [E, T, R] whether the robot's stream ends with the step.
            active: [E, T, R].
        """
        if self._moments is None:
            self._moments = reward.new_zeros(()), reward.new_zeros(1), reward.new_ones(1)
        total = torch.zeros_like(reward[:, 0]) if self._return is None else self._return
        returns = []
        for t in range(reward.shape[1]):
            total = self._gamma * total + reward[:, t]
            returns.append(total)
            total = torch.where(done[:, t], 0.0, total)
        self._return = total
        values = torch.stack(returns, 1).reshape(-1, 1)
        weight = active.reshape(-1).to(values.dtype)
        self._moments = merge(*self._moments, values, weight)
        return reward / (self._moments[2].sqrt() + 1e-6)

    def state_dict(self) -> dict[str, Any]:
        """Moments and open returns."""
        return {"moments": self._moments, "return": self._return}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        moments = state["moments"]
        self._moments = None if moments is None else tuple(moments)
        self._return = state["return"]
