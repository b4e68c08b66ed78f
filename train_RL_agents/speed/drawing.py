"""A benchmark as a picture; needs matplotlib, the extra ``plot``."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marinenav_env.pictures.drawing import new_figure
from marinenav_env.support.extras import need
from marinenav_env.support.validation import require
from train_RL_agents.figures.plotting import COLOURS, HATCHES, KINDS, styles
from train_RL_agents.speed import MODES
from train_RL_agents.speed.timing import Row, grouped
from train_RL_agents.utils.files import write_atomically

_LABELS = {"environments": "environments", "replay": "entries of replay", "batch": "transitions per batch"}
"""What the x axis may be, the first that a row has."""
_SHARES = ("world", "policy", "update", "insertion", "sampling", "rest")
_COLUMNS = 3
"""Panels side by side."""


def check(path: Path) -> None:
    """Refuse what cannot be drawn before anything is measured.

    Raises:
        ConfigError: without matplotlib, or for another kind of file.
    """
    need("matplotlib.figure", "plot")
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
    panels = grouped(content["rows"], "part", "unit")
    columns = min(_COLUMNS, len(panels))
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
    """Rates over a size, a line for each mode with its band."""
    axis = next(name for name in _LABELS if name in rows[0])
    looks = styles(list(MODES))
    for (mode,), group in grouped(rows, "mode").items():
        group.sort(key=lambda row: row[axis])
        x, low, middle, high = ([row[name] for row in group] for name in (axis, "lowest", "median", "highest"))
        look = {name: looks[mode][name] for name in ("color", "linestyle", "marker")}
        axes.plot(x, middle, **look, label=mode, markersize=4, lw=1.4)
        axes.fill_between(x, low, high, color=look["color"], alpha=0.2, linewidth=0)
    axes.set_xscale("log", base=2)
    sizes = sorted({row[axis] for row in rows})
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes], minor=False)
    axes.minorticks_off()
    axes.set(xlabel=_LABELS[axis], ylabel=rows[0]["unit"])
    axes.set_ylim(bottom=0.0)
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)


def _draw_shares(axes: Any, rows: Sequence[Row]) -> None:
    """Where the time of the loop goes, a bar for each mode."""
    labels = [f"{row['mode']}\n{row['median']:,.0f} {row['unit']}" for row in rows]
    start = [0.0] * len(rows)
    for name, colour, hatch in zip(_SHARES, COLOURS, HATCHES, strict=False):
        widths = [row["notes"][f"share {name}"] for row in rows]
        axes.barh(labels, widths, left=start, color=colour, hatch=hatch, label=name, edgecolor="white")
        start = [left + width for left, width in zip(start, widths, strict=True)]
    axes.set(xlim=(0.0, 1.0), xlabel="share of the time")
    axes.legend(fontsize=7, ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.25))
