"""Means of what updates report, without a visit to the host for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


class Meter:
    """Means of scalars, accumulated on the device and read once per log entry."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._count = 0

    def add(self, values: dict[str, Tensor]) -> None:
        """Add one set of scalars."""
        for name, value in values.items():
            # A captured update overwrites what it gave.
            self._sums[name] = self._sums[name] + value if self._count else value.clone()
        self._count += 1

    def read(self, others: dict[str, Tensor] | None = None) -> dict[str, float]:
        """The means since the last reading, and other scalars as they are, in one transfer."""
        means = {name: total / self._count for name, total in self._sums.items()}
        scalars = means | (others or {})
        self._sums, self._count = {}, 0
        if not scalars:
            return {}
        values: Iterable[float] = torch.stack([each.float() for each in scalars.values()]).tolist()
        return dict(zip(scalars, values, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """What has not been read yet."""
        return {"sums": dict(self._sums), "count": self._count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self._sums, self._count = dict(state["sums"]), state["count"]
