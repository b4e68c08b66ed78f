"""What counts as a pass in the benchmark."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from train_RL_agents.evaluation.entry import Entry, SuiteResult
from train_RL_agents.evaluation.episodes import wilson_interval
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS

Estimate = tuple[float, float, float]
"""A value with the ends of its 95% interval."""
_NO_INTERVAL = "astern"
"""The figure of which an entry has no value for each episode."""


def ratio_estimate(values: Tensor, counts: Tensor) -> Estimate:
    """Estimate a ratio of sums over independent episodes, with its 95% normal interval.

    Args:
        values: [N] of each episode.
        counts: [N] what they are divided by.
    """
    ratio, number = float(values.sum() / counts.sum()), len(values)
    rest = float(((values - ratio * counts) ** 2).sum()) * number / max(number - 1, 1)
    half = 1.96 * math.sqrt(rest) / float(counts.sum())
    return ratio, ratio - half, ratio + half


def mean_estimates(result: SuiteResult, group: str) -> dict[str, Estimate]:
    """Estimate the travel time (s) of successful episodes, and the share of vessels that arrive.

    Args:
        result: of a suite.
        group: one of its groups, or ``overall``.

    Returns:
        By the names that reports have; without a success there is no time.
    """
    episodes = result.episodes
    rows = torch.ones_like(episodes.success)
    if group != "overall":
        rows = episodes.level == result.groups.index(group)
    time = episodes.time[rows & episodes.success]
    ratio, low, high = ratio_estimate(episodes.robots_arrived[rows].double(), episodes.robots[rows])
    count = int(rows.sum())
    # Where episodes do not differ, as if each had one vessel.
    ends = (low, high) if low < high else wilson_interval(round(ratio * count), count)
    found = {"robot_success_rate": (ratio, max(ends[0], 0.0), min(ends[1], 1.0))}
    if len(time):
        found["avg_time"] = ratio_estimate(time, torch.ones_like(time))
    return found


@dataclass(frozen=True)
class Bar:
    """A figure with the value that it has to reach."""

    about: str
    """What is measured."""
    suite: str
    figure: str
    """Of a report, or of conduct; or ``astern``, or ``no_collision``."""
    bound: float
    group: str = "overall"
    at_most: bool = False
    """Whether the bound is an upper one."""

    def measured(self, entry: Entry) -> Estimate | None:
        """The value; None where there is none, as without a single success."""
        result = entry.suites.get(self.suite)
        if result is None:
            return None
        report = result.episodes.table(result.groups).get(self.group)
        if report is None:
            return None
        row = {**report, **result.conduct.get(self.group, {}), "astern": result.astern}
        if self.figure == "no_collision":
            low, high = 1.0 - row["collision_high"], 1.0 - row["collision_low"]
            return 1.0 - row["collision_rate"], low, high
        value = row.get(self.figure)
        if value is None or self.figure == _NO_INTERVAL:
            return None if value is None else (value, value, value)
        if self.figure in (means := mean_estimates(result, self.group)):
            return means[self.figure]
        name = self.figure.removesuffix("_rate")
        if f"{name}_low" in row:
            return value, row[f"{name}_low"], row[f"{name}_high"]
        count = report["episodes"]
        return value, *wilson_interval(round(value * count), count)

    def passed(self, value: float) -> bool:
        """Whether a value is enough."""
        return value <= self.bound if self.at_most else value >= self.bound


def _fleets(suite: str, about: str, bound: float, group: str = "overall") -> Bar:
    return Bar(f"{about}: whole fleets arrive", suite, "success_rate", bound, group)


def _crowd(robots: int, fleets: float, vessels: float) -> tuple[Bar, Bar]:
    group = f"{robots} robots"
    about = f"Crowd of {robots} vessels"
    return (_fleets("crowd", about, fleets, group),
            Bar(f"{about}: vessels that arrive", "crowd", "robot_success_rate", vessels,
                group))  # fmt: skip


BARS = (
    _fleets("fresh", "Published levels", 0.98),
    Bar("Published levels: travel time (s)", "fresh", "avg_time", 23.0, at_most=True),
    Bar("Published levels: steps astern", "fresh", "astern", 0.03, at_most=True),
    *(Bar(f"Rules kept by two vessels, {kind}", "rules", "compliance", 0.95, kind)
      for kind in ENCOUNTERS),
    Bar("Imazu's problems: no collision", "imazu", "no_collision", 0.97),
    Bar("Imazu's problems: every vessel kept the rules", "imazu", "all_kept", 0.85),
    _fleets("currents", "Currents", 0.94),
    *_crowd(10, 0.97, 0.995),
    *_crowd(20, 0.90, 0.99),
    *_crowd(50, 0.50, 0.98),
    _fleets("vessels", "Vessels drawn at random", 0.96),
    _fleets("weather", "Moderate wind and waves", 0.95),
    _fleets("noise", "Sensor noise x 4", 0.97, "noise x 4"),
)  # fmt: skip
