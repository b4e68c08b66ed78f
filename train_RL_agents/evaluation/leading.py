"""Metrics at the head of certificates and tables: rates of collisions and broken rules, and external situations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from train_RL_agents.evaluation.entry import Entry, SuiteResult
from train_RL_agents.evaluation.suites import LONG_SUITE, UNRULY_SUITE
from train_RL_agents.evaluation.tables import ENCOUNTER_COLUMNS, METRIC_COLUMNS, RATE_COLUMNS, UNRULY_COLUMNS
from train_RL_agents.results.rows import OVERALL
from train_RL_agents.results.table import Column, Table

EXTERNAL_SUITES = ("dnv", "dnv_own", "imazu_ntnu", "imazu_ntnu_own")
"""Suites of traffic situations that other programs wrote."""
WEAKEST_GROUP_SUITE = "encounters_own"
"""Suite of random encounters, of which the kind of encounter with the most collisions is shown."""
FULL_CONTROL_SUITES = (LONG_SUITE, "fresh", "dnv", "imazu_ntnu")
"""Suites among LEADING_SUITES in which the policy controls all vessels."""
LEADING_SUITES = (LONG_SUITE, "fresh", *EXTERNAL_SUITES, UNRULY_SUITE, WEAKEST_GROUP_SUITE)
"""Suites with metrics at the head of certificates and tables, in their order."""

_COLLISION_RATE, _BROKEN_RATE = "hours_per_collision", "hours_per_broken_rule"
_COLLISION_COLUMN = next(column for column in METRIC_COLUMNS if column.name == _COLLISION_RATE)
_BROKEN_COLUMN = Column(
    _BROKEN_RATE,
    "hours per broken rule",
    ".3f",
    (f"{_BROKEN_RATE}_low", f"{_BROKEN_RATE}_high"),
    meaning=RATE_COLUMNS[_BROKEN_RATE],
)
_SITUATIONS_COLUMN = Column(
    "situations",
    "situations without collision",
    meaning="situations without a collision in any of their episodes, which differ in the measurement noise",
)
_KEPT_COLUMN = Column(
    "rules_kept",
    "rules kept",
    ".2f",
    ("rules_kept_low", "rules_kept_high"),
    meaning=ENCOUNTER_COLUMNS["rules_kept"].partition(";")[0],
)
_AVOIDED_COLUMN = Column(
    "avoided",
    "avoided",
    ".2f",
    ("avoided_low", "avoided_high"),
    meaning="encounters without a collision of those whose collision was not unavoidable",
)
_UNAVOIDABLE_COLUMN = Column("unavoidable", "unavoidable", ".3f", meaning=UNRULY_COLUMNS["unavoidable"])
_WEAKEST_COLUMN = Column(
    "weakest", "weakest group", meaning="group with the most collisions, and its share of episodes without one"
)
LEADING_COLUMNS = (
    _COLLISION_COLUMN,
    _BROKEN_COLUMN,
    _SITUATIONS_COLUMN,
    _KEPT_COLUMN,
    _AVOIDED_COLUMN,
    _UNAVOIDABLE_COLUMN,
    _WEAKEST_COLUMN,
)
"""Columns of the leading metrics of a suite."""


def leading_row(name: str, result: SuiteResult) -> dict[str, Any]:
    """Return the leading metrics of a suite by name; see LEADING_COLUMNS.

    Hours per collision are given for FULL_CONTROL_SUITES only, because in other suites most vessels are scripted and
    only one can collide.
    """
    row: dict[str, Any] = {**result.compliance.get(OVERALL, {}), **result.table[OVERALL]}
    if name not in FULL_CONTROL_SUITES:
        for key in (_COLLISION_RATE, *(_COLLISION_COLUMN.ends or ())):
            del row[key]
    if result.clear_situations is not None:
        row["situations"] = "{} of {}".format(*result.clear_situations)
    clear = {group: 1.0 - result.table[group]["collision_rate"] for group in result.groups}
    weakest = min(clear, key=lambda group: clear[group])
    group = weakest if clear[weakest] < 1.0 else "all groups"
    return row | ({"weakest": f"{group}: {clear[weakest]:.2f}"} if len(clear) > 1 else {})


def leading_table(entry: Entry) -> Table:
    """Return the table of the leading metrics of an entry, with a row for each suite."""
    suites = {name: entry.suites[name] for name in LEADING_SUITES if name in entry.suites}
    return Table(
        [Column("suite"), *LEADING_COLUMNS], [{"suite": name} | leading_row(name, r) for name, r in suites.items()]
    )


def rates_table(entries: Mapping[str, Entry]) -> Table:
    """Return the table of vessel-hours per collision and per broken rule by suite, with a row for each entry."""
    return _table_by_entry(
        entries, [(suite, column) for column in (_COLLISION_COLUMN, _BROKEN_COLUMN) for suite in LEADING_SUITES]
    )


def external_table(entries: Mapping[str, Entry]) -> Table:
    """Return the table of results in external situations, among misbehaving vessels and in the weakest encounters.

    There is a row for each entry.
    """
    shown = [(suite, column) for suite in EXTERNAL_SUITES for column in (_SITUATIONS_COLUMN, _KEPT_COLUMN)]
    return _table_by_entry(entries, [*shown, (UNRULY_SUITE, _AVOIDED_COLUMN), (WEAKEST_GROUP_SUITE, _WEAKEST_COLUMN)])


def _table_by_entry(entries: Mapping[str, Entry], shown: Sequence[tuple[str, Column]]) -> Table:
    """Return a table with a row for each entry and a column for each pair of a suite and a metric that occurs."""
    rows: list[dict[str, Any]] = []
    for name, entry in entries.items():
        metrics = {suite: leading_row(suite, entry.suites[suite]) for suite in LEADING_SUITES if suite in entry.suites}
        rows.append({f"{suite} {key}": value for suite, row in metrics.items() for key, value in row.items()})
        rows[-1]["entry"] = name
    columns, explained = [Column("entry", "")], set()
    for suite, column in shown:
        key = f"{suite} {column.name}"
        if any(key in row for row in rows):
            ends = None if column.ends is None else (f"{suite} {column.ends[0]}", f"{suite} {column.ends[1]}")
            meaning = "" if column.name in explained else column.meaning
            explained.add(column.name)
            columns.append(Column(key, f"{suite}: {column.title}", column.format, ends, meaning=meaning))
    return Table(columns, rows)
