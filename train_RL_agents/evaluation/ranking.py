"""The table of entries of the benchmark: each compared to the best on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from marinenav_env.support.validation import require
from train_RL_agents.evaluation.entry import Entry
from train_RL_agents.evaluation.outcomes import paired_difference
from train_RL_agents.evaluation.suites import SUITES
from train_RL_agents.evaluation.tables import (
    COLUMNS,
    CONDUCT,
    MARKS,
    cells,
    difference_cell,
    markdown_table,
)
from train_RL_agents.utils.text_tables import TextTable

BEST = "than the best"
MEANINGS = COLUMNS | {
    BEST: "success rate less that of the best of the suite on the same episodes, with the 95% "
    "paired bootstrap interval",
    "astern": "share of the steps in which vessels go astern",
    "rules kept": "vessels with a duty that kept the rules",
}  # fmt: skip
"""What the columns mean."""


def rank(entries: Mapping[str, Entry]) -> TextTable:
    """Entries by suite, those with the most successes first.

    Args:
        entries: at least one, all on the scenarios of the benchmark, by name.

    Raises:
        ConfigError: when one has other numbers of episodes or vessels than another.
    """
    rows = []
    for suite in _suites(entries):
        first, *others = _suite_rows(entries, suite)
        rows += [[suite, *first], *(["", *row] for row in others)]
    titles = ["", "entry", "episodes", *MEANINGS]
    return TextTable(titles, rows, 2, ("success", BEST, "rules kept", "robot success"))


def _suites(entries: Mapping[str, Entry]) -> list[str]:
    """The suites of all entries."""
    return list(next(iter(entries.values())).suites)


def _suite_rows(entries: Mapping[str, Entry], suite: str) -> list[list[str]]:
    """Entries on a suite, those with the most successes first."""
    results = {name: entry.suites[suite] for name, entry in entries.items()}
    order = sorted(results, key=lambda name: (-results[name].outcome.count("s"), name))
    best = results[order[0]]
    rows = []
    for name in order:
        own = results[name]
        same = (own.level, own.robots) == (best.level, best.robots)
        require(same, f"{name}: {suite}", "...", f"of the same episodes as in {order[0]}")
        difference = paired_difference(best.episodes, own.episodes)
        kept = own.conduct.get("overall", {}).get("rules_kept")
        rows.append([
            name, *cells(asdict(own.episodes.report())),
            "-" if own is best else difference_cell(asdict(difference)),
            f"{own.astern:.3f}", _share(kept),
        ])  # fmt: skip
    return rows


# As a page --------------------------------------------------------------------------------------


def page(entries: Mapping[str, Entry], heading: str) -> str:
    """The entries in Markdown: success of all suites, then each suite with its groups.

    Args:
        entries: as for ``rank``.
        heading: of the page.
    """
    suites = _suites(entries)
    rows = [[name, *(f"{entry.suites[suite].episodes.report().success_rate:.3f}"
                     for suite in suites)] for name, entry in entries.items()]  # fmt: skip
    about = "All met the same scenarios. Written by `marinenav submit --table`; success by suite:"
    parts = [f"# {heading}", about, markdown_table(["", *suites], rows)]
    for suite in suites:
        about = SUITES[suite].about
        parts += [f"## {suite}", f"{about[0].upper()}{about[1:]}."]
        titles = ["entry", "episodes", *MEANINGS]
        parts.append(markdown_table(titles, _suite_rows(entries, suite)))
        parts += _by_group(entries, suite)
    columns = "\n".join(f"- {name}: {meaning}." for name, meaning in MEANINGS.items())
    return "\n\n".join(part.rstrip("\n") for part in [*parts, "## Columns", columns]) + "\n"


def _by_group(entries: Mapping[str, Entry], suite: str) -> list[str]:
    """Tables of the groups of a suite, where it has several."""
    results = {name: entry.suites[suite] for name, entry in entries.items()}
    groups = next(iter(results.values())).groups
    if len(groups) == 1:
        return []
    rows = []
    for name, result in results.items():
        reports = [result.episodes.report(number) for number in range(len(groups))]
        rows.append([name, *(f"{each.success_rate:.2f} ({each.robot_success_rate:.3f})"
                             for each in reports)])  # fmt: skip
    parts = ["Success by group, and robots that arrive:", markdown_table(["", *groups], rows)]
    marked = [(name, result.conduct) for name, result in results.items() if result.conduct]
    if marked:
        known = next(iter(marked[0][1].values()))
        key = "rules_kept" if "rules_kept" in known else "compliance"
        rows = [[name, *(_share(conduct.get(group, {}).get(key)) for group in groups)]
                for name, conduct in marked]  # fmt: skip
        about = (MARKS | CONDUCT)[key].partition(";")[0]
        parts += [f"Rules kept ({about}):", markdown_table(["", *groups], rows)]
    return parts


def _share(value: float | None) -> str:
    """A share in a table; - where nothing was counted."""
    return "-" if value is None else f"{value:.2f}"
