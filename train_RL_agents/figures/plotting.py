"""Pictures of the tables of the module ``curves``, drawn with matplotlib (the extra ``plot``)."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from textwrap import fill
from typing import Any, NamedTuple

from marinenav_env.pictures import drawing
from marinenav_env.pictures.drawing import new_figure
from train_RL_agents.figures import curves
from train_RL_agents.figures.curves import AXIS_LABELS, METRIC_LABELS, Groups, Rows
from train_RL_agents.figures.drawing import save_figure
from train_RL_agents.utils.files import make_folder, write_atomically
from train_RL_agents.utils.table import Table

# Without yellow, which is hard to see on white. Line styles, markers and hatches distinguish groups in grey, too.
COLOURS = (*drawing.VESSEL_COLOURS[:-1], "#000000")
"""Colours of the lines and bars of groups of training runs, in the order of the groups, which repeat them."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
"""Matplotlib's markers of the lines of groups of training runs, in the order of the groups."""
HATCHES = ("", "//", "..", "xx", "\\\\", "--", "oo")
"""Matplotlib's hatches of the bars of groups of training runs, in the order of the groups."""
FILE_FORMATS = ("png", "pdf")
_LETTER_WIDTH = 0.095
"""Approximate width of a letter of a label (inches)."""
_HANDLE_WIDTH = 0.6
"""Approximate width of the handle of a label in a legend (inches)."""
_NARROW_WIDTH = 4.2
"""Width of a figure that is legible on a phone (inches)."""


def group_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return Matplotlib's ``color``, ``linestyle``, ``marker`` and ``hatch`` of each group of runs, by its name."""
    styles = zip(cycle(COLOURS), cycle(drawing.TRACK_STYLES), cycle(MARKERS), cycle(HATCHES))
    return {
        name: {"color": colour, "linestyle": line, "marker": marker, "hatch": hatch}
        for name, (colour, line, marker, hatch) in zip(names, styles, strict=False)
    }


def _group_names(rows: Rows) -> list[str]:
    """Return the names of the groups of runs in rows (key ``group``), in the order of their first row."""
    return list(dict.fromkeys(row["group"] for row in rows))


def _add_legend(picture: Any, handles: Any, labels: Sequence[str]) -> None:
    """Add a legend above a figure, in as many columns as it has room for."""
    longest = max(map(len, labels), default=0)
    columns = int(picture.get_figwidth() / (_LETTER_WIDTH * longest + _HANDLE_WIDTH))
    picture.legend(handles, labels, loc="outside upper center", ncols=min(max(columns, 1), 4))


def draw_curves(rows: Rows) -> Any:
    """Return a figure of the learning curves in rows of curve_table, with a panel for each metric and axis."""
    axes_names = [name for name in AXIS_LABELS if any(row["axis"] == name for row in rows)]
    metrics = [name for name in METRIC_LABELS if any(row["metric"] == name for row in rows)]
    picture = new_figure(3.6 * len(metrics), 3.0 * len(axes_names) + 0.6, "constrained")
    grid = picture.subplots(len(axes_names), len(metrics), squeeze=False)
    styles = group_styles(_group_names(rows))
    for line, axis in zip(grid, axes_names, strict=True):
        for axes, metric in zip(line, metrics, strict=True):
            chosen = [row for row in rows if row["axis"] == axis and row["metric"] == metric]
            for name in _group_names(chosen):
                points = [row for row in chosen if row["group"] == name]
                runs = points[0]["runs"]
                label = f"{name} ({runs} run{'s' if runs > 1 else ''})"
                x, mean, low, high = ([row[key] for row in points] for key in ("x", "mean", "low", "high"))
                style = {key: styles[name][key] for key in ("color", "linestyle", "marker")}
                axes.plot(x, mean, label=label, markersize=4, markevery=max(1, len(points) // 8), lw=1.4, **style)
                axes.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
            axes.set(xlabel=AXIS_LABELS[axis], ylabel=METRIC_LABELS[metric], visible=bool(chosen))
            axes.grid(alpha=0.3)
            axes.set_ylim((0.0, 1.02) if metric == "success" else None)
    # Not every group has every metric, so the legend is of all panels together.
    pairs = [pair for axes in grid.flat for pair in zip(*axes.get_legend_handles_labels(), strict=True)]
    handles = {label: handle for handle, label in pairs}
    _add_legend(picture, handles.values(), [*handles])
    return picture


def draw_levels(rows: Rows) -> Any:
    """Return a figure of the success rates in rows of level_table, with a bar for each group and level."""
    names, levels = _group_names(rows), list(dict.fromkeys(row["level"] for row in rows))
    styles, width = group_styles(names), 0.8 / len(names)
    # Names of levels stand below the bars, broken into lines between words.
    longest = max(len(word) for level in levels for word in level.split())
    room = max(5.0 / len(levels), 0.5 * len(names), _LETTER_WIDTH * (longest + 1))
    picture = new_figure(room * len(levels) + 1.0, 3.6, "constrained")
    axes = picture.subplots()
    for number, name in enumerate(names):
        bars = [row for row in rows if row["group"] == name]
        x = [levels.index(row["level"]) + (number - (len(names) - 1) / 2) * width for row in bars]
        gaps = [[max(0.0, sign * (row[end] - row["rate"])) for row in bars] for end, sign in (("low", -1), ("high", 1))]
        rates, style = [row["rate"] for row in bars], {key: styles[name][key] for key in ("color", "hatch")}
        style |= {"label": name, "edgecolor": "white"}
        axes.bar(x, rates, width, yerr=gaps, capsize=2, error_kw={"elinewidth": 1.0}, **style)
    labels = [fill(level, int(room / _LETTER_WIDTH), break_on_hyphens=False) for level in levels]
    axes.set_xticks(range(len(levels)), labels)
    axes.set(ylabel="success rate, 95% Wilson", ylim=(0.0, 1.02))
    _add_legend(picture, *axes.get_legend_handles_labels())
    return picture


def draw_estimates(rows: Rows, key: str, xlabel: str) -> Any:
    """Return a figure with a line for every row: its value as a dot, with its interval from ``low`` to ``high``."""
    picture = new_figure(_NARROW_WIDTH, 0.45 * len(rows) + 1.2, "constrained")
    axes = picture.subplots()
    for height, row in enumerate(reversed(rows)):
        axes.plot([row["low"], row["high"]], [height, height], color=COLOURS[0], lw=2.0)
        axes.plot(row[key], height, marker="o", color=COLOURS[0])
    labels = [
        f"{row['group']}\nover {row['over']}" if "over" in row else f"{row['group']} ({row['runs']})"
        for row in reversed(rows)
    ]
    axes.set_yticks(range(len(rows)), labels)
    axes.grid(axis="x", alpha=0.3)
    if "over" in rows[0]:
        axes.axvline(0.0, color="0.4", linestyle=":")  # neither is better
    axes.set_xlabel(xlabel)
    return picture


class FigureKind(NamedTuple):
    """A kind of figure of groups of runs: its table and its picture."""

    title: str
    meaning: str
    table: Callable[[Groups], Rows]
    draw: Callable[[Rows], Any]


FIGURES = {
    "curves": FigureKind(
        "Learning curves",
        "evaluations while training; mean over seeds, with 95% bootstrap bands over seeds "
        "and episodes. Wall time includes evaluations and compilation",
        curves.curve_table,
        draw_curves,
    ),
    "levels": FigureKind(
        "Success by group", "episodes of all seeds together, with 95% Wilson intervals", curves.level_table, draw_levels
    ),
    "iqm": FigureKind(
        "Interquartile mean",
        "mean of the middle half of all scores, one for each seed and group of the suite, with "
        "95% stratified bootstrap intervals over seeds and episodes (in brackets: runs)",
        curves.iqm_table,
        partial(draw_estimates, key="iqm", xlabel="success (runs), 95% bootstrap"),
    ),
    "differences": FigureKind(
        "Differences on the same scenarios",
        "difference of success rates, with 95% bootstrap "
        "intervals over seeds and over scenarios, which are the same for both",
        curves.difference_table,
        partial(draw_estimates, key="difference", xlabel="difference, 95% paired bootstrap"),
    ),
}
UNPAIRED_FIGURES = ("curves", "levels", "iqm")
"""Names of the figures that do not require runs to have the same scenarios."""


def write_figures(out: Path, tables: Mapping[str, Rows]) -> list[Path]:
    """Write the tables that have rows, by name of the figure, as CSV and in all FILE_FORMATS; return the paths."""
    make_folder(out)
    files = []
    for name, rows in ((name, rows) for name, rows in tables.items() if rows):
        table, *paths = (out / f"{name}.{kind}" for kind in ("csv", *FILE_FORMATS))
        write_atomically(table, Table.from_rows(rows).csv())
        picture = FIGURES[name].draw(rows)
        for path in paths:
            save_figure(picture, path, dpi=130)
        files += [table, *paths]
    return files


def panel_svgs(name: str, rows: Rows) -> list[str]:
    """Return the pictures of a table as SVG, legible on a phone: one for each panel of learning curves, or one."""
    parts: dict[tuple[str, str], Rows] = {}
    for row in rows:
        panel = (row["metric"], row["axis"]) if name == "curves" else ("", "")
        parts.setdefault(panel, []).append(row)
    contents = [io.StringIO() for _ in parts]
    for content, part in zip(contents, parts.values(), strict=True):
        FIGURES[name].draw(part).savefig(content, format="svg", metadata={"Date": None})
    return [content.getvalue() for content in contents]
