"""Summary of evaluations in several suites: a row for each suite, and the groups with the least success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from train_RL_agents.evaluation.comparing.tables import (
    COMPLIANCE_COLUMNS,
    DIFFERENCE_COLUMN,
    METRIC_COLUMNS,
    Evaluation,
    Result,
)
from train_RL_agents.results.rows import OVERALL
from train_RL_agents.results.table import Column, Table

_SITUATIONS = Column(
    "situations",
    "situations without collision",
    meaning="situations without a collision in any of their episodes, which differ in the measurement noise",
)
_COLUMNS = {column.name: column for column in (*METRIC_COLUMNS, *COMPLIANCE_COLUMNS, _SITUATIONS)}
_SUMMARY_COLUMNS = (
    *("success_rate", "collision_rate", "hours_per_collision", "situations"),
    *("rules_kept", "hours_per_broken_duty", "avoided"),
)
"""Names of the columns of the summary, of which those that no suite has are left out."""


def summary_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the table of several suites, with a row for each suite and policy."""
    rows = [
        {"suite": each.setting["suite"], "policy": result.name, **_summary_row(result)}
        for each in evaluations
        for result in each.results
    ]
    several = len(evaluations[0].results) > 1
    keys = [Column("suite", ""), Column("policy")] if several else [Column("suite", "")]
    columns = [_COLUMNS[name] for name in _SUMMARY_COLUMNS if any(name in row for row in rows)]
    compared = [DIFFERENCE_COLUMN] if several else []
    return Table([*keys, Column("episodes"), *columns, *compared], rows, len(keys), ("success", "collision"))


def _summary_row(result: Result) -> dict[str, Any]:
    """Return the metrics of a suite for the table of several suites."""
    row = {
        **(result.compliance or {}).get(OVERALL, {}),
        **result.overall,
        **(result.differences or {}).get(OVERALL, {}),
    }
    if result.situations is not None:
        row["situations"] = "{without_collision} of {all}".format(**result.situations)
    return row


def worst_groups(evaluations: Sequence[Evaluation], count: int) -> list[dict[str, Any]]:
    """Return the metrics of the groups of scenarios with the least success, of all suites and policies, worst first."""
    rows = [
        {"suite": each.setting["suite"], "policy": result.name, "group": group, **row}
        for each in evaluations
        for result in each.results
        for group, row in result.metrics.items()
        if row["success_rate"] < 1.0 and (group != OVERALL or len(result.metrics) == 1)
    ]
    return sorted(rows, key=lambda row: (row["success_rate"], -row["episodes"]))[:count]


def show_all(evaluations: Sequence[Evaluation]) -> None:
    """Print the tables of one evaluation, or the summary of several."""
    if len(evaluations) == 1:
        evaluations[0].show()
    else:
        summary_table(evaluations).print("; ".join(result.policy_text() for result in evaluations[0].results))
