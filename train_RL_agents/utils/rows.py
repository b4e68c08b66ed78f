"""Rows of results, one per episode of a policy in a suite, from which alone all reported statistics are computed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from train_RL_agents.utils.statistics import hours_per, ratio_estimate, wilson_interval

OVERALL = "overall"
"""Name under which the results of all groups together are reported."""
_COLUMN_TYPES = {
    "success": torch.bool,
    "collision": torch.bool,
    "grounding": torch.bool,
    "time": torch.float64,
    "energy": torch.float64,
    "returns": torch.float64,
}
"""Types of the columns of Episodes; the others are int64."""
STORED_NAMES = {
    "success": "successes",
    "returns": "rewards",
    "time": "times",
    "energy": "energies",
    "collision": "collisions",
    "grounding": "groundings",
}
"""Names of columns of Episodes in evaluations.npz, which are those that the field uses."""


def nonfinite_to_none(content: Any) -> Any:
    """Return nested dicts and lists in which values that JSON cannot hold, nan and infinity, are None."""
    return json.loads(json.dumps(content), parse_constant=lambda name: None)


@dataclass(frozen=True)
class Episodes:
    """Outcomes of N episodes of one policy in one suite; all fields are tensors [N] on the CPU."""

    level: Tensor
    """int64 index of the level or of the group of scenarios."""
    success: Tensor
    """bool, true if every robot arrived."""
    collision: Tensor
    """bool, true if some robot collided."""
    robots: Tensor
    """Number of robots."""
    robots_arrived: Tensor
    """Number of robots that arrive if the others continue after a collision."""
    time: Tensor
    """Travel time up to the first collision, mean of the robots (s)."""
    energy: Tensor
    """Thrust spent up to the first collision, mean of the robots (N s)."""
    returns: Tensor
    """Sum of 0.99^t reward up to the first collision, mean of the robots."""
    grounding: Tensor | None = None
    """bool, true if some robot ran aground, which ``collision`` leaves out; None in open water."""

    def state_dict(self) -> dict[str, Tensor]:
        """Return the columns by name."""
        return {name: column for name, column in vars(self).items() if column is not None}

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor]) -> Episodes:
        """Return the episodes from the columns that ``state_dict`` returned."""
        for name, tensor in state.items():
            if tensor.dtype != _COLUMN_TYPES.get(name, torch.int64) or tensor.ndim != 1:
                raise ValueError(f"{name} is {tensor.ndim}-dimensional, {tensor.dtype}")
        return cls(**{name: tensor.cpu() for name, tensor in state.items()})

    def _rows(self, level: int | None) -> Tensor:
        """Return which rows are of a level, [N] bool; all rows if the level is None."""
        return torch.ones_like(self.success) if level is None else self.level == level

    def report(self, level: int | None = None) -> dict[str, Any]:
        """Return the metrics over all episodes, or over those of one level (its index), by name.

        They are ``episodes``; ``success_rate``, ``collision_rate``, ``timeout_rate`` and, in waters with shores,
        ``grounding_rate`` with the ends of their 95% Wilson intervals, such as ``success_low`` and ``success_high``;
        ``robot_success_rate``, the share of robots that arrive when episodes continue after a collision; ``avg_time``
        (s) and ``avg_energy`` (N s), means of successful episodes, None if there are none; and ``avg_return``, mean of
        all.
        """
        rows = self._rows(level)
        success = self.success & rows
        total = int(rows.sum())
        metrics: dict[str, Any] = {"episodes": total}
        ended = {"success": self.success, "collision": self.collision, "timeout": ~self.success & ~self.collision}
        if self.grounding is not None:
            ended["timeout"] = ended["timeout"] & ~self.grounding
            ended["grounding"] = self.grounding
        for name, flags in ended.items():
            count = int((flags & rows).sum())
            low, high = wilson_interval(count, total)
            metrics |= {f"{name}_rate": count / max(total, 1), f"{name}_low": low, f"{name}_high": high}
        any_success = bool(success.any())
        return metrics | {
            "robot_success_rate": float(self.robots_arrived[rows].sum() / self.robots[rows].sum()),
            "avg_time": float(self.time[success].mean()) if any_success else None,
            "avg_energy": float(self.energy[success].mean()) if any_success else None,
            "avg_return": float(self.returns[rows].mean()),
        }

    def levels(self, names: Sequence[str] | None = None) -> dict[str, int | None]:
        """Return the index of each level by its name (without names: "level 1" ...), and None for ``overall``, all."""
        present = sorted(set(self.level.tolist())) if names is None or names else []
        return {f"level {level + 1}" if names is None else names[level]: level for level in present} | {OVERALL: None}

    def table(self, names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return what ``report`` returns, by name of the level and overall; for the names see ``levels``."""
        return {name: self.report(level) for name, level in self.levels(names).items()}

    def exposure(self, level: int | None = None) -> dict[str, Any]:
        """Return ``vessel_hours`` up to the first collision, ``collisions``, and their ratio with its interval.

        In waters with shores, there are also the same of ``groundings``.
        """
        rows = self._rows(level)
        hours = float((self.time * self.robots)[rows].sum()) / 3600.0
        count = int((self.collision & rows).sum())
        exposure = {"vessel_hours": hours, "collisions": count} | hours_per("collision", hours, count)
        if self.grounding is None:
            return exposure
        count = int((self.grounding & rows).sum())
        return exposure | {"groundings": count} | hours_per("grounding", hours, count)

    def metrics(self, names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Return the metrics of ``report`` and of ``exposure`` by name of the level and overall; see ``levels``."""
        return {name: self.report(level) | self.exposure(level) for name, level in self.levels(names).items()}


def concatenate_episodes(several: Sequence[Episodes]) -> Episodes:
    """Concatenate the rows of several evaluations, all with or all without shores."""
    columns = [each.state_dict() for each in several]
    assert all(each.keys() == columns[0].keys() for each in columns)
    return Episodes(**{name: torch.cat([each[name] for each in columns]) for name in columns[0]})


def stored_arrays(evaluations: Sequence[Episodes]) -> dict[str, NDArray[Any]]:
    """Return the columns of N evaluations on the same K scenarios by their names in evaluations.npz, [N, K] each."""
    columns = [episodes.state_dict() for episodes in evaluations]
    return {
        name: torch.stack([each[column] for each in columns]).numpy()
        for column, name in STORED_NAMES.items()
        if all(column in each for each in columns)
    }


def group_masks(groups: Sequence[str]) -> dict[str, Tensor]:
    """Return the masks [N] bool of the episodes of each group and, as ``overall``, of all; N groups are given."""
    masks = {name: torch.tensor([name == group for group in groups]) for name in dict.fromkeys(groups)}
    return masks | {OVERALL: torch.ones(len(groups), dtype=torch.bool)}


# Pairs on the same episodes ---------------------------------------------------------------------


def paired_differences(first: Episodes, other: Episodes, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the difference of success rates, other less first, on the same episodes, and how often one won alone.

    They are by name of the group and overall; overall alone without names.
    """
    table = {}
    for name, level in first.levels(names).items():
        rows = first._rows(level)
        gain = other.success[rows].double() - first.success[rows].double()
        difference = ratio_estimate(gain.numpy(), torch.ones_like(gain).numpy()).entries("difference")
        table[name] = difference | {"won": int((gain > 0.0).sum()), "lost": int((gain < 0.0).sum())}
    return table
