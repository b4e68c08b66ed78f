"""Tables of an evaluation: which columns they have, and what these mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from train_RL_agents.results.table import Column, Table

FIGURES = (
    Column(
        "success_rate",
        "success",
        ".3f",
        ("success_low", "success_high"),
        meaning="episodes in which every robot arrives, with the 95% Wilson interval; "
        "an episode stops at its first collision",
    ),
    Column("collision_rate", "collision", ".3f", meaning="episodes with a collision"),
    Column(
        "timeout_rate",
        "time-out",
        ".3f",
        meaning="episodes without a collision in which some robot did not arrive in time",
    ),
    Column(
        "robot_success_rate",
        "robot success",
        ".3f",
        meaning="robots that arrive when episodes continue after a collision",
    ),
    Column("avg_time", "travel time", ".1f", meaning="of a robot (s), mean over successful episodes"),
    Column("avg_energy", "energy", ".0f", meaning="thrust spent per robot (N s), mean over successful episodes"),
    Column("avg_return", "return", ".2f", meaning="sum of 0.99^t reward per robot, mean over all episodes"),
)
"""The figures of a report that tables have."""
COLUMNS = {column.title: column.meaning for column in FIGURES}
"""What each column of the table means."""


def difference_column(header: str, meaning: str) -> Column:
    """Return the column of differences of success rates.

    Args:
        header: than whom.
        meaning: what the rate is compared to; that the interval is a bootstrap is added.
    """
    return Column(
        "difference",
        header,
        "+.3f",
        ("difference_low", "difference_high"),
        meaning=f"{meaning}, with the 95% paired bootstrap interval",
    )


DIFFERENCE = difference_column("than the first", "success rate less that of the first policy on the same episodes")
COMPARED = COLUMNS | {DIFFERENCE.title: DIFFERENCE.meaning}
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
    "all_kept": "encounters without a collision in which every vessel that has a duty kept the rules",
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


_IMPORTANT = (
    "success",
    DIFFERENCE.title,
    "collision",
    "time-out",
    "travel time",
    "robot success",
    "episodes",
    "return",
    "energy",
)


def figure_table(results: Sequence[Result]) -> Table:
    """Make the table of the figures, group by group."""
    several = len(results) > 1
    rows = [
        {"group": "" if number else group, "policy": result.name, **result.figures[group]}
        | (result.differences or {}).get(group, {})
        for group in results[0].figures
        for number, result in enumerate(results)
    ]
    keys = [Column("group", ""), *([Column("policy")] if several else [])]
    compared = [DIFFERENCE] if several else []
    return Table([*keys, Column("episodes"), *FIGURES, *compared], rows, len(keys), _IMPORTANT)


def conduct_table(results: Sequence[Result]) -> Table:
    """Make the table of the rules kept, by encounter."""
    rows = [
        {"group": "" if number else group, "policy": result.name, **(result.conduct or {})[group]}
        for group in results[0].conduct or {}
        for number, result in enumerate(results)
    ]
    columns = [
        Column(name, name.replace("_", " "), ".2f", (f"{name}_low", f"{name}_high"), meaning=text)
        for name, text in results[0].conduct_columns.items()
    ]
    return Table([Column("group", ""), Column("policy"), *columns], rows, 2)


def _tables(results: Sequence[Result]) -> list[Table]:
    """Return the table of figures, and that of conduct if there is any."""
    conduct = [conduct_table(results)] if results[0].conduct is not None else []
    return [figure_table(results), *conduct]


def show(results: Sequence[Result], heading: str) -> None:
    """Print the tables, with what each column means below them."""
    figures, *conduct = _tables(results)
    figures.print(heading)
    for table in conduct:
        print()
        table.print("Rules of the sea")


def notebook_text(results: Sequence[Result], heading: str) -> str:
    """Return the tables in HTML, below a heading."""
    tables = "".join(table.html(heading) for table in _tables(results))
    return f"<p>{escape(heading)}</p>\n{tables}"


def markdown_text(results: Sequence[Result], heading: str) -> str:
    """Return the tables in Markdown, below a heading."""
    return "\n".join([heading + "\n", *(table.markdown() for table in _tables(results))])


def short(result: Result) -> str:
    """Name a policy with its success, in a few words."""
    row = result.overall
    rate, low, high = (row[f"success_{end}"] for end in ("rate", "low", "high"))
    return f"{result.name}, success {rate:.3f} [{low:.3f}, {high:.3f}] of {row['episodes']} episodes"


def result_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """All figures of all groups and policies, a row for each of both."""
    return [
        {"group": group, "policy": result.name, **result.figures[group]}
        | (result.differences or {}).get(group, {})
        | (result.conduct or {}).get(group, {})
        for group in results[0].figures
        for result in results
    ]
