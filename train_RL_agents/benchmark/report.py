"""A benchmark in the terminal and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from train_RL_agents.benchmark import PARTS
from train_RL_agents.benchmark.summary import grouped
from train_RL_agents.benchmark.timing import Row
from train_RL_agents.utils.files import write_atomically

FORMAT = "marinenav benchmark"
_WIDTH = 100
"""Characters of a line where the output is no terminal."""
_SIZES = ("environments", "batch", "replay")
_SHARE = "share "


def make_console() -> Console:
    """Where tables are printed."""
    console = Console(highlight=False, soft_wrap=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def number(value: float) -> str:
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


def rate_table(rows: Sequence[Row]) -> Table:
    """Rates of rows that have their sizes in common."""
    part, unit = rows[0]["part"], rows[0]["unit"]
    sizes = [name for name in _SIZES if name in rows[0]]
    notes = [name for name in rows[0]["notes"] if not name.startswith(_SHARE)]
    table = Table(title=f"{part}: {PARTS[part]}", title_justify="left", title_style="bold")
    table.add_column("mode")
    for name in (*sizes, unit, "lowest to highest", "ms a step", "compile s", *notes):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(
            row["mode"],
            *(f"{row[name]:,}" for name in sizes),
            number(row["median"]),
            f"{number(row['lowest'])} to {number(row['highest'])}",
            number(row["ms_per_step"]),
            f"{row['compile_seconds']:.1f}",
            *(number(row["notes"][name]) for name in notes),
        )
    return table


def share_table(rows: Sequence[Row]) -> Table | None:
    """Shares of the loop's time; None for rows without."""
    # Within a CUDA graph nothing is told apart.
    rows = [row for row in rows if any(name.startswith(_SHARE) for name in row["notes"])]
    if not rows:
        return None
    names = [name for name in rows[0]["notes"] if name.startswith(_SHARE)]
    title = "share of the time; world: collection without policy; outside: the last 3"
    table = Table(title=title, title_justify="left")
    table.add_column("mode")
    for name in names:
        table.add_column(name.removeprefix(_SHARE), justify="right")
    for row in rows:
        table.add_row(row["mode"], *(f"{row['notes'][name]:.1%}" for name in names))
    return table


def show(console: Console, rows: Sequence[Row]) -> None:
    """Print the tables of a part."""
    for group in grouped([_shaped(row) for row in rows], "shape").values():
        console.print()
        console.print(rate_table(group))
        shares = share_table(group)
        if shares is not None:
            console.print(shares)


def _shaped(row: Row) -> Row:
    """A row with the names of its sizes, by which tables are told apart."""
    return row | {"shape": tuple(name for name in _SIZES if name in row)}


def write(path: Path, content: dict[str, Any]) -> None:
    """Write what is known so far.

    Raises:
        ConfigError: when the file cannot be written.
    """
    text = json.dumps({"format": FORMAT} | content, indent=2, allow_nan=False) + "\n"
    write_atomically(path, text)
