"""Scaling of losses for gradients in float16, without a host read."""

from __future__ import annotations

import torch
from torch import Tensor

from marinenav_env.stepping.reset_pool import restore

_LARGEST = 2.0**24
"""Factor; float32 gradients have room for it."""


class LossScale:
    """Keeps gradients within the range of float16, as torch.amp.GradScaler.

    Losses are multiplied by a factor. Where that makes gradients infinite or NaN, the update is
    undone and the factor halved; after many updates without, it is doubled.

    Args:
        device: of the losses.
        interval: updates after which the factor is doubled.
    """

    def __init__(self, device: torch.device, interval: int = 2000) -> None:
        self.factor = torch.tensor(65_536.0, device=device)
        """What losses are multiplied by."""
        self._since = torch.zeros((), device=device)
        self._interval = interval

    def undo(self, moved: list[Tensor], before: list[Tensor], norm: Tensor) -> Tensor:
        """Restore what an update moved if the norm of its gradient is not finite.

        Returns:
            The norm, 0 of an update that was undone.
        """
        finite = norm.isfinite()
        for each, old in zip(moved, before, strict=True):
            each.copy_(torch.where(finite, each, old))
        since = torch.where(finite, self._since + 1.0, 0.0)
        grows = since >= self._interval
        factor = torch.where(grows, 2.0, torch.where(finite, 1.0, 0.5))
        self.factor.mul_(factor).clamp_(1.0, _LARGEST)
        self._since.copy_(torch.where(grows, 0.0, since))
        return torch.where(finite, norm, 0.0)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the factor and counter."""
        return {"factor": self.factor, "since": self._since}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore them."""
        restore(self.state_dict(), state)
