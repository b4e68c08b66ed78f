"""Tables of an evaluation: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

COLUMNS = {
    "success": "episodes in which every robot arrives, with the 95% Wilson interval; "
    "an episode stops at its first collision",
    "collision": "episodes with a collision",
    "time-out": "episodes without a collision in which some robot did not arrive in time",
    "robot success": "robots that arrive when episodes continue after a collision",
    "time": "travel time per robot (s), mean over successful episodes",
    "energy": "thrust spent per robot (N s), mean over successful episodes",
    "return": "sum of 0.99^t reward per robot, mean over all episodes",
}
"""What each column of the table means."""
DIFFERENCE = "than the first"
COMPARED = COLUMNS | {
    DIFFERENCE: "success rate less that of the first policy on the same episodes, "
    "with the 95% paired bootstrap interval"
}
"""The same for a comparison."""

CONDUCT = {
    "compliance": "encounters without a collision in which the rules were kept: head-on both turn "
    "to starboard; crossing, the vessel that has the other to starboard gives way and does not "
    "cross ahead; an overtaking vessel gives way",
    "only_own_gave_way": "encounters in which only the own vessel turned (15 degrees) or slowed "
    "(30%) before the closest approach",
    "only_other_gave_way": "likewise only the other vessel",
    "both_gave_way": "likewise both",
    "nobody_gave_way": "likewise neither",
    "starboard_turns": "of the first turns of vessels that must give way, those to starboard",
    "closest_approach": "smallest gap between the hulls' circles (m), mean",
}
"""What each column of the table of conduct means."""

MARKS = {
    "all_kept": "encounters without a collision in which every vessel that has a duty kept the "
    "rules",
    "rules_kept": "vessels with a duty that kept the rules, of those with one; what follows in "
    "brackets are 95% intervals (Wilson; of means, normal)",
    "substantial": "vessels that must keep clear and turned (15 degrees) or slowed (30%)",
    "early": "the same before the other was closer than 10 m, or half of the gap was left",
    "right_side": "vessels that are head-on and turned to starboard first, or give way crossing "
    "and did not turn to port first",
    "not_ahead": "vessels that give way crossing and did not cross ahead",
    "stood_on": "vessels that only had to stand on and kept course and speed until the risk was "
    "over or the other closer than 10 m",
    "safety": "0 at a contact to 1 where the other's domain (8 m) is kept, mean of vessels",
    "delay": "travel time less that of the same vessel alone (s), mean",
    "detour": "path over that of the same vessel alone, less 1, mean",
    "astern": "share of steps astern, mean",
}
"""What each column of the table of marks means."""


@dataclass(frozen=True)
class Result:
    """What is reported of one policy."""

    name: str
    """How it was called on the command line."""
    about: dict[str, Any]
    """What it is."""
    figures: dict[str, dict[str, Any]]
    """Report by group and overall."""
    differences: dict[str, dict[str, Any]] | None = None
    """Difference to the first policy, likewise; None for the first."""
    conduct: dict[str, dict[str, Any]] | None = None
    """How the rules of the sea were kept, by encounter; None for other suites."""

    @property
    def conduct_columns(self) -> dict[str, str]:
        """What the columns of conduct mean."""
        rows = list((self.conduct or {}).values())
        return MARKS if rows and "safety" in rows[0] else CONDUCT


Row = list[str]


def cells(row: dict[str, Any]) -> Row:
    """A report as texts: episodes, then one for each of COLUMNS."""

    def number(name: str, digits: int) -> str:
        return "-" if row[name] is None else f"{row[name]:.{digits}f}"

    return [
        str(row["episodes"]),
        f"{number('success_rate', 3)} [{number('success_low', 3)}, {number('success_high', 3)}]",
        *(number(name, 3) for name in ("collision_rate", "timeout_rate", "robot_success_rate")),
        number("avg_time", 1),
        number("avg_energy", 0),
        number("avg_return", 2),
    ]


def difference_cell(row: dict[str, Any] | None) -> str:
    """A difference as text."""
    if row is None:
        return "-"
    low, high = row["difference_low"], row["difference_high"]
    return f"{row['difference']:+.3f} [{low:+.3f}, {high:+.3f}]"


def figure_rows(results: Sequence[Result]) -> tuple[Row, list[Row]]:
    """Titles and rows of the table of figures, group by group."""
    groups = list(results[0].figures)
    if len(results) == 1:
        only = results[0]
        return ["", "episodes", *COLUMNS], [[name, *cells(only.figures[name])] for name in groups]
    rows = []
    for group in groups:
        for number, result in enumerate(results):
            difference = result.differences and result.differences[group]
            rows.append([group if number == 0 else "", result.name,
                         *cells(result.figures[group]), difference_cell(difference)])  # fmt: skip
    return ["", "policy", "episodes", *COMPARED], rows


def conduct_rows(results: Sequence[Result]) -> tuple[Row, list[Row]]:
    """Titles and rows of the table of conduct, encounter by encounter."""
    rows, columns = [], results[0].conduct_columns
    for group in results[0].conduct or {}:
        for number, result in enumerate(results):
            values = (result.conduct or {})[group]
            rows.append([group if number == 0 else "", result.name,
                         *(_mark(values, name) for name in columns)])  # fmt: skip
    return ["", "policy", *(name.replace("_", " ") for name in columns)], rows


def _mark(values: dict[str, Any], name: str) -> str:
    """A figure of conduct as text, with its interval if there is one."""
    value, ends = values[name], (values.get(f"{name}_low"), values.get(f"{name}_high"))
    if value is None:
        return "-"
    return f"{value:.2f}" + ("" if None in ends else f" [{ends[0]:.2f}, {ends[1]:.2f}]")


def print_table(titles: Row, rows: Sequence[Row], heading: str) -> None:
    """Print a table below a heading."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE, caption_justify="left", caption_style="")
    for title in titles:
        words = not title or title == "policy"
        table.add_column(title, justify="left" if words else "right", no_wrap=True)
    for row in rows:
        # Square brackets are markup unless they are escaped.
        table.add_row(*(cell.replace("[", "\\[") for cell in row))
    # Without a terminal there is no width to fit into.
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(highlight=False, width=200)
    console.print(heading, soft_wrap=True, markup=False)
    console.print(table)


def print_meanings(meanings: dict[str, str]) -> None:
    """Print what the columns mean."""
    from rich.console import Console

    console = Console(highlight=False)
    for title, meaning in meanings.items():
        console.print(f"{title.replace('_', ' ')}: {meaning}", soft_wrap=True, markup=False)


def markdown_table(titles: Row, rows: Sequence[Row]) -> str:
    """A table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def result_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """All figures of all groups and policies, a row for each of both."""
    return [
        {"group": group, "policy": result.name, **result.figures[group]}
        | (result.differences or {}).get(group, {})
        | (result.conduct or {}).get(group, {})
        for group in results[0].figures
        for result in results
    ]


def csv_text(rows: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV, with a column for every name in any of them."""
    stream = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(stream, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
