"""Tables of the entries of the benchmark, each compared with the best one on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marinenav_env.support.validation import require
from train_RL_agents.evaluation.entry import SUCCESS, Entry, SuiteResult
from train_RL_agents.evaluation.leading import LEADING_COLUMNS, external_table, rates_table
from train_RL_agents.evaluation.suites import SUITES
from train_RL_agents.evaluation.tables import (
    ENCOUNTER_COLUMNS,
    METRIC_COLUMNS,
    RATE_COLUMNS,
    RULES_COLUMNS,
    TIE_MEANING,
    UNRULY_COLUMNS,
    difference_column,
    smallest_difference_text,
)
from train_RL_agents.results.rows import OVERALL, paired_difference
from train_RL_agents.results.statistics import SIGNIFICANCE_LEVEL, sign_test
from train_RL_agents.results.table import Column, Table

BEST_DIFFERENCE = difference_column(
    "than the best", "success rate less that of the best of the suite on the same episodes"
)
_BROKEN_RATE = "hours_per_broken_rule"
_EXPLAINED_COLUMNS = (
    Column("rank", meaning=f"place, from best to worst of those that are tied with the best of them; {TIE_MEANING}"),
    *METRIC_COLUMNS,
    BEST_DIFFERENCE,
    Column("astern", format=".3f", meaning="share of the steps in which vessels go astern"),
    Column("rules_kept", "rules kept", ".2f", meaning="vessels with a duty that kept the rules"),
    Column(
        _BROKEN_RATE,
        _BROKEN_RATE.replace("_", " "),
        ".3f",
        (f"{_BROKEN_RATE}_low", f"{_BROKEN_RATE}_high"),
        meaning=RATE_COLUMNS[_BROKEN_RATE],
    ),
)
_COLUMNS = (Column("entry"), Column("episodes"), *_EXPLAINED_COLUMNS)
RANKING_MEANINGS = {column.title: column.meaning for column in _EXPLAINED_COLUMNS}
"""Meanings of the columns of the ranking by title."""


def ranking_table(entries: Mapping[str, Entry]) -> Table:
    """Return the table of the entries by suite, those with the most successes first.

    Args:
        entries: at least one entry by name, all on the scenarios of the benchmark.

    Raises:
        ConfigError: when the episodes of two entries differ in number, group or number of vessels.
    """
    rows = [{"suite": suite, **row} for suite in common_suites(entries) for row in _suite_rows(entries, suite)]
    important = ("rank", "success", BEST_DIFFERENCE.title, "rules kept", "robot success")
    return Table([Column("suite", ""), *_COLUMNS], rows, 2, important)


def common_suites(entries: Mapping[str, Entry]) -> list[str]:
    """Return the names of the suites that all entries have."""
    first, *others = entries.values()
    return [suite for suite in first.suites if all(suite in entry.suites for entry in others)]


def _results_by_success(entries: Mapping[str, Entry], suite: str) -> dict[str, SuiteResult]:
    """Return the results of a suite by name of the entry, those with the most successes first."""
    results = {name: entry.suites[suite] for name, entry in entries.items()}
    order = sorted(results, key=lambda name: (-results[name].outcome.count(SUCCESS), name))
    return {name: results[name] for name in order}


def _discordant_counts(first: SuiteResult, other: SuiteResult) -> tuple[int, int]:
    """Return in how many episodes only the first result is a success, and in how many only the other one."""
    ours, theirs = first.episodes.success, other.episodes.success
    return int((ours & ~theirs).sum()), int((theirs & ~ours).sum())


def _rank_ranges(results: Sequence[SuiteResult]) -> list[tuple[int, int]]:
    """Return the first and the last place of each result's group: all results that are tied with the group's best.

    Args:
        results: results on the same episodes, the best first.
    """
    starts = [0]
    for place, result in enumerate(results):
        if sign_test(*_discordant_counts(results[starts[-1]], result)) < SIGNIFICANCE_LEVEL:
            starts.append(place)
    ends = [*starts[1:], len(results)]
    return [(start + 1, end) for start, end in zip(starts, ends, strict=True) for _ in range(start, end)]


def tie_text(entries: Mapping[str, Entry], suite: str) -> str:
    """Return which places in a suite are tied, and the smallest difference of success rates that it can show.

    The difference is the one that a sign test between the best two detects with a probability of 0.8.
    """
    first, *others = _results_by_success(entries, suite).values()
    groups = dict.fromkeys(_rank_ranges([first, *others]))
    ties = [f"{low} to {high} tied" for low, high in groups if low < high] or ["no ties"]
    discordant = sum(_discordant_counts(first, others[0])) if others else 0
    return f"{', '.join(ties)}; {smallest_difference_text(len(first.outcome), discordant)}"


def _suite_rows(entries: Mapping[str, Entry], suite: str) -> list[dict[str, Any]]:
    """Return a row for each entry in a suite, those with the most successes first."""
    results = _results_by_success(entries, suite)
    first, best = next(iter(results.items()))
    rows: list[dict[str, Any]] = []
    for name, result in results.items():
        same = (result.level, result.robots) == (best.level, best.robots)
        require(same, f"{name}: {suite}", "...", f"of the same episodes as in {first}")
        kept = result.compliance.get(OVERALL, {})
        row = {"entry": name, **result.table[OVERALL], "astern": result.astern}
        row |= {
            key: kept.get(key) for key in ("rules_kept", _BROKEN_RATE, f"{_BROKEN_RATE}_low", f"{_BROKEN_RATE}_high")
        }
        rows.append(row | (paired_difference(best.episodes, result.episodes) if name != first else {}))
    for row, (low, high) in zip(rows, _rank_ranges([*results.values()]), strict=True):
        row["rank"] = f"{low}" if low == high else f"{low} to {high}"
    return rows


def leading_tables(entries: Mapping[str, Entry]) -> dict[str, Table]:
    """Return the tables that precede those of the suites, by title; see the module ``leading``."""
    external = external_table(entries)
    tables = {
        "Vessel-hours per collision and per broken rule, with exact 95% Poisson intervals": rates_table(entries),
        "Situations that others wrote, vessels that misbehave, and the weakest kind of random encounters": external,
    }
    return {title: table for title, table in tables.items() if len(table.columns) > 1}


def markdown_page(entries: Mapping[str, Entry], heading: str) -> str:
    """Return the entries in Markdown: rates, external situations, success by suite, then each suite with its groups.

    Args:
        entries: at least one entry by name, all on the scenarios of the benchmark.
        heading: heading of the page.
    """
    rates = {
        name: {suite: result.table[OVERALL]["success_rate"] for suite, result in entry.suites.items()}
        for name, entry in entries.items()
    }
    introduction = "All met the same scenarios. Written by `marinenav submit --table`."
    parts = [f"# {heading}", introduction]
    for title, table in leading_tables(entries).items():
        parts += [f"{title}:", table.markdown()]
    parts += ["Success by suite:", _table_by_policy(common_suites(entries), rates, ".3f")]
    for suite in common_suites(entries):
        description = SUITES[suite].about
        ties = tie_text(entries, suite)
        parts += [f"## {suite}", f"{description[0].upper()}{description[1:]}.", f"{ties[0].upper()}{ties[1:]}."]
        parts += [Table(_COLUMNS, _suite_rows(entries, suite)).markdown(), *_group_tables(entries, suite)]
    meanings = {column.title: column.meaning for column in LEADING_COLUMNS} | RANKING_MEANINGS
    columns = "\n".join(f"- {name}: {meaning}." for name, meaning in meanings.items())
    return "\n\n".join(part.rstrip("\n") for part in [*parts, "## Columns", columns]) + "\n"


def _group_tables(entries: Mapping[str, Entry], suite: str) -> list[str]:
    """Return Markdown tables of a suite's results per group of scenarios; empty if there is only one group."""
    results = {name: entry.suites[suite] for name, entry in entries.items()}
    groups = next(iter(results.values())).groups
    if len(groups) == 1:
        return []
    metrics = {
        name: {
            group: f"{result.table[group]['success_rate']:.2f} ({result.table[group]['robot_success_rate']:.3f})"
            for group in groups
        }
        for name, result in results.items()
    }
    parts = ["Success by group, and robots that arrive:", _table_by_policy(groups, metrics)]
    scored = {name: result.compliance for name, result in results.items() if result.compliance}
    if scored:
        columns = next(iter(next(iter(scored.values())).values()))
        key = next(name for name in ("rules_kept", "compliance", "avoided") if name in columns)
        kept = {name: {group: rows.get(group, {}).get(key) for group in groups} for name, rows in scored.items()}
        title = "Avoided" if key == "avoided" else "Rules kept"
        meaning = (ENCOUNTER_COLUMNS | RULES_COLUMNS | UNRULY_COLUMNS)[key].partition(";")[0]
        parts += [f"{title} ({meaning}):", _table_by_policy(groups, kept, ".2f")]
    return parts


def _table_by_policy(names: Sequence[str], metrics: Mapping[str, Mapping[str, Any]], digits: str = "") -> str:
    """Return a Markdown table with a row per policy and a column per name; ``metrics`` has names by policy."""
    rows = [{"": entry, **row} for entry, row in metrics.items()]
    return Table([Column(""), *(Column(name, format=digits) for name in names)], rows).markdown()
