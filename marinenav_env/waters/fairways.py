"""Centre lines of fairways."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marinenav_env.support.validation import ConfigError
from marinenav_env.waters.shapes import Area, Floats, contains, edges_of, unite

_MOST_RATIO = 1.5
"""Largest ratio of the lengths of two banks that lie opposite each other."""
_POINTS = 65
"""Points of a centre line before it is simplified."""


def centre_line(fairways: Sequence[Area], window: tuple[float, float]) -> list[Floats]:
    """Return the centre line [n, 2] of the union of fairways (m) in a window; none if it does not lead through it.

    A fairway leads through if it has two banks of similar length, from one place at the edge of the window to another.
    The line is midway between points at equal shares of their lengths, and is left out if it leaves the fairway.
    """
    try:
        lines = [line for line, _ in unite(fairways, [], window).chains()]
    except ConfigError:  # not closed
        return []
    lengths = [np.hypot(*np.diff(line, axis=0).T).sum() for line in lines]
    is_closed = any(np.array_equal(line[0], line[-1]) for line in lines)
    if len(lines) != 2 or is_closed or max(lengths) > _MOST_RATIO * min(lengths):
        return []
    left, right = (_resampled(line) for line in lines)
    middle = 0.5 * (left + right[::-1])
    edges = [edges_of(area, 0.01, closed=True) for area in fairways]
    return [middle] if contains(edges, middle[1:-1]).all() else []


def _resampled(line: Floats) -> Floats:
    """Return points [n, 2] at equal distances along a line."""
    along = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
    shares = np.linspace(0.0, along[-1], _POINTS)
    return np.stack([np.interp(shares, along, values) for values in line.T], -1)
