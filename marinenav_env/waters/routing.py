"""Routes over the water of a chart: distances on a grid, and the few waypoints that such a way needs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from marinenav_env.config import MAX_WAYPOINTS
from marinenav_env.support.validation import ConfigError, is_number, require
from marinenav_env.waters.charts import Chart
from marinenav_env.waters.shapes import SAME_DISTANCE, Flags, Floats, Integers, signed_distance, ways_are_clear

_CELLS = 100
"""Cells along the longer side of a chart."""
_OFFSETS = [(0, 1), (1, 0), (1, 1), (1, -1), (1, 2), (2, 1), (1, -2), (2, -1)]
"""Rows and columns from a cell to the half of its 16 neighbours that follow it."""
_LEAST_CLEARANCE = 0.01
"""Smallest clearance (m)."""
_LOOK_AHEAD = 16
"""Largest number of cells of a way that are looked at for the next waypoint at once."""
_STARTS_PER_GOAL = 4
"""Number of passages that share a goal, for which distances are computed once."""
_ROUNDS = 20
"""Most rounds of draws for the passages."""


class Passages(NamedTuple):
    """Starts and goals in the same water, with the routes between them."""

    start: Floats
    """[n, 2] positions (m)."""
    heading: Floats
    """[n] direction from the start to the first waypoint (rad, clockwise from north)."""
    goal: Floats
    """[n, 2] positions (m)."""
    waypoints: Floats
    """[n, W, 2] waypoints, of which the last is the goal, as are those that a route does not need (m)."""
    length: Floats
    """[n] lengths of the routes (m)."""


class WaterMap:
    """The water of a chart that is at a distance from land and from the edge of the window.

    The ``clearance`` (m) is, for example, the distance of a vessel's outermost point from its centre.
    """

    def __init__(self, chart: Chart, clearance: float) -> None:
        valid = is_number(clearance) and clearance >= _LEAST_CLEARANCE
        require(valid, "clearance", clearance, f"a number of metres of at least {_LEAST_CLEARANCE:g}")
        self._chart, self._clearance = chart, float(clearance)
        # One side of a wall is as near as the other.
        turned = chart.shores[:, [2, 3, 0, 1]]
        is_later = (chart.shores[:, :2] > turned[:, :2]) @ [2, 1] > (chart.shores[:, :2] < turned[:, :2]) @ [2, 1]
        self._lines = np.unique(np.where(is_later[:, None], turned, chart.shores), axis=0)
        self._size = np.array([chart.width, chart.height])
        self._spacing = float(self._size.max()) / _CELLS
        counts = np.maximum(np.ceil(self._size / self._spacing).astype(np.int64), 1)
        axes = [(np.arange(count) + 0.5) * side / count for count, side in zip(counts, self._size, strict=True)]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
        distance = self._distance(points)
        is_water = distance >= self._clearance - SAME_DISTANCE
        if not is_water.any():
            raise ConfigError(f"{chart.name}: no water is {clearance:g} m from land and from the edge of the window")
        number = np.full(len(points), -1)
        number[is_water] = np.arange(is_water.sum())
        self._cells, distance = points[is_water], distance[is_water]
        self._graph = self._connect(number.reshape(counts.tolist()), distance)

    def _distance(self, points: Floats) -> Floats:
        """Return the distance of points [n, 2] from land and from the edge of the window, negative on land."""
        edge = np.minimum(points, self._size - points).min(-1)
        return np.minimum(signed_distance(points, self._chart.shores), edge)

    def _is_open(self, starts: Floats, ends: Floats) -> Flags:
        """Return whether straight ways from starts to ends [n, 2], which have the clearance, have it all along."""
        return ways_are_clear(starts, ends, self._lines, self._clearance)

    def _connect(self, number: Integers, distance: Floats) -> csr_array:
        """Return the lengths of straight ways between neighbouring cells, whose numbers are on a grid (-1: none)."""
        pairs = []
        for row, column in _OFFSETS:
            height, width = number.shape
            left = slice(max(-column, 0), width - max(column, 0)), slice(max(column, 0), width - max(-column, 0))
            first, second = number[: height - row, left[0]].ravel(), number[row:, left[1]].ravel()
            both = (first >= 0) & (second >= 0)
            pairs.append(np.stack([first[both], second[both]], -1))
        edges = np.concatenate(pairs)
        a, b = self._cells[edges[:, 0]], self._cells[edges[:, 1]]
        length = np.hypot(*(b - a).T)
        # Between cells that are far from land no way can come near it.
        near = distance[edges].sum(-1) - length < 2.0 * self._clearance
        is_open = np.ones(len(edges), bool)
        is_open[near] = self._is_open(a[near], b[near])
        edges, length = edges[is_open], length[is_open]
        return csr_array((length, (edges[:, 0], edges[:, 1])), shape=(len(self._cells), len(self._cells)))

    def _ways_to(self, goals: Floats) -> tuple[Floats, Integers]:
        """Return for goals [G, 2] the distance of every cell, and the next cell on the way there, [G, n] each."""
        cells = np.stack([self._cell_of(goal) for goal in goals])
        return dijkstra(self._graph, directed=False, indices=cells, return_predecessors=True)

    def _cell_of(self, point: Floats) -> int:
        """Return the nearest of the cells to which there is a straight way from a point with the clearance; else -1."""
        away = np.hypot(*(self._cells - point).T)
        nearest = np.argsort(away, kind="stable")[:12]
        is_open = self._is_open(np.broadcast_to(point, (len(nearest), 2)), self._cells[nearest])
        return int(nearest[is_open][0]) if is_open.any() else -1

    def route(self, start: tuple[float, float], goal: tuple[float, float]) -> tuple[Floats, float]:
        """Return the waypoints [n, 2] of a short way over water, of which the last is the goal, and its length (m)."""
        ends = np.array([start, goal], np.float64)
        for name, point in zip(("start", "goal"), ends, strict=True):
            is_finite = bool(np.isfinite(point).all())
            if not is_finite or self._distance(point[None])[0] < self._clearance or self._cell_of(point) < 0:
                raise ConfigError(
                    f"{self._chart.name}: the {name} {point.round(2).tolist()} is not {self._clearance:g} m from land "
                    "and from the edge of the window"
                )
        fields, following = self._ways_to(ends[1:])
        cell = self._cell_of(ends[0])
        if not np.isfinite(fields[0, cell]):
            raise ConfigError(f"{self._chart.name}: no water of this clearance connects {start} and {goal}")
        waypoints = self._pull(ends[0], ends[1], cell, following[0])
        if len(waypoints) > MAX_WAYPOINTS:
            raise ConfigError(
                f"{self._chart.name}: the way from {start} to {goal} needs {len(waypoints)} waypoints, more than "
                f"{MAX_WAYPOINTS}"
            )
        legs = np.diff(np.concatenate([ends[:1], waypoints]), axis=0)
        return waypoints, float(np.hypot(*legs.T).sum())

    def _pull(self, start: Floats, goal: Floats, cell: int, following: Integers) -> Floats:
        """Return the waypoints of the way from a start over cells to a goal, pulled tight."""
        way = [self._cells[cell]]
        while following[cell] >= 0:
            cell = following[cell]
            way.append(self._cells[cell])
        points = np.concatenate([np.stack(way), goal[None]])
        waypoints, place, passed = [], start, -1
        while passed < len(points) - 1:
            passed = self._last_seen(place, points, passed + 1)
            place = points[passed]
            waypoints.append(place)
        return np.stack(waypoints)

    def _last_seen(self, place: Floats, points: Floats, first: int) -> int:
        """Return the number of a point, the last where that is easily found, to which there is a straight way.

        There is one from the place to the ``first`` of the points [n, 2] along a way.
        """
        last = len(points) - 1
        while first < last:
            tried = np.unique(np.linspace(first + 1, last, min(last - first, _LOOK_AHEAD)).astype(np.int64))
            seen = self._is_open(np.broadcast_to(place, (len(tried), 2)), points[tried])
            if not seen.any():
                last = int(tried[0]) - 1
            else:
                index = int(np.flatnonzero(seen)[-1])
                first = int(tried[index])
                last = int(tried[index + 1]) - 1 if index + 1 < len(tried) else first
        return first

    def passages(self, count: int, seed: int, min_distance: float = 0.0) -> Passages:
        """Return random starts and goals whose routes have ``min_distance`` (m) or more; the seed determines them."""
        require(isinstance(count, int) and count > 0, "count", count, "a whole number of at least 1")
        drawn = np.random.default_rng(seed)
        rows: list[tuple[Floats, Floats, Floats, float]] = []
        for _ in range(_ROUNDS):
            goals = self._near(
                drawn, drawn.integers(len(self._cells), size=-(-(count - len(rows)) // _STARTS_PER_GOAL))
            )
            fields, following = self._ways_to(goals)
            for goal, field, way in zip(goals, fields, following, strict=True):
                far = np.flatnonzero(np.isfinite(field) & (field >= min_distance))
                cells = drawn.choice(far, min(len(far), _STARTS_PER_GOAL), replace=False)
                for start, cell in zip(self._near(drawn, cells), cells.tolist(), strict=True):
                    waypoints = self._pull(start, goal, cell, way)
                    length = float(np.hypot(*np.diff(np.concatenate([start[None], waypoints]), axis=0).T).sum())
                    if len(waypoints) <= MAX_WAYPOINTS and length >= min_distance and len(rows) < count:
                        rows.append((start, goal, waypoints, length))
            if len(rows) == count:
                return _stack(rows)
        raise ConfigError(
            f"{self._chart.name}: its water has no {count:,} passages of {min_distance:g} m with a clearance of "
            f"{self._clearance:g} m"
        )

    def _near(self, drawn: np.random.Generator, cells: Integers) -> Floats:
        """Return random points [n, 2] in cells, given by their numbers, to whose middles there are straight ways."""
        middles = self._cells[cells]
        moved = middles + drawn.uniform(-0.5, 0.5, middles.shape) * self._spacing
        stays = self._is_open(middles, moved) & (self._distance(moved) >= self._clearance)
        return np.where(stays[:, None], moved, middles)


def _stack(rows: list[tuple[Floats, Floats, Floats, float]]) -> Passages:
    start, goal = np.stack([row[0] for row in rows]), np.stack([row[1] for row in rows])
    waypoints = np.repeat(goal[:, None], MAX_WAYPOINTS, axis=1)
    for number, (_, _, points, _) in enumerate(rows):
        waypoints[number, : len(points)] = points
    first = waypoints[:, 0] - start
    return Passages(start, np.arctan2(first[:, 1], first[:, 0]), goal, waypoints, np.array([row[3] for row in rows]))
