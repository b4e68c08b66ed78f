"""Simplification of lines by the method of Douglas and Peucker, to a number of segments, with its error."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from marinenav_env.waters.shapes import Flags, Floats, crossing_pairs, segment_distances

_STEPS = 12
"""Number of tolerances that are tried while simplified lines cross each other."""


def significance(line: Floats) -> Floats:
    """Return the tolerance [n] (m) up to which each point of a line [n, 2] is kept; infinite for those always kept.

    These are the ends of an open line, and three points of a closed one, so that no island vanishes.
    """
    values = np.zeros(len(line))
    fixed = [0, len(line) - 1]
    if np.array_equal(line[0], line[-1]) and len(line) > 3:
        far = int(np.hypot(*(line - line[0]).T).argmax())
        third = int(segment_distances(line, np.concatenate([line[0], line[far]]))[0].argmax())
        fixed = sorted({0, far, third, len(line) - 1})
    values[fixed] = np.inf
    spans = [(first, last, np.inf) for first, last in pairwise(fixed)]
    while spans:
        first, last, bound = spans.pop()
        if last - first < 2:
            continue
        chord = np.concatenate([line[first], line[last]])
        distances = segment_distances(line[first + 1 : last], chord)[0]
        middle = first + 1 + int(distances.argmax())
        values[middle] = min(bound, float(distances.max()))
        spans += [(first, middle, values[middle]), (middle, last, values[middle])]
    return values


def _segments_of(lines: Sequence[Floats], kept: Sequence[Flags], decimals: int) -> tuple[Floats, list[int]]:
    """Return the segments [S, 4] of the points of lines that are kept, and the number of the line of each."""
    parts, owners = [np.zeros((0, 4))], []
    for number, (line, flags) in enumerate(zip(lines, kept, strict=True)):
        points = np.round(line[flags], decimals)
        segments = np.concatenate([points[:-1], points[1:]], -1)
        segments = segments[(segments[:, :2] != segments[:, 2:]).any(-1)]
        parts.append(segments)
        owners += [number] * len(segments)
    return np.concatenate(parts), owners


def simplify(
    lines: Sequence[tuple[Floats, bool]], most: int, least_error: float, most_error: float, decimals: int = 2
) -> tuple[Floats, float]:
    """Return the segments [S, 4] of lines, of which walls have two each, and the error (m).

    The error is the largest distance between a line and its simplified form: the smallest from ``least_error`` on that
    gives at most ``most`` segments, which do not cross each other; if even ``most_error`` gives more, S is larger than
    ``most``.
    """
    points, weights = [line for line, _ in lines], [2 if is_wall else 1 for _, is_wall in lines]
    values = [significance(line) for line in points]
    # Error at which each point goes, and the segments that go with it.
    going = np.concatenate([np.zeros(0), *values])
    weight = np.concatenate([np.zeros(0), *(np.full(len(v), w) for v, w in zip(values, weights, strict=True))])
    total = weight.sum() - sum(weights)
    order = np.argsort(going)
    left = total - np.cumsum(weight[order])
    enough = np.flatnonzero(left <= most)
    needed = 0.0 if total <= most else float(going[order][enough[0]]) if len(enough) else most_error
    error, shares = max(least_error, min(needed, most_error)), np.ones(len(points))
    for step in range(_STEPS + 1):
        limits = error * shares
        kept = [value > limit for value, limit in zip(values, limits, strict=True)]
        segments, owners = _segments_of(points, kept, decimals)
        crossing = crossing_pairs(segments)
        count = len(segments) + sum(weights[owner] == 2 for owner in owners)
        if (not len(crossing) and count <= most) or (error >= most_error and count > most) or step == _STEPS:
            break
        if count > most:
            error, shares = min(1.2 * error, most_error), np.ones(len(points))
        else:
            for owner in {owners[number] for number in crossing.ravel()}:
                shares[owner] = 0.5 * shares[owner] if shares[owner] > 0.1 else 0.0
    walls = np.array([weights[owner] == 2 for owner in owners], bool)
    dropped = [value[~flags].max(initial=0.0) for value, flags in zip(values, kept, strict=True)]
    both = np.concatenate([segments, segments[walls][:, [2, 3, 0, 1]]])
    return both, float(max(dropped, default=0.0)) + 0.5 * 10.0**-decimals
