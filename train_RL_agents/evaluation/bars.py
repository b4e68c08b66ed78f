"""What counts as a pass in the benchmark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from train_RL_agents.evaluation.entry import Entry, SuiteResult
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS
from train_RL_agents.results.statistics import Estimate, ratio_estimate, wilson_interval

_NO_INTERVAL = "astern"
"""The figure of which an entry has no value for each episode."""


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
    time = episodes.time[rows & episodes.success].numpy()
    arrived, robots = (each[rows].double().numpy() for each in (episodes.robots_arrived, episodes.robots))
    ratio, low, high = ratio_estimate(arrived, robots)
    count = int(rows.sum())
    # Where episodes do not differ, as if each had one vessel.
    ends = (low, high) if low < high else wilson_interval(round(ratio * count), count)
    found = {"robot_success_rate": Estimate(ratio, max(ends[0], 0.0), min(ends[1], 1.0))}
    if len(time):
        found["avg_time"] = ratio_estimate(time, np.ones_like(time))
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
            ends = 1.0 - row["collision_high"], 1.0 - row["collision_low"]
            return Estimate(1.0 - row["collision_rate"], *ends)
        value = row.get(self.figure)
        if value is None or self.figure == _NO_INTERVAL:
            return None if value is None else Estimate(value, value, value)
        if self.figure in (means := mean_estimates(result, self.group)):
            return means[self.figure]
        name = self.figure.removesuffix("_rate")
        if f"{name}_low" in row:
            return Estimate(value, row[f"{name}_low"], row[f"{name}_high"])
        count = report["episodes"]
        return Estimate(value, *wilson_interval(round(value * count), count))

    def passed(self, value: float) -> bool:
        """Whether a value is enough."""
        return value <= self.bound if self.at_most else value >= self.bound


def _fleets(suite: str, about: str, bound: float, group: str = "overall") -> Bar:
    return Bar(f"{about}: whole fleets arrive", suite, "success_rate", bound, group)


def _crowd(robots: int, fleets: float, vessels: float) -> tuple[Bar, Bar]:
    group = f"{robots} robots"
    about = f"Crowd of {robots} vessels"
    return (
        _fleets("crowd", about, fleets, group),
        Bar(f"{about}: vessels that arrive", "crowd", "robot_success_rate", vessels, group),
    )


BARS = (
    _fleets("fresh", "Published levels", 0.98),
    Bar("Published levels: travel time (s)", "fresh", "avg_time", 23.0, at_most=True),
    Bar("Published levels: steps astern", "fresh", "astern", 0.03, at_most=True),
    *(Bar(f"Rules kept by two vessels, {kind}", "rules", "compliance", 0.95, kind) for kind in ENCOUNTERS),
    Bar("Imazu's problems: no collision", "imazu", "no_collision", 0.97),
    Bar("Imazu's problems: every vessel kept the rules", "imazu", "all_kept", 0.85),
    _fleets("currents", "Currents", 0.94),
    *_crowd(10, 0.97, 0.995),
    *_crowd(20, 0.90, 0.99),
    *_crowd(50, 0.50, 0.98),
    _fleets("vessels", "Vessels drawn at random", 0.96),
    _fleets("weather", "Moderate wind and waves", 0.95),
    _fleets("noise", "Sensor noise x 4", 0.97, "noise x 4"),
)
