"""Tables of the entries of the benchmark, each compared with the best one on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marinenav_env.support.validation import require
from train_RL_agents.evaluation.entry import SUCCESS, Entry, SuiteResult
from train_RL_agents.evaluation.leading import COLUMNS as LEADING_COLUMNS
from train_RL_agents.evaluation.leading import others_table, rates_table
from train_RL_agents.evaluation.suites import SUITES
from train_RL_agents.evaluation.tables import (
    ENCOUNTER_COLUMNS,
    METRIC_COLUMNS,
    RATE_COLUMNS,
    RULES_COLUMNS,
    TIED,
    UNRULY_COLUMNS,
    difference_column,
    smallest_text,
)
from train_RL_agents.results.rows import OVERALL, paired_difference
from train_RL_agents.results.statistics import SIGNIFICANCE_LEVEL, sign_test
from train_RL_agents.results.table import Column, Table

BEST = difference_column("than the best", "success rate less that of the best of the suite on the same episodes")
_RATE = "hours_per_broken_rule"
_MEANT = (
    Column("rank", meaning=f"place, from best to worst of those that are tied with the best of them; {TIED}"),
    *METRIC_COLUMNS,
    BEST,
    Column("astern", format=".3f", meaning="share of the steps in which vessels go astern"),
    Column("rules_kept", "rules kept", ".2f", meaning="vessels with a duty that kept the rules"),
    Column(_RATE, _RATE.replace("_", " "), ".3f", (f"{_RATE}_low", f"{_RATE}_high"), meaning=RATE_COLUMNS[_RATE]),
)
_COLUMNS = (Column("entry"), Column("episodes"), *_MEANT)
MEANINGS = {column.title: column.meaning for column in _MEANT}
"""Meanings of the columns of the ranking by title."""


def rank(entries: Mapping[str, Entry]) -> Table:
    """Return the table of the entries by suite, those with the most successes first.

    Args:
        entries: at least one entry by name, all on the scenarios of the benchmark.

    Raises:
        ConfigError: when the episodes of two entries differ in number, group or number of vessels.
    """
    rows = [{"suite": suite, **row} for suite in suites_of(entries) for row in _suite_rows(entries, suite)]
    important = ("rank", "success", BEST.title, "rules kept", "robot success")
    return Table([Column("suite", ""), *_COLUMNS], rows, 2, important)


def suites_of(entries: Mapping[str, Entry]) -> list[str]:
    """Return the names of the suites that all entries have."""
    first, *others = entries.values()
    return [suite for suite in first.suites if all(suite in entry.suites for entry in others)]


def _in_order(entries: Mapping[str, Entry], suite: str) -> dict[str, SuiteResult]:
    """Return the results of a suite by name of the entry, those with the most successes first."""
    results = {name: entry.suites[suite] for name, entry in entries.items()}
    order = sorted(results, key=lambda name: (-results[name].outcome.count(SUCCESS), name))
    return {name: results[name] for name in order}


def _discordant(first: SuiteResult, other: SuiteResult) -> tuple[int, int]:
    """Return the numbers of episodes in which only the first, and in which only the other result is a success."""
    ours, theirs = first.episodes.success, other.episodes.success
    return int((ours & ~theirs).sum()), int((theirs & ~ours).sum())


def _ranks(results: Sequence[SuiteResult]) -> list[tuple[int, int]]:
    """Return the first and the last place of each result's group: all results that are tied with the group's best.

    Args:
        results: results on the same episodes, the best first.
    """
    starts = [0]
    for place, result in enumerate(results):
        if sign_test(*_discordant(results[starts[-1]], result)) < SIGNIFICANCE_LEVEL:
            starts.append(place)
    ends = [*starts[1:], len(results)]
    return [(start + 1, end) for start, end in zip(starts, ends, strict=True) for _ in range(start, end)]


def tie_line(entries: Mapping[str, Entry], suite: str) -> str:
    """Return a line with the tied places in a suite, and the smallest difference that it shows between the best two."""
    first, *others = _in_order(entries, suite).values()
    groups = dict.fromkeys(_ranks([first, *others]))
    ties = [f"{low} to {high} tied" for low, high in groups if low < high] or ["no ties"]
    discordant = sum(_discordant(first, others[0])) if others else 0
    return f"{', '.join(ties)}; {smallest_text(len(first.outcome), discordant)}"


def _suite_rows(entries: Mapping[str, Entry], suite: str) -> list[dict[str, Any]]:
    """Return a row for each entry in a suite, those with the most successes first."""
    results = _in_order(entries, suite)
    first, best = next(iter(results.items()))
    rows: list[dict[str, Any]] = []
    for name, result in results.items():
        same = (result.level, result.robots) == (best.level, best.robots)
        require(same, f"{name}: {suite}", "...", f"of the same episodes as in {first}")
        kept = result.compliance.get(OVERALL, {})
        row = {"entry": name, **result.table[OVERALL], "astern": result.astern}
        row |= {key: kept.get(key) for key in ("rules_kept", _RATE, f"{_RATE}_low", f"{_RATE}_high")}
        rows.append(row | (paired_difference(best.episodes, result.episodes) if name != first else {}))
    for row, (low, high) in zip(rows, _ranks([*results.values()]), strict=True):
        row["rank"] = f"{low}" if low == high else f"{low} to {high}"
    return rows


def leading_tables(entries: Mapping[str, Entry]) -> dict[str, Table]:
    """Return the tables that precede those of the suites, by title; see the module ``leading``."""
    tables = {
        "Vessel-hours per collision and per broken rule, with exact 95% Poisson intervals": rates_table(entries),
        "Situations that others wrote, vessels that misbehave, and the weakest kind of random encounters": others_table(
            entries
        ),
    }
    return {title: table for title, table in tables.items() if len(table.columns) > 1}


def page(entries: Mapping[str, Entry], heading: str) -> str:
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
    parts += ["Success by suite:", _table_by_policy(suites_of(entries), rates, ".3f")]
    for suite in suites_of(entries):
        description = SUITES[suite].about
        ties = tie_line(entries, suite)
        parts += [f"## {suite}", f"{description[0].upper()}{description[1:]}.", f"{ties[0].upper()}{ties[1:]}."]
        parts += [Table(_COLUMNS, _suite_rows(entries, suite)).markdown(), *_by_group(entries, suite)]
    meanings = {column.title: column.meaning for column in LEADING_COLUMNS} | MEANINGS
    columns = "\n".join(f"- {name}: {meaning}." for name, meaning in meanings.items())
    return "\n\n".join(part.rstrip("\n") for part in [*parts, "## Columns", columns]) + "\n"


def _by_group(entries: Mapping[str, Entry], suite: str) -> list[str]:
    """Return Markdown tables of a suite's results per scenario group; empty if it has only one group."""
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
    """Return a Markdown table with one row per policy and one column per name."""
    rows = [{"": entry, **row} for entry, row in metrics.items()]
    return Table([Column(""), *(Column(name, format=digits) for name in names)], rows).markdown()
