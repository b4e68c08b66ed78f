"""The table of entries of the benchmark: each compared to the best on the same episodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from marinenav_env.validation import require
from train_RL_agents.evaluation.comparison import paired_difference
from train_RL_agents.evaluation.entry import Entry
from train_RL_agents.evaluation.tables import COLUMNS, cells, difference_cell
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
    for suite in next(iter(entries.values())).suites:
        results = {name: entry.suites[suite] for name, entry in entries.items()}
        order = sorted(results, key=lambda name: (-results[name].outcome.count("s"), name))
        best = results[order[0]]
        for name in order:
            own = results[name]
            same = (own.level, own.robots) == (best.level, best.robots)
            require(same, f"{name}: {suite}", "...", f"of the same episodes as in {order[0]}")
            difference = paired_difference(best.episodes, own.episodes)
            kept = own.conduct.get("overall", {}).get("rules_kept")
            rows.append([
                suite if own is best else "", name, *cells(asdict(own.episodes.report())),
                "-" if own is best else difference_cell(asdict(difference)),
                f"{own.astern:.3f}", "-" if kept is None else f"{kept:.2f}",
            ])  # fmt: skip
    titles = ["", "entry", "episodes", *MEANINGS]
    return TextTable(titles, rows, 2, ("success", BEST, "rules kept", "robot success"))
