"""A benchmark in the terminal and as a picture: rates, and their growth with environments and entries of replay.

The picture needs matplotlib, the extra ``plot``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

from marinenav_env.pictures.drawing import new_figure
from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import require
from train_RL_agents.figures.plotting import COLOURS, FILE_FORMATS, HATCHES, draw_band, group_styles
from train_RL_agents.results.table import Column, Table, line_width
from train_RL_agents.speed import MODES, PARTS
from train_RL_agents.speed.timing import Row, group_rows
from train_RL_agents.utils.files import write_atomically

_DEFAULT_WIDTH = 100
"""Width of a line where the output is not a terminal (characters)."""
FLAT_TOLERANCE = 0.2
"""Largest relative difference between times per update that counts as independent of the size of replay."""
_SIZES = ("environments", "batch", "replay")
"""Labels of rows that are sizes."""
_SHARE_PREFIX = "share "
"""Beginning of the names of additional metrics that are shares of the loop's time."""
_SIZE_LABELS = {"environments": "environments", "replay": "entries of replay", "batch": "transitions per batch"}
"""Texts for the sizes that the x axis may show, in order; the first size that a row has is used."""
_SHARE_NAMES = ("world", "policy", "update", "insertion", "sampling", "rest")
"""Parts of the loop whose shares add up to 1, without _SHARE_PREFIX."""
_MAX_PANEL_COLUMNS = 3
"""Largest number of panels side by side."""


def make_console() -> Console:
    """Return a rich console on standard output, _DEFAULT_WIDTH wide if that is not a terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_DEFAULT_WIDTH)


def _number_text(value: float) -> str:
    """Format a number with thousands separators, or with three significant digits below 100."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def setting_table(facts: dict[str, Any]) -> Grid:
    """Return a rich table with a line for each fact about a measurement: name and value."""
    table = Grid.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, str(value))
    return table


def print_rates(console: Console, rows: Sequence[Row]) -> None:
    """Print tables of one part's results: of its rates, by unit, and of the shares of the loop's time if measured."""
    for group in group_rows(rows, "unit").values():
        console.print()
        console.print(_rate_table(group), markup=False, soft_wrap=True)
        # Within a CUDA graph the parts cannot be timed.
        split = [row for row in group if f"{_SHARE_PREFIX}world" in row["notes"]]
        if split:
            console.print(_share_table(split), markup=False, soft_wrap=True)


def _rate_table(rows: Sequence[Row]) -> str:
    """Return a table, as text, of the rates of rows of one part in one unit."""
    part, unit = rows[0]["part"], rows[0]["unit"]
    sizes = [Column(name, format=",") for name in _SIZES if name in rows[0]]
    notes = [name for name in rows[0]["notes"] if not name.startswith(_SHARE_PREFIX)]
    columns = [
        *sizes,
        Column("median", unit, _number_text),
        Column("range", "lowest to highest"),
        Column("ms_per_step", "ms a step", _number_text),
        Column("compile_seconds", "compile s", ".1f"),
        *(Column(f"notes {name}", name, _number_text) for name in notes),
    ]
    shown = [
        {**row, "range": f"{_number_text(row['lowest'])} to {_number_text(row['highest'])}"}
        | {f"notes {name}": row["notes"][name] for name in notes}
        for row in rows
    ]
    return _table_text(f"{part}: {PARTS[part]}", columns, shown)


def _share_table(rows: Sequence[Row]) -> str:
    """Return a table, as text, of the shares of the loop's time by part."""
    names = [name for name in rows[0]["notes"] if name.startswith(_SHARE_PREFIX)]
    columns = [Column(name, name.removeprefix(_SHARE_PREFIX), ".1%") for name in names]
    title = "share of the time; world: collection without policy; outside: the last 3"
    return _table_text(title, columns, [{"mode": row["mode"], **row["notes"]} for row in rows])


def _table_text(title: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """Return a table as text, as wide as the terminal: a title, and a line for each row that begins with its mode."""
    lines, left_out = Table([Column("mode"), *columns], rows).lines(line_width())
    more = [f"no room for: {', '.join(left_out)}"] if left_out else []
    return "\n".join([fill(title, line_width()), *lines, *more])


# Growth ---------------------------------------------------------------------------------------


def growth_results(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Yield how the world's rate grows with environments, then how the time of an update grows with replay, by mode.

    Each result has ``of`` (``world`` or ``replay``), ``mode``, ``text`` (a line for the terminal), the sizes, and the
    measured values with their ratio. Modes that were measured at a single size have no result.
    """
    worlds = [row for row in rows if row["part"] in ("world", "growth") and "environments" in row]
    for (mode,), group in group_rows(worlds, "mode").items():
        if len({row["environments"] for row in group}) > 1:
            yield _world_growth(mode, sorted(group, key=lambda row: row["environments"]))
    updates = [row for row in rows if row["part"] == "growth" and "replay" in row]
    for (mode,), group in group_rows(updates, "mode").items():
        if len({row["replay"] for row in group}) > 1:
            yield _replay_growth(mode, sorted(group, key=lambda row: row["replay"]))


def _world_growth(mode: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the result of growth_results for the rate of the world, from rows sorted by environments."""
    sizes, rates = [row["environments"] for row in rows], [row["median"] for row in rows]
    shares = [rate / size for rate, size in zip(rates, sizes, strict=True)]
    gain = rates[-1] / rates[0]
    text = (
        f"world, {mode}: from {sizes[0]:,} to {sizes[-1]:,} environments the rate grows {gain:.2f} "
        f"times; per environment {shares[0]:,.1f} to {shares[-1]:,.1f} env-steps/s"
    )
    metrics = {"environments": sizes, "env_steps_per_second": rates, "per_environment": shares, "gain": gain}
    return {"of": "world", "mode": mode, **metrics, "text": text}


def _replay_growth(mode: str, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the result of growth_results for the time of an update, from rows sorted by entries of replay."""
    sizes, times = [row["replay"] for row in rows], [row["ms_per_step"] for row in rows]
    ratio = max(times) / min(times)
    flat = ratio <= 1.0 + FLAT_TOLERANCE
    text = (
        f"update, {mode}: from {sizes[0]:,} to {sizes[-1]:,} entries of replay the slowest takes "
        f"{ratio:.2f} times the fastest: {'flat' if flat else 'not flat'} within {FLAT_TOLERANCE:.0%}"
    )
    metrics = {"replay": sizes, "ms_per_update": times, "slowest_to_fastest": ratio, "flat": flat}
    return {"of": "replay", "mode": mode, **metrics, "text": text}


# The picture ----------------------------------------------------------------------------------


def check_picture(path: Path) -> None:
    """Check, before anything is measured, that the picture can be drawn and written to a path.

    Raises:
        ConfigError: when matplotlib or the folder is missing, or the file format is not supported.
    """
    import_optional("matplotlib.figure", "plot")
    kinds = [f".{kind}" for kind in FILE_FORMATS]
    require(path.suffix in kinds, "plot", str(path), f"a file ending in {' or '.join(kinds)}")
    require(path.parent.is_dir(), "plot", str(path), "in a folder that is there")


def write_picture(path: Path, content: dict[str, Any]) -> None:
    """Draw the content of a benchmark's JSON file into an image file.

    Raises:
        ConfigError: when the file cannot be written.
    """
    image = io.BytesIO()
    draw_benchmark(content).savefig(image, format=path.suffix[1:], dpi=130, bbox_inches="tight")
    write_atomically(path, image.getvalue())


def draw_benchmark(content: dict[str, Any]) -> Any:
    """Return a Matplotlib figure with a panel for each part, from the content of a benchmark's JSON file."""
    panels = group_rows(content["rows"], "part", "unit")
    columns = min(_MAX_PANEL_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    picture = new_figure(max(4.0 * columns, 6.0), 3.2 * lines + 1.2, "constrained")
    for place, ((part, _), rows) in enumerate(panels.items(), start=1):
        axes = picture.add_subplot(lines, columns, place, title=part)
        split = [row for row in rows if "share world" in row["notes"]]
        if split:
            _draw_shares(axes, split)
        else:
            _draw_rates(axes, rows)
    facts = content["setting"]
    names = ("gpu" if "gpu" in facts else "processor", "threads", "torch", "agent", "robots")
    caption = "; ".join(f"{name} {facts[name]}" for name in names)
    picture.supxlabel(f"{caption}\nmedian, band from lowest to highest run", fontsize=7)
    return picture


def _draw_rates(axes: Any, rows: Sequence[Row]) -> None:
    """Draw medians of the rates over a size, a line for each mode with a band from lowest to highest."""
    axis = next(name for name in _SIZE_LABELS if name in rows[0])
    looks = group_styles(list(MODES))
    for (mode,), group in group_rows(rows, "mode").items():
        group.sort(key=lambda row: row[axis])
        markers = {"label": mode, "marker": looks[mode]["marker"], "markersize": 4, "lw": 1.4}
        draw_band(axes, group, (axis, "median", "lowest", "highest"), looks[mode], **markers)
    axes.set_xscale("log", base=2)
    sizes = sorted({row[axis] for row in rows})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    axes.minorticks_off()
    axes.set(xlabel=_SIZE_LABELS[axis], ylabel=rows[0]["unit"])
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)


def _draw_shares(axes: Any, rows: Sequence[Row]) -> None:
    """Draw the shares of the loop's time as a stacked bar for each mode."""
    labels = [f"{row['mode']}\n{row['median']:,.0f} {row['unit']}" for row in rows]
    start = [0.0] * len(rows)
    for name, colour, hatch in zip(_SHARE_NAMES, COLOURS, HATCHES, strict=False):
        widths = [row["notes"][f"share {name}"] for row in rows]
        axes.barh(labels, widths, left=start, color=colour, hatch=hatch, label=name, edgecolor="white")
        start = [left + width for left, width in zip(start, widths, strict=True)]
    axes.set(xlim=(0.0, 1.0), xlabel="share of the time")
    axes.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.25))
