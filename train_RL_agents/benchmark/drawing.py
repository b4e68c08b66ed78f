"""A benchmark as a picture; needs matplotlib, the extra ``plot``."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marinenav_env.validation import require
from train_RL_agents.benchmark import MODES
from train_RL_agents.benchmark.summary import grouped
from train_RL_agents.benchmark.timing import Row
from train_RL_agents.figures.plotting import COLOURS, HATCHES, KINDS, figures, styles
from train_RL_agents.utils.files import write_atomically

_AXES = ("replay", "batch", "environments")
"""What the x axis may be, the first that a row has."""
_SHARES = ("world", "policy", "update", "insertion", "sampling", "rest")
_COLUMNS = 3
"""Panels side by side."""


def check(path: Path) -> None:
    """Refuse what cannot be drawn before anything is measured.

    Raises:
        ConfigError: without matplotlib, or for another kind of file.
    """
    figures()
    kinds = [f".{kind}" for kind in KINDS]
    require(path.suffix in kinds, "plot", str(path), f"a file ending in {' or '.join(kinds)}")
    require(path.parent.is_dir(), "plot", str(path), "in a folder that is there")


def write(path: Path, content: dict[str, Any]) -> None:
    """Draw a benchmark's JSON into a file.

    Raises:
        ConfigError: when the file cannot be written.
    """
    image = io.BytesIO()
    draw(content).savefig(image, format=path.suffix[1:], dpi=130, bbox_inches="tight")
    write_atomically(path, image.getvalue())


def draw(content: dict[str, Any]) -> Any:
    """A panel for each part; the setting in small print below."""
    panels = list(grouped([_placed(row) for row in content["rows"]], "part", "axis").items())
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    size = (max(4.0 * columns, 6.0), 3.2 * lines + 1.2)
    picture = figures().Figure(figsize=size, layout="constrained")
    grid = list(picture.subplots(lines, columns, squeeze=False).flat)
    for axes, ((part, axis), rows) in zip(grid, panels, strict=False):
        axes.set_title(part)
        if any("share world" in row["notes"] for row in rows):
            _draw_shares(axes, rows)
        else:
            _draw_rates(axes, axis, rows)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    _add_legend(picture, grid)
    facts = content["setting"]
    names = ("gpu" if "gpu" in facts else "processor", "threads", "torch", "agent", "robots")
    caption = "; ".join(f"{name} {facts[name]}" for name in names)
    picture.supxlabel(f"{caption}\nmedian, band from lowest to highest run", fontsize=7)
    return picture


def _placed(row: Row) -> Row:
    """A row with the name of its x axis."""
    return row | {"axis": next(name for name in _AXES if name in row and _varies(row, name))}


def _varies(row: Row, name: str) -> bool:
    """Whether a part is measured over a size; replay is drawn from at one size but for growth."""
    return name != "replay" or row["part"] == "growth"


def _draw_rates(axes: Any, axis: str, rows: Sequence[Row]) -> None:
    """Rates over a size, a line for each mode with its band."""
    looks = styles(list(MODES))
    for (mode,), group in grouped(rows, "mode").items():
        group.sort(key=lambda row: row[axis])
        x = [row[axis] for row in group]
        low, middle, high = (
            [row[name] for row in group] for name in ("lowest", "median", "highest")
        )
        look = {name: looks[mode][name] for name in ("color", "linestyle", "marker")}
        axes.plot(x, middle, **look, label=mode, markersize=4, lw=1.4)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
    sizes = sorted({row[axis] for row in rows})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [_short(size) for size in sizes])
    axes.minorticks_off()
    label = {"batch": "transitions per batch", "replay": "entries of replay"}.get(axis, axis)
    axes.set(xlabel=label, ylabel=rows[0]["unit"])
    axes.set_ylim(bottom=0.0)
    axes.grid(alpha=0.3)


def _draw_shares(axes: Any, rows: Sequence[Row]) -> None:
    """Where the time of the loop goes, a bar for each mode."""
    rows = [row for row in rows if "share world" in row["notes"]]
    labels = [f"{row['mode']}\n{row['median']:,.0f} {row['unit']}" for row in rows]
    start = [0.0] * len(rows)
    for name, colour, hatch in zip(_SHARES, COLOURS, HATCHES, strict=False):
        widths = [row["notes"][f"share {name}"] for row in rows]
        axes.barh(labels, widths, left=start, color=colour, hatch=hatch, label=name,
                  edgecolor="white")  # fmt: skip
        start = [left + width for left, width in zip(start, widths, strict=True)]
    axes.set(xlim=(0.0, 1.0), xlabel="share of the time")
    axes.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.25))


def _add_legend(picture: Any, grid: Sequence[Any]) -> None:
    """One legend of the modes for all panels."""
    found = [pair for axes in grid for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in found if label in MODES}
    if handles:
        picture.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=3)


def _short(size: int) -> str:
    """10000 as 10k."""
    for unit, letter in ((1_000_000, "M"), (1_000, "k")):
        if size >= unit and size % unit == 0:
            return f"{size // unit}{letter}"
    return f"{size:,}"
