"""Tables of an evaluation: for the terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from train_RL_agents.utils.text_tables import TextTable, print_meanings

COLUMNS = {
    "success": "episodes in which every robot arrives, with the 95% Wilson interval; "
    "an episode stops at its first collision",
    "collision": "episodes with a collision",
    "time-out": "episodes without a collision in which some robot did not arrive in time",
    "robot success": "robots that arrive when episodes continue after a collision",
    "travel time": "of a robot (s), mean over successful episodes",
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
    """Figures of one policy."""

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

    def __repr__(self) -> str:
        return f"<Result of {short(self)}>"

    def _repr_html_(self) -> str:
        return notebook_text([self], self.name)

    @property
    def overall(self) -> dict[str, Any]:
        """The figures over all episodes."""
        return self.figures["overall"]

    @property
    def conduct_columns(self) -> dict[str, str]:
        """What the columns of conduct mean."""
        rows = list((self.conduct or {}).values())
        return MARKS if rows and "safety" in rows[0] else CONDUCT


def cells(row: dict[str, Any]) -> list[str]:
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


_IMPORTANT = ("success", DIFFERENCE, "collision", "time-out", "travel time", "robot success",
              "episodes", "return", "energy")  # fmt: skip


def figure_table(results: Sequence[Result]) -> TextTable:
    """The figures, group by group."""
    several = len(results) > 1
    rows = []
    for group in results[0].figures:
        for number, result in enumerate(results):
            keys = ["" if number else group, *([result.name] if several else [])]
            difference = result.differences and result.differences[group]
            compared = [difference_cell(difference)] if several else []
            rows.append([*keys, *cells(result.figures[group]), *compared])
    titles = ["", "policy", "episodes", *COMPARED] if several else ["", "episodes", *COLUMNS]
    return TextTable(titles, rows, 2 if several else 1, _IMPORTANT)


def conduct_table(results: Sequence[Result]) -> TextTable:
    """Table of the rules kept, by encounter."""
    rows, columns = [], results[0].conduct_columns
    for group in results[0].conduct or {}:
        for number, result in enumerate(results):
            values = (result.conduct or {})[group]
            rows.append(["" if number else group, result.name,
                         *(_mark(values, name) for name in columns)])  # fmt: skip
    return TextTable(["", "policy", *(name.replace("_", " ") for name in columns)], rows, 2)


def _mark(values: dict[str, Any], name: str) -> str:
    """A figure of conduct as text, with its interval if there is one."""
    value, ends = values[name], (values.get(f"{name}_low"), values.get(f"{name}_high"))
    if value is None:
        return "-"
    return f"{value:.2f}" + ("" if None in ends else f" [{ends[0]:.2f}, {ends[1]:.2f}]")


def show(results: Sequence[Result], heading: str) -> None:
    """Print the tables, with what each column means below them."""
    print_with_meanings(figure_table(results), heading, COMPARED)
    if results[0].conduct is not None:
        meanings = {name.replace("_", " "): text
                    for name, text in results[0].conduct_columns.items()}  # fmt: skip
        print()
        print_with_meanings(conduct_table(results), "Rules of the sea", meanings)


def print_with_meanings(table: TextTable, heading: str, meanings: dict[str, str]) -> None:
    """Print a table, and the meanings of those columns that it shows."""
    hidden = table.print(heading)
    shown = [title for title in table.titles if title in meanings and title not in hidden]
    print_meanings({title: meanings[title] for title in shown})


def short(result: Result) -> str:
    """Name a policy with its success, in a few words."""
    row = result.overall
    rate, low, high = (row[f"success_{end}"] for end in ("rate", "low", "high"))
    return (
        f"{result.name}, success {rate:.3f} [{low:.3f}, {high:.3f}] of {row['episodes']} episodes"
    )


def notebook_text(results: Sequence[Result], heading: str) -> str:
    """Return the tables in HTML, below a heading."""
    return f"<p>{escape(heading)}</p>\n" + "".join(
        table.html(heading) for table in _tables(results)
    )


def markdown_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown_text(results: Sequence[Result], heading: str) -> str:
    """The tables in Markdown, below a heading."""
    tables = (markdown_table(each.titles, each.rows) for each in _tables(results))
    return "\n".join([heading + "\n", *tables])


def _tables(results: Sequence[Result]) -> list[TextTable]:
    """The table of figures, and that of conduct if there is any."""
    conduct = [conduct_table(results)] if results[0].conduct is not None else []
    return [figure_table(results), *conduct]


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
