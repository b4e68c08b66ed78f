"""Paired comparison on the same scenarios, which cancels their difficulty."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from train_RL_agents.evaluation.episodes import Episodes

RESAMPLES = 10_000
"""Bootstrap samples behind an interval."""


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


def paired_difference(
    first: Episodes, other: Episodes, level: int | None = None, seed: int = 0
) -> Difference:
    """Compare the success of two policies, episode by episode.

    An episode's difference is -1, 0 or 1, so that drawing N episodes with replacement is one
    multinomial draw of how often each of the three comes.

    Args:
        first: the policy that is compared to.
        other: on the same scenarios in the same order.
        level: only episodes of this level or group.
        seed: of the bootstrap.
    """
    rows = np.ones(len(first.success), bool) if level is None else first.level.numpy() == level
    ours, theirs = (each.success.numpy()[rows] for each in (other, first))
    won, lost = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
    total = len(ours)
    shares = np.array([won, lost, total - won - lost]) / total
    drawn = np.random.default_rng(seed).multinomial(total, shares, RESAMPLES)
    low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / total, (0.025, 0.975)).tolist()
    return Difference((won - lost) / total, low, high, won, lost)


def differences(
    first: Episodes, other: Episodes, names: tuple[str, ...]
) -> dict[str, dict[str, Any]]:
    """Differences by group and overall, as plain numbers.

    Args:
        first: the policy that is compared to.
        other: on the same scenarios.
        names: of the groups.
    """
    levels = sorted(set(first.level.tolist())) if names else []
    table = {names[level]: asdict(paired_difference(first, other, level)) for level in levels}
    return table | {"overall": asdict(paired_difference(first, other))}
