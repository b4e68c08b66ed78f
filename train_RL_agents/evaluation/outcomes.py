"""Outcomes of episodes, and the figures that are reported of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from train_RL_agents.results.statistics import wilson_interval, won_and_lost

_TYPES = {
    "success": torch.bool,
    "collision": torch.bool,
    "time": torch.float64,
    "energy": torch.float64,
    "returns": torch.float64,
}
"""Of the tensors of Episodes; the others are int64."""


def finite(content: Any) -> Any:
    """Nested figures with None for values that are not finite, which JSON does not have."""
    if isinstance(content, dict):
        return {name: finite(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content


@dataclass(frozen=True)
class Report:
    """Figures of a set of episodes."""

    episodes: int
    """Episodes evaluated."""
    success_rate: float
    """Share of episodes in which every robot arrived."""
    success_low: float
    """Lower end of its 95% Wilson interval."""
    success_high: float
    """Upper end."""
    collision_rate: float
    """Share of episodes with a collision."""
    collision_low: float
    """Lower end of its 95% Wilson interval."""
    collision_high: float
    """Upper end."""
    timeout_rate: float
    """Share of episodes without a collision in which some robot did not arrive in time."""
    timeout_low: float
    """Lower end of its 95% Wilson interval."""
    timeout_high: float
    """Upper end."""
    robot_success_rate: float
    """Share of robots that arrive when episodes continue after a collision."""
    avg_time: float | None
    """Travel time per robot (s), mean over successful episodes; None if there are none."""
    avg_energy: float | None
    """Thrust spent per robot (N s), mean over successful episodes; None if there are none."""
    avg_return: float
    """Sum of 0.99^t reward per robot, mean over all episodes."""


@dataclass(frozen=True)
class Episodes:
    """Outcomes of N episodes; tensors [N] on the CPU."""

    level: Tensor
    success: Tensor
    collision: Tensor
    robots: Tensor
    robots_arrived: Tensor
    time: Tensor
    energy: Tensor
    returns: Tensor

    def report(self, level: int | None = None) -> Report:
        """Figures over all episodes, or over those of one level."""
        rows = torch.ones_like(self.success) if level is None else self.level == level
        total = int(rows.sum())
        success, collision = self.success & rows, self.collision & rows
        timeout = rows & ~success & ~collision
        counts = [int(flags.sum()) for flags in (success, collision, timeout)]
        intervals = [wilson_interval(count, total) for count in counts]
        rates = [count / max(total, 1) for count in counts]
        success_rate, collision_rate, timeout_rate = rates
        (success_low, success_high), (collision_low, collision_high), timeout_ends = intervals
        return Report(
            total,
            success_rate,
            success_low,
            success_high,
            collision_rate,
            collision_low,
            collision_high,
            timeout_rate,
            *timeout_ends,
            robot_success_rate=float(self.robots_arrived[rows].sum() / self.robots[rows].sum()),
            avg_time=float(self.time[success].mean()) if counts[0] else None,
            avg_energy=float(self.energy[success].mean()) if counts[0] else None,
            avg_return=float(self.returns[rows].mean()),
        )

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return dict(vars(self))

    @classmethod
    def from_state_dict(cls, state: dict[str, Tensor]) -> Episodes:
        """The inverse of state_dict.

        Raises:
            ValueError: when a tensor is of another type.
        """
        found = cls(**{name: tensor.cpu() for name, tensor in state.items()})
        for name, tensor in vars(found).items():
            if tensor.dtype != _TYPES.get(name, torch.int64) or tensor.ndim != 1:
                raise ValueError(f"{name} is {tensor.ndim}-dimensional, {tensor.dtype}")
        return found

    def table(self, names: Sequence[str] | None = None) -> dict[str, dict[str, Any]]:
        """Reports by level and overall, as plain numbers.

        Args:
            names: of the levels; "level 1" and so on if None.
        """
        levels = sorted(set(self.level.tolist()))
        named = {level: f"level {level + 1}" if names is None else names[level] for level in levels}
        table = {name: asdict(self.report(level)) for level, name in named.items()}
        return table | {"overall": asdict(self.report())}


# On the same episodes ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Difference:
    """Difference of success rates of two policies on the same episodes."""

    difference: float
    """Success rate less that of the first policy."""
    difference_low: float
    """Lower end of its 95% paired bootstrap interval."""
    difference_high: float
    """Upper end."""
    won: int
    """Episodes in which only this policy succeeds."""
    lost: int
    """Episodes in which only the first policy succeeds."""


def paired_difference(first: Episodes, other: Episodes, level: int | None = None, seed: int = 0) -> Difference:
    """Compare the success of two policies, episode by episode, so that difficulty cancels.

    Args:
        first: the policy that is compared to.
        other: on the same scenarios in the same order.
        level: only episodes of this level or group.
        seed: of the bootstrap.
    """
    rows = torch.ones_like(first.success) if level is None else first.level == level
    ours, theirs = other.success[rows], first.success[rows]
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    value, low, high = won_and_lost(won, lost, len(ours), seed)
    return Difference(value, float(low), float(high), won, lost)


def differences(first: Episodes, other: Episodes, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return differences by group and overall, as plain numbers.

    Args:
        first: the policy that is compared to.
        other: on the same scenarios.
        names: of the groups.
    """
    levels = sorted(set(first.level.tolist())) if names else []
    table = {names[level]: asdict(paired_difference(first, other, level)) for level in levels}
    return table | {"overall": asdict(paired_difference(first, other))}
