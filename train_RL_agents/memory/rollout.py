"""Steps of the present policy, until there are enough to learn from."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase


class Rollout:
    """Collects chunks of vector steps.

    Args:
        length: vector steps of a complete rollout.
    """

    def __init__(self, length: int) -> None:
        self.length = length
        self._chunks: list[TensorDictBase] = []

    @property
    def full(self) -> bool:
        """Whether the rollout is complete."""
        return sum(chunk.shape[1] for chunk in self._chunks) >= self.length

    @property
    def steps(self) -> TensorDictBase:
        """All steps so far, [E, T]."""
        if len(self._chunks) == 1:
            return self._chunks[0]
        joined: TensorDictBase = torch.cat(self._chunks, 1)
        return joined

    def extend(self, steps: TensorDictBase) -> None:
        """Add steps [E, T]."""
        whole = steps.shape[1] == self.length
        # Steps of a graph are overwritten by the next one.
        self._chunks.append(steps if whole else steps.apply(torch.Tensor.clone))

    def clear(self) -> None:
        """Begin the next rollout."""
        self._chunks = []

    def state_dict(self) -> dict[str, Any]:
        """The steps so far."""
        return {"steps": self.steps.to_dict()} if self._chunks else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them."""
        self._chunks = []
        if state:
            shape = state["steps"]["reward"].shape[:2]
            self._chunks = [TensorDict(state["steps"], shape)]
