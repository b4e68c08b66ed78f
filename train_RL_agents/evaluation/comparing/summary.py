"""Summary of evaluations in several suites: a row for each suite, and the groups with the least success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from train_RL_agents.evaluation.comparing.tables import (
    DIFFERENCE_COLUMN,
    METRIC_COLUMNS,
    RATE_COLUMNS,
    Evaluation,
    Result,
)
from train_RL_agents.results.rows import OVERALL
from train_RL_agents.results.table import Column, Table

_SUMMARY_COLUMNS = (
    METRIC_COLUMNS[0],
    METRIC_COLUMNS[1],
    METRIC_COLUMNS[-1],
    Column(
        "situations",
        "situations without collision",
        meaning="situations without a collision in any of their episodes, which differ in the measurement noise",
    ),
    Column(
        "rules_kept",
        "rules kept",
        ".2f",
        ("rules_kept_low", "rules_kept_high"),
        meaning="vessels with a duty that kept all of theirs",
    ),
    Column(
        "hours_per_broken_duty",
        "hours per broken duty",
        ".3f",
        ("hours_per_broken_duty_low", "hours_per_broken_duty_high"),
        meaning=RATE_COLUMNS["hours_per_broken_duty"],
    ),
    Column(
        "avoided",
        "avoided",
        ".2f",
        ("avoided_low", "avoided_high"),
        meaning="encounters without a collision of those whose collision was not unavoidable",
    ),
)


def summary_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the table of several suites, with a row for each suite and policy."""
    rows = [
        {"suite": each.setting["suite"], "policy": result.name, **_summary_row(result)}
        for each in evaluations
        for result in each.results
    ]
    several = len(evaluations[0].results) > 1
    keys = [Column("suite", ""), Column("policy")] if several else [Column("suite", "")]
    columns = [column for column in _SUMMARY_COLUMNS if any(column.name in row for row in rows)]
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
