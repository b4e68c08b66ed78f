"""The table of entries of the benchmark: each compared to the best on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from marinenav_env.support.validation import require
from train_RL_agents.evaluation.entry import Entry
from train_RL_agents.evaluation.outcomes import paired_difference
from train_RL_agents.evaluation.suites import SUITES
from train_RL_agents.evaluation.tables import (
    CONDUCT,
    FIGURES,
    MARKS,
    difference_column,
)
from train_RL_agents.results.table import Column, Table

BEST = difference_column("than the best", "success rate less that of the best of the suite on the same episodes")
_MEANT = (
    *FIGURES,
    BEST,
    Column("astern", format=".3f", meaning="share of the steps in which vessels go astern"),
    Column("rules_kept", "rules kept", ".2f", meaning="vessels with a duty that kept the rules"),
)
_COLUMNS = (Column("entry"), Column("episodes"), *_MEANT)
MEANINGS = {column.title: column.meaning for column in _MEANT}
"""What the columns mean."""
Rows = list[dict[str, Any]]


def rank(entries: Mapping[str, Entry]) -> Table:
    """Entries by suite, those with the most successes first.

    Args:
        entries: at least one, all on the scenarios of the benchmark, by name.

    Raises:
        ConfigError: when one has other numbers of episodes or vessels than another.
    """
    rows = []
    for suite in _suites(entries):
        first, *others = _suite_rows(entries, suite)
        rows += [{"suite": suite, **first}, *({"suite": "", **row} for row in others)]
    important = ("success", BEST.title, "rules kept", "robot success")
    return Table([Column("suite", ""), *_COLUMNS], rows, 2, important)


def _suites(entries: Mapping[str, Entry]) -> list[str]:
    """The suites of all entries."""
    return list(next(iter(entries.values())).suites)


def _suite_rows(entries: Mapping[str, Entry], suite: str) -> Rows:
    """Return the entries on a suite, those with the most successes first."""
    results = {name: entry.suites[suite] for name, entry in entries.items()}
    order = sorted(results, key=lambda name: (-results[name].outcome.count("s"), name))
    best = results[order[0]]
    rows = []
    for name in order:
        own = results[name]
        same = (own.level, own.robots) == (best.level, best.robots)
        require(same, f"{name}: {suite}", "...", f"of the same episodes as in {order[0]}")
        row = {
            "entry": name,
            **asdict(own.episodes.report()),
            "astern": own.astern,
            "rules_kept": own.conduct.get("overall", {}).get("rules_kept"),
        }
        if own is not best:
            row |= asdict(paired_difference(best.episodes, own.episodes))
        rows.append(row)
    return rows


# As a page --------------------------------------------------------------------------------------


def page(entries: Mapping[str, Entry], heading: str) -> str:
    """The entries in Markdown: success of all suites, then each suite with its groups.

    Args:
        entries: as for ``rank``.
        heading: of the page.
    """
    suites = _suites(entries)
    rates = {
        name: {suite: entry.suites[suite].episodes.report().success_rate for suite in suites}
        for name, entry in entries.items()
    }
    about = "All met the same scenarios. Written by `marinenav submit --table`; success by suite:"
    parts = [f"# {heading}", about, _of_entries(suites, rates, ".3f")]
    for suite in suites:
        about = SUITES[suite].about
        parts += [f"## {suite}", f"{about[0].upper()}{about[1:]}."]
        parts.append(Table(_COLUMNS, _suite_rows(entries, suite)).markdown())
        parts += _by_group(entries, suite)
    columns = "\n".join(f"- {name}: {meaning}." for name, meaning in MEANINGS.items())
    return "\n\n".join(part.rstrip("\n") for part in [*parts, "## Columns", columns]) + "\n"


def _by_group(entries: Mapping[str, Entry], suite: str) -> list[str]:
    """Tables of the groups of a suite, where it has several."""
    results = {name: entry.suites[suite] for name, entry in entries.items()}
    groups = next(iter(results.values())).groups
    if len(groups) == 1:
        return []
    figures: dict[str, dict[str, Any]] = {}
    for name, result in results.items():
        reports = result.episodes.table(groups)
        figures[name] = {
            group: f"{reports[group]['success_rate']:.2f} ({reports[group]['robot_success_rate']:.3f})"
            for group in groups
        }
    parts = ["Success by group, and robots that arrive:", _of_entries(groups, figures)]
    marked = {name: result.conduct for name, result in results.items() if result.conduct}
    if marked:
        known = next(iter(next(iter(marked.values())).values()))
        key = "rules_kept" if "rules_kept" in known else "compliance"
        kept = {name: {group: conduct.get(group, {}).get(key) for group in groups} for name, conduct in marked.items()}
        about = (MARKS | CONDUCT)[key].partition(";")[0]
        parts += [f"Rules kept ({about}):", _of_entries(groups, kept, ".2f")]
    return parts


def _of_entries(names: Sequence[str], figures: Mapping[str, Mapping[str, Any]], digits: str = "") -> str:
    """Return a table in Markdown with a row for each entry, and a column for each of some names."""
    rows = [{"": entry, **row} for entry, row in figures.items()]
    return Table([Column(""), *(Column(name, format=digits) for name in names)], rows).markdown()
