"""Running scale of the returns, on the device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from marinenav_env.support.tensors import restore_tensors
from train_RL_agents.networks.normalization import RunningNorm


class ReturnScale:
    """Running standard deviation of the discounted return of all robots, to scale rewards by."""

    def __init__(self, gamma: float, device: torch.device) -> None:
        self._gamma = gamma
        self._norm = RunningNorm(1).to(device)
        self.moments = [*self._norm.buffers()]
        """Count, mean [1] and variance [1] of the returns so far."""
        self._return: Tensor | None = None

    def update(self, reward: Tensor, done: Tensor, active: Tensor) -> None:
        """Add the returns of some steps to the statistics.

        Args:
            reward: rewards [E, T, R].
            done: mask [E, T, R] of steps that end the robot's return.
            active: mask [E, T, R] of active robots.
        """
        total = torch.zeros_like(reward[:, 0]) if self._return is None else self._return
        returns = []
        for t in range(reward.shape[1]):
            total = self._gamma * total + reward[:, t]
            returns.append(total)
            total = torch.where(done[:, t], 0.0, total)
        self._return = total
        self._norm.update(torch.stack(returns, 1)[..., None], active)

    def scale_rewards(self, reward: Tensor) -> Tensor:
        """Return rewards divided by the standard deviation of the return."""
        return reward / (self._norm.variance.sqrt() + 1e-6)

    def reset(self) -> None:
        """Drop the unfinished returns."""
        self._return = None

    def state_dict(self) -> dict[str, Any]:
        """Return ``moments`` and ``return``, the unfinished returns [E, R] or None, by name."""
        return {"moments": [moment.clone() for moment in self.moments], "return": self._return}

    def load_state_dict(self, state: dict[str, Any], blank: Tensor) -> None:
        """Restore the result of ``state_dict``.

        Args:
            state: result of ``state_dict``.
            blank: tensor [E, R] of the rewards' dtype, which becomes the unfinished returns.

        Raises:
            RuntimeError: when a shape or dtype differs, or a number is not finite.
        """
        restore_tensors(dict(enumerate(self.moments)), dict(enumerate(state["moments"])))
        self._return = None if state["return"] is None else blank
        if self._return is not None:
            restore_tensors({"return": blank}, {"return": state["return"]})
