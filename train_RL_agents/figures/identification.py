"""HTML page of an identified boat: measured and predicted tracks, errors of predictions, coefficients."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from train_RL_agents.figures.page import Track, assemble_report, tracks_svg
from train_RL_agents.identification import report
from train_RL_agents.identification.simulation import TIME_STEP

_INTERVALS = (
    "Intervals hold 95%: they cover noise, and errors of the model that differ from one segment of the log to another. "
    "What the log does not determine keeps the preset's value."
)
_MAX_PICTURES = 8
"""Largest number of predictions that are drawn, each in a picture."""
_MARK_INTERVAL = 10.0
"""Time between two marks of a track (s)."""


def make_page(result: report.Identification, name: str) -> str:
    """Return the page of an identified boat as self-contained HTML."""
    held_out = report.HELD_OUT_SHARE * result.log.duration
    about = (
        f"Predictions start every 5 s in the last {held_out:.0f} s of the log, which were not fitted, from a state "
        "that is estimated from the 20 s before. Dots are measured, the thick line is predicted, the thin line is the "
        "preset; marks are 10 s apart, north is up."
    )
    lines = (*report.summary_lines(result), report.nuisance_line(result.fit), *result.log.notes)
    sentences = "".join(f"<p>{escape(line)}</p>\n" for line in lines)
    table = report.coefficient_table(result.fit).html("Coefficients")
    whom = escape(f"Identified from {result.log_name}, from the preset {result.preset.name}")
    sheet = f'<div class="sheet">{"".join(_track_figures(result))}</div>\n'
    sections = (
        ("Predicted and measured", f"<p>{escape(about)}</p>\n{sheet}"),
        ("Coefficients", f"<p>{_INTERVALS}</p>\n{table}{sentences}"),
    )
    return assemble_report("identification", name, f"<p>{whom}</p>", sections)


def _track_figures(result: report.Identification) -> Iterator[str]:
    """Yield the HTML of pictures of predictions, chosen evenly over the log."""
    prediction, before = result.prediction, result.preset_prediction
    count = len(prediction.start_times)
    for number in np.unique(np.linspace(0, count - 1, min(_MAX_PICTURES, count)).round().astype(int)):
        log, start = result.log, float(prediction.start_times[number])
        length = min(log.duration - start, (prediction.poses.shape[1] - 1) * TIME_STEP)
        rows = slice(0, round(length / TIME_STEP) + 1)
        is_shown = (log.time >= start) & (log.time <= start + length) & np.isfinite(log.pose[:, 0])
        preset, boat = (each.poses[number, rows, :2] for each in (before, prediction))
        measured, marks = log.pose[is_shown, :2], boat[:: round(_MARK_INTERVAL / TIME_STEP)]
        none = preset[:0]
        tracks = [Track("other", preset[::10], none, none), Track("own", boat[::10], marks, none)]
        tracks.append(Track("", none, none, measured))
        caption = f"from {start:.0f} s, for {length:.0f} s"
        # The track of the preset may leave the picture.
        picture = tracks_svg(tracks, np.concatenate((boat, measured)), f"Track {caption}")
        yield f"<figure>{picture}<figcaption>{caption}</figcaption></figure>"
