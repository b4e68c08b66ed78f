"""A benchmark in the terminal: rates, and their growth with environments and entries of replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from train_RL_agents.results.table import Column, Table, line_width
from train_RL_agents.speed import PARTS
from train_RL_agents.speed.timing import Row, grouped

_WIDTH = 100
"""Characters of a line where the output is no terminal."""
FLAT = 0.2
"""Times per update that differ by no more than this share count as flat."""
_SIZES = ("environments", "batch", "replay")
_SHARE = "share "


def make_console() -> Console:
    """Where tables are printed."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH)


def _number(value: float) -> str:
    """With thousands, and three digits at least."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def setting_table(facts: dict[str, Any]) -> Grid:
    """Names and values."""
    table = Grid.grid(padding=(0, 2))
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
    """Return rates of rows that have their sizes in common."""
    part, unit = rows[0]["part"], rows[0]["unit"]
    sizes = [Column(name, format=",") for name in _SIZES if name in rows[0]]
    notes = [name for name in rows[0]["notes"] if not name.startswith(_SHARE)]
    columns = [
        *sizes,
        Column("median", unit, _number),
        Column("range", "lowest to highest"),
        Column("ms_per_step", "ms a step", _number),
        Column("compile_seconds", "compile s", ".1f"),
        *(Column(f"notes {name}", name, _number) for name in notes),
    ]
    shown = [
        {**row, "range": f"{_number(row['lowest'])} to {_number(row['highest'])}"}
        | {f"notes {name}": row["notes"][name] for name in notes}
        for row in rows
    ]
    return _table(f"{part}: {PARTS[part]}", columns, shown)


def _shares(rows: Sequence[Row]) -> str:
    """Return shares of the loop's time."""
    names = [name for name in rows[0]["notes"] if name.startswith(_SHARE)]
    columns = [Column(name, name.removeprefix(_SHARE), ".1%") for name in names]
    title = "share of the time; world: collection without policy; outside: the last 3"
    return _table(title, columns, [{"mode": row["mode"], **row["notes"]} for row in rows])


def _table(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return a row for each mode, with numbers on the right, as wide as the terminal."""
    lines, left_out = Table([Column("mode"), *columns], rows).lines(line_width())
    more = [f"no room for: {', '.join(left_out)}"] if left_out else []
    return "\n".join([fill(title, line_width()), *lines, *more])


# Growth ---------------------------------------------------------------------------------------


def growth(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Figures of growth by mode: of the world with environments, then of updates with replay.

    Each has a line for the terminal, ``text``. There are none where only one size was measured.
    """
    worlds = [row for row in rows if row["part"] in ("world", "growth") and "environments" in row]
    for (mode,), group in grouped(worlds, "mode").items():
        if len({row["environments"] for row in group}) > 1:
            yield _of_world(mode, sorted(group, key=lambda row: row["environments"]))
    updates = [row for row in rows if row["part"] == "growth" and "replay" in row]
    for (mode,), group in grouped(updates, "mode").items():
        if len({row["replay"] for row in group}) > 1:
            yield _of_replay(mode, sorted(group, key=lambda row: row["replay"]))


def _of_world(mode: str, rows: Sequence[Row]) -> dict[str, Any]:
    sizes, rates = [row["environments"] for row in rows], [row["median"] for row in rows]
    each = [rate / size for rate, size in zip(rates, sizes, strict=True)]
    gain = rates[-1] / rates[0]
    text = (
        f"world, {mode}: from {sizes[0]:,} to {sizes[-1]:,} environments the rate grows {gain:.2f} "
        f"times; per environment {each[0]:,.1f} to {each[-1]:,.1f} env-steps/s"
    )
    return {
        "of": "world",
        "mode": mode,
        "environments": sizes,
        "env_steps_per_second": rates,
        "per_environment": each,
        "gain": gain,
        "text": text,
    }


def _of_replay(mode: str, rows: Sequence[Row]) -> dict[str, Any]:
    sizes, times = [row["replay"] for row in rows], [row["ms_per_step"] for row in rows]
    ratio = max(times) / min(times)
    flat = ratio <= 1.0 + FLAT
    text = (
        f"update, {mode}: from {sizes[0]:,} to {sizes[-1]:,} entries of replay the slowest takes "
        f"{ratio:.2f} times the fastest: {'flat' if flat else 'not flat'} within {FLAT:.0%}"
    )
    return {
        "of": "replay",
        "mode": mode,
        "replay": sizes,
        "ms_per_update": times,
        "slowest_to_fastest": ratio,
        "flat": flat,
        "text": text,
    }
