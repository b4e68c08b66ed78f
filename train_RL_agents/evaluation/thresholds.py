"""Thresholds that metrics of the benchmark have to reach to count as a pass."""

from __future__ import annotations

from dataclasses import dataclass

from train_RL_agents.evaluation.entry import Entry
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS
from train_RL_agents.results.statistics import Estimate


@dataclass(frozen=True)
class Threshold:
    """A metric of a suite's results, with the bound that its value has to reach."""

    about: str
    """Description of the metric."""
    suite: str
    """Name of the suite."""
    metric: str
    """Name of the metric, see ``SuiteResult.estimates``."""
    bound: float
    """Value that the metric has to reach."""
    group: str = "overall"
    """Name of the group of scenarios."""
    at_most: bool = False
    """True if the bound is an upper bound, false if it is a lower bound."""

    def estimate_in(self, entry: Entry) -> Estimate | None:
        """Return the estimate of the metric in an entry; None without one, such as travel time without a success."""
        result = entry.suites.get(self.suite)
        return None if result is None else result.estimates(self.group).get(self.metric)

    def is_reached_by(self, value: float) -> bool:
        """Return whether a value reaches the bound."""
        return value <= self.bound if self.at_most else value >= self.bound


def _fleet_threshold(suite: str, title: str, bound: float, group: str = "overall") -> Threshold:
    return Threshold(f"{title}: whole fleets arrive", suite, "success_rate", bound, group)


def _crowd_thresholds(robots: int, fleets: float, vessels: float) -> tuple[Threshold, Threshold]:
    group = f"{robots} robots"
    title = f"Crowd of {robots} vessels"
    return (
        _fleet_threshold("crowd", title, fleets, group),
        Threshold(f"{title}: vessels that arrive", "crowd", "robot_success_rate", vessels, group),
    )


THRESHOLDS = (
    _fleet_threshold("fresh", "Published levels", 0.98),
    Threshold("Published levels: travel time (s)", "fresh", "avg_time", 23.0, at_most=True),
    Threshold("Published levels: steps astern", "fresh", "astern", 0.03, at_most=True),
    *(Threshold(f"Rules kept by two vessels, {kind}", "rules", "compliance", 0.95, kind) for kind in ENCOUNTERS),
    Threshold("Imazu's problems: no collision", "imazu", "no_collision", 0.97),
    Threshold("Imazu's problems: every vessel kept the rules", "imazu", "all_kept", 0.85),
    _fleet_threshold("currents", "Currents", 0.94),
    *_crowd_thresholds(10, 0.97, 0.995),
    *_crowd_thresholds(20, 0.90, 0.99),
    *_crowd_thresholds(50, 0.50, 0.98),
    _fleet_threshold("vessels", "Vessels drawn at random", 0.96),
    _fleet_threshold("weather", "Moderate wind and waves", 0.95),
    _fleet_threshold("noise", "Sensor noise x 4", 0.97, "noise x 4"),
)
"""All thresholds, in the order of reports."""
