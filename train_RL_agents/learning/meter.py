"""Means of the scalars of updates, without a host read for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from marinenav_env.validation import is_count


class Meter:
    """Means of scalars, accumulated on the device and read once per log entry."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def add(self, values: dict[str, Tensor], count: int = 1) -> None:
        """Add one set of scalars, or the sums of ``count`` sets, by one kernel."""
        for name, value in values.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros_like(value)
            self._counts[name] = self._counts.get(name, 0) + count
        # Into new tensors, as a captured update overwrites what it gave.
        totals = torch._foreach_add([self._sums[name] for name in values], [*values.values()])
        self._sums.update(zip(values, totals, strict=True))

    @property
    def losses(self) -> dict[str, Tensor]:
        """Sums since the last reading of what is minimised, and of the gradients' norm."""
        return {name: total for name, total in self._sums.items()
                if name.startswith("loss") or name == "grad_norm"}  # fmt: skip

    def read(self, others: dict[str, Tensor] | None = None) -> dict[str, float]:
        """The means since the last reading, and other scalars as they are, in one transfer."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        scalars = means | (others or {})
        self._sums, self._counts = {}, {}
        if not scalars:
            return {}
        values: Iterable[float] = torch.stack([each.float() for each in scalars.values()]).tolist()
        return dict(zip(scalars, values, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Sums that have not been read yet."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it.

        Raises:
            ValueError: when it is no such state.
        """
        sums = dict(state["sums"])
        # States of before had one count for all.
        one = "counts" not in state
        counts = dict.fromkeys(sums, state["count"]) if one else dict(state["counts"])
        fine = all(isinstance(each, Tensor) and each.ndim == 0 and each.is_floating_point()
                   for each in sums.values())  # fmt: skip
        fine &= all(is_count(each) and each > 0 for each in counts.values())
        if not fine or sums.keys() != counts.keys():
            raise ValueError("sums of scalars without their counts")
        self._sums, self._counts = sums, counts
