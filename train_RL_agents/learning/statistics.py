"""Running scale of the returns, on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marinenav_env.stepping.reset_pool import restore
from train_RL_agents.networks.normalization import merge


class ReturnScale:
    """The running standard deviation of the discounted return.

    Args:
        gamma: discount per step.
        device: of the rewards.
    """

    def __init__(self, gamma: float, device: torch.device) -> None:
        self._gamma = gamma
        self.moments = [torch.zeros((), device=device), torch.zeros(1, device=device), torch.ones(1, device=device)]
        """Count, mean and variance of the returns so far."""
        self._return: Tensor | None = None

    def update(self, reward: Tensor, done: Tensor, active: Tensor) -> None:
        """Take in the returns up to each of some steps.

        Args:
            reward: [E, T, R].
            done: [E, T, R] whether the robot's stream ends with the step.
            active: [E, T, R].
        """
        total = torch.zeros_like(reward[:, 0]) if self._return is None else self._return
        returns = []
        for t in range(reward.shape[1]):
            total = self._gamma * total + reward[:, t]
            returns.append(total)
            total = torch.where(done[:, t], 0.0, total)
        self._return = total
        values = torch.stack(returns, 1).reshape(-1, 1)
        count, mean, variance = self.moments
        self.moments = list(merge(count, mean, variance, values, active.reshape(-1).to(values)))

    def scaled(self, reward: Tensor) -> Tensor:
        """Return the rewards divided by the standard deviation."""
        return reward / (self.moments[2].sqrt() + 1e-6)

    def restart(self) -> None:
        """Forget returns whose continuation will not come."""
        self._return = None

    def state_dict(self) -> dict[str, Any]:
        """Return the moments and open returns."""
        return {"moments": self.moments, "return": self._return}

    def load_state_dict(self, state: dict[str, Any], blank: Tensor) -> None:
        """Restore them.

        Args:
            state: what ``state_dict`` gave.
            blank: [E, R] of the rewards' type, which becomes the open returns.

        Raises:
            RuntimeError: when they are of another shape or type, or not finite.
        """
        restore(dict(enumerate(self.moments)), dict(enumerate(state["moments"])))
        self._return = None if state["return"] is None else blank
        if self._return is not None:
            restore({"return": blank}, {"return": state["return"]})
