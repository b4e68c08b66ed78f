"""Scaling of losses for gradients in float16, without reading values on the host."""

import torch
from torch import Tensor

from marinenav_env.support.tensors import restore_tensors

_MAX_FACTOR = 2.0**24
"""Upper bound of the factor that losses are multiplied by, up to which float32 can represent the gradients."""


class LossScale:
    """Loss scaling that keeps gradients within the range of float16, like torch.amp.GradScaler.

    Losses are multiplied by a factor. When gradients become infinite or NaN, the update is undone and the factor
    halved, down to 1; after ``interval`` finite updates in a row, the factor is doubled.
    """

    def __init__(self, device: torch.device, interval: int = 2000) -> None:
        self.factor = torch.tensor(65_536.0, device=device)
        self._finite_updates = torch.zeros((), device=device)
        self._interval = interval

    def undo_if_not_finite(self, tensors: list[Tensor], before: list[Tensor], norm: Tensor) -> Tensor:
        """Write ``before`` into the updated tensors if the norm of the gradient is not finite, and adapt the factor.

        Returns the norm; 0 if the update was undone and a smaller factor is left to try.
        """
        finite, is_smallest = norm.isfinite(), self.factor <= 1.0
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(torch.where(finite, tensor, old))
        since = torch.where(finite, self._finite_updates + 1.0, 0.0)
        grows = since >= self._interval
        factor = torch.where(grows, 2.0, torch.where(finite, 1.0, 0.5))
        self.factor.mul_(factor).clamp_(1.0, _MAX_FACTOR)
        self._finite_updates.copy_(torch.where(grows, 0.0, since))
        return torch.where(finite | is_smallest, norm, 0.0)

    def state_dict(self) -> dict[str, Tensor]:
        """Return the scalars ``factor`` and ``since``, the number of finite updates since it changed, by name."""
        return {"factor": self.factor, "since": self._finite_updates}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the result of ``state_dict``."""
        restore_tensors(self.state_dict(), state)
