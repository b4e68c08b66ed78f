"""Means of the scalars of updates and of training episodes, accumulated on the device."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env.specs import GROUP, STATISTICS
from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import is_nonnegative_int

_LOG_NAMES = {
    "return": "episode_return",
    "length": "episode_length",
    "success": "success_rate",
    "collision": "collision_rate",
    "grounding": "grounding_rate",
}
"""Names under which the means of episode statistics are logged, for those that are logged under another name."""


class Meter:
    """Means of scalars of updates, accumulated on the device and read once per log entry."""

    def __init__(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def add(self, values: dict[str, Tensor]) -> None:
        """Add one set of scalars by name, with one kernel."""
        for name, value in values.items():
            if name not in self._sums:
                self._sums[name] = torch.zeros_like(value)
            self._counts[name] = self._counts.get(name, 0) + 1
        # The sums are new tensors, because a captured update overwrites its results.
        totals = torch._foreach_add([self._sums[name] for name in values], [*values.values()])
        self._sums.update(zip(values, totals, strict=True))

    @property
    def loss_sums(self) -> dict[str, Tensor]:
        """Return the sums of losses and of gradient norms since the last ``read``, by name, on the device."""
        return {name: total for name, total in self._sums.items() if name.startswith("loss") or name == "grad_norm"}

    def read(self, others: dict[str, Tensor] | None = None) -> dict[str, float]:
        """Return means since the last ``read`` and ``others`` unchanged, by name, in one transfer from the device."""
        means = {name: total / self._counts[name] for name, total in self._sums.items()}
        scalars = means | (others or {})
        self._sums, self._counts = {}, {}
        if not scalars:
            return {}
        values: Iterable[float] = torch.stack([scalar.float() for scalar in scalars.values()]).tolist()
        return dict(zip(scalars, values, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Return the ``sums`` and ``counts`` of the scalars since the last ``read``, by name."""
        return {"sums": dict(self._sums), "counts": dict(self._counts)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        sums, counts = dict(state["sums"]), dict(state["counts"])
        are_scalars = all(
            isinstance(total, Tensor) and total.ndim == 0 and total.is_floating_point() for total in sums.values()
        )
        are_counts = all(is_nonnegative_int(count) and count > 0 for count in counts.values())
        if not (are_scalars and are_counts) or sums.keys() != counts.keys():
            raise ValueError("sums of scalars without their counts")
        self._sums, self._counts = sums, counts


class EpisodeMeter:
    """Means of the statistics, by ``names`` of their columns, of the training episodes that end between readings."""

    def __init__(self, example: TensorDictBase, names: Sequence[str]) -> None:
        self._tags = [_LOG_NAMES.get(name, name) for name in names]
        # Never replaced, because captured code writes to this memory.
        self._count = torch.zeros((), dtype=torch.int64, device=example.device)
        dtype = example.get(("next", GROUP, "reward")).dtype
        self._sums = torch.zeros(len(names), dtype=dtype, device=example.device)

    def add(self, steps: TensorDictBase) -> None:
        """Add the episodes that end in steps [E, T]."""
        if self._tags:
            done, statistics = steps.get(("next", "done")), steps.get(("next", STATISTICS))
            self._count.add_(done.sum())
            self._sums.add_(torch.where(done, statistics, 0.0).sum((0, 1)))

    def sums(self) -> dict[str, Tensor]:
        """Return the number of episodes since the last ``read`` and the sums of their statistics, by log name."""
        if not self._tags:
            return {}
        return {"episodes": self._count, **dict(zip(self._tags, self._sums.unbind(), strict=True))}

    def read(self, values: dict[str, float], ranks: int = 1) -> dict[str, float]:
        """Return the number of episodes and the means of their statistics, and reset the sums."""
        if not self._tags:
            return {}
        count, *sums = (values.pop(name) for name in ("episodes", *self._tags))
        self._count.zero_()
        self._sums.zero_()
        means = zip(self._tags, sums, strict=True) if count else ()
        return {"episodes": ranks * count, **{name: total / count for name, total in means}}

    def state_dict(self) -> dict[str, Any]:
        """Return the number ``count`` of episodes and the ``sums`` [S] of their statistics since the last ``read``."""
        return {"count": self._count.clone(), "sums": self._sums.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        restore_tensors({"count": self._count, "sums": self._sums}, state)
