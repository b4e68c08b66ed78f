"""A benchmark in the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table

from train_RL_agents.benchmark import PARTS
from train_RL_agents.benchmark.timing import Row, grouped
from train_RL_agents.utils.text_tables import TextTable, line_width

_WIDTH = 100
"""Characters of a line where the output is no terminal."""
_SIZES = ("environments", "batch", "replay")
_SHARE = "share "


def make_console() -> Console:
    """Where tables are printed."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _number(value: float) -> str:
    """With thousands, and three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def setting_table(facts: dict[str, Any]) -> Table:
    """Names and values."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, str(value))
    return table


def show(console: Console, rows: Sequence[Row]) -> None:
    """Print the tables of a part."""
    for group in grouped(rows, "unit").values():
        console.print()
        console.print(_rates(group), markup=False, soft_wrap=True)
        # Within a CUDA graph nothing is told apart.
        split = [row for row in group if f"{_SHARE}world" in row["notes"]]
        if split:
            console.print(_shares(split), markup=False, soft_wrap=True)


def _rates(rows: Sequence[Row]) -> str:
    """Rates of rows that have their sizes in common."""
    part, unit = rows[0]["part"], rows[0]["unit"]
    sizes = [name for name in _SIZES if name in rows[0]]
    notes = [name for name in rows[0]["notes"] if not name.startswith(_SHARE)]
    names = (*sizes, unit, "lowest to highest", "ms a step", "compile s", *notes)
    return _table(f"{part}: {PARTS[part]}", names, (
        (
            row["mode"], *(f"{row[name]:,}" for name in sizes), _number(row["median"]),
            f"{_number(row['lowest'])} to {_number(row['highest'])}", _number(row["ms_per_step"]),
            f"{row['compile_seconds']:.1f}", *(_number(row["notes"][name]) for name in notes),
        )
        for row in rows
    ))  # fmt: skip


def _shares(rows: Sequence[Row]) -> str:
    """Shares of the loop's time."""
    names = [name for name in rows[0]["notes"] if name.startswith(_SHARE)]
    cells = ((row["mode"], *(f"{row['notes'][name]:.1%}" for name in names)) for row in rows)
    title = "share of the time; world: collection without policy; outside: the last 3"
    return _table(title, [name.removeprefix(_SHARE) for name in names], cells)


def _table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A row for each mode, with numbers on the right, as wide as the terminal."""
    lines, left_out = TextTable(["mode", *names], list(rows)).lines(line_width())
    more = [f"no room for: {', '.join(left_out)}"] if left_out else []
    return "\n".join([fill(title, line_width()), *lines, *more])
