"""Plane geometry of shores: distances, and the union of polygons and lines inside a window.

A shore is a segment (ax, ay, bx, by) in the frame of the world (m; x north, y east) with land on its left, as on a
chart with north up: with d = b - a, a point p is on its land side where d_y * (p_x - a_x) - d_x * (p_y - a_y) > 0. A
wall with water on both sides is two segments, a to b and b to a. The edge of a window is no shore: which side a point
is on follows from the nearest segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from marinenav_env.support.validation import ConfigError

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
Area = Sequence[Floats]
"""A polygon: rings [n, 2], the holes among them; a point is inside where it is inside an odd number of rings."""

EMPTY: Floats = np.zeros((0, 4))
SAME_DISTANCE = 1e-6
"""Difference of distances (m) that is none: segments that share a corner, or the two of a wall, are equally near."""
BORDER = 0.03
"""Distance (m) from the edge of the window within which an edge that runs along it is the cut of a polygon."""
_GRIDS = (0.01, 0.03, 0.1, 0.3)
"""Grids (m) that vertices are moved to, in turn, until the union of all polygons has a closed boundary."""
_NODE = 1e-3
"""Distance (m) below which points are the same."""
_SIDE = 2e-3
"""Distance (m) from an edge at which it is tested what lies beside it."""
_MOST_PAIRS = 2_000_000
"""Largest number of pairs that are computed at once."""
_MOST_CROSSINGS = 100_000
"""Largest number of pairs of lines that cross each other."""
_TOO_MANY_LINES = "the window has too many lines for one map: a smaller --size has fewer"


def cross(first: Floats, second: Floats) -> Floats:
    """Return first_x * second_y - first_y * second_x of vectors [..., 2]."""
    return np.asarray(first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0])


def segment_distances(points: Floats, segments: Floats) -> tuple[Floats, Floats]:
    """Return the distances of points [..., 2] from segments [..., 4], and from their lines, positive on the left."""
    start_x, start_y, way_x, way_y = np.moveaxis(segments, -1, 0)
    way_x, way_y = way_x - start_x, way_y - start_y
    x, y = points[..., 0] - start_x, points[..., 1] - start_y
    square = np.maximum(way_x**2 + way_y**2, 1e-18)
    share = np.clip((x * way_x + y * way_y) / square, 0.0, 1.0)
    sides = (x * way_y - y * way_x) / np.sqrt(square)
    return np.hypot(x - share * way_x, y - share * way_y), sides


def signed_distance(points: Floats, shores: Floats) -> Floats:
    """Return the distance [N] of points [N, 2] from the nearest shore of [S, 4], negative on land; inf without shores.

    At a corner the side is that of the segment whose line is farther away; where that leaves none, it is water.
    """
    result = np.full(len(points), np.inf)
    for part in _parts(len(points), len(shores)):
        distances, sides = segment_distances(points[part, None], shores)
        least = distances.min(-1)
        nearest = distances <= least[:, None] + SAME_DISTANCE
        high = np.where(nearest, sides, -np.inf).max(-1)
        low = np.where(nearest, sides, np.inf).min(-1)
        result[part] = np.where(high + low > SAME_DISTANCE, -least, least)
    return result


def ways_are_clear(starts: Floats, ends: Floats, shores: Floats, distance: float) -> Flags:
    """Return whether straight ways from starts to ends [N, 2] keep a distance (m) above 0 from shores [S, 4], [N]."""
    result = np.ones(len(starts), bool)
    low = np.minimum(shores[:, :2], shores[:, 2:]) - distance
    high = np.maximum(shores[:, :2], shores[:, 2:]) + distance
    for part in _parts(len(starts), len(shores)):
        a, b = starts[part, None], ends[part, None]
        way, shore = np.nonzero(((np.minimum(a, b) <= high) & (np.maximum(a, b) >= low)).all(-1))
        ways, near = np.concatenate([a[way, 0], b[way, 0]], -1), shores[shore]
        least = np.full(len(way), np.inf)
        for corners, segments in ((ways, near), (near, ways)):
            for corner in (corners[:, :2], corners[:, 2:]):
                least = np.minimum(least, segment_distances(corner, segments)[0])
        is_near = (least < distance - SAME_DISTANCE) | _crosses(ways, near)
        result[part][way[is_near]] = False
    return result


def _parts(rows: int, columns: int) -> Iterator[slice]:
    """Yield slices of rows, so that each has few pairs of rows and columns; none without columns."""
    step = max(_MOST_PAIRS // max(columns, 1), 1)
    for first in range(0, rows if columns else 0, step):
        yield slice(first, first + step)


def _crosses(first: Floats, second: Floats) -> Flags:
    """Return whether segments [..., 4] cross each other inside both."""
    p, q, a, b = first[..., :2], first[..., 2:], second[..., :2], second[..., 2:]
    apart = cross(q - p, a - p) * cross(q - p, b - p) < 0.0
    return np.asarray(apart & (cross(b - a, p - a) * cross(b - a, q - a) < 0.0))


def crossing_pairs(segments: Floats) -> Integers:
    """Return the pairs [K, 2] of segments of [S, 4] that cross each other inside both."""
    pairs = _near_pairs(segments, 0.0)
    return pairs[_crosses(segments[pairs[:, 0]], segments[pairs[:, 1]])]


def _near_pairs(segments: Floats, margin: float) -> Integers:
    """Return the pairs [K, 2] of segments whose bounding boxes, with a margin, overlap."""
    low = np.minimum(segments[:, :2], segments[:, 2:]) - margin
    high = np.maximum(segments[:, :2], segments[:, 2:])
    order = np.argsort(low[:, 0], kind="stable")
    counts = np.searchsorted(low[order, 0], high[order, 0], side="right") - np.arange(len(order)) - 1
    if counts.sum() > 10 * _MOST_PAIRS:
        raise ConfigError(_TOO_MANY_LINES)
    first = np.repeat(np.arange(len(order)), counts)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
    first, second = order[first], order[second]
    overlap = (low[first, 1] <= high[second, 1]) & (low[second, 1] <= high[first, 1])
    return np.stack([first[overlap], second[overlap]], -1)


# Union ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """Edges of land and walls in a window, which meet at nodes only."""

    nodes: Floats
    """[N, 2] positions (m)."""
    edges: Integers
    """[K, 2] first and last node of each edge; land is on the left of those that are no walls."""
    is_wall: Flags
    """[K] bool: there is water on both sides."""

    def is_closed(self, size: tuple[float, float]) -> bool:
        """Return whether boundaries of land end nowhere but at the edge of the window."""
        shores = self.edges[~self.is_wall]
        count = len(self.nodes)
        open_nodes = np.bincount(shores[:, 0], minlength=count) != np.bincount(shores[:, 1], minlength=count)
        ends = self.nodes[open_nodes]
        return bool(((ends <= BORDER) | (ends >= np.array(size) - BORDER)).any(-1).all())

    def chains(self) -> Iterator[tuple[Floats, bool]]:
        """Yield the lines [n, 2] between nodes where other than two edges meet, and whether each is a wall."""
        total = np.bincount(self.edges.ravel(), minlength=len(self.nodes))
        walls = np.bincount(self.edges[self.is_wall].ravel(), minlength=len(self.nodes))
        stops = (total != 2) | (walls == 1)
        leaving: dict[int, list[int]] = defaultdict(list)
        for number, ((first, last), is_wall) in enumerate(zip(self.edges.tolist(), self.is_wall, strict=True)):
            leaving[first].append(number)
            if is_wall:
                leaving[last].append(number)
        used: set[int] = set()
        for start in (*np.flatnonzero(stops).tolist(), *np.flatnonzero(~stops).tolist()):
            for number in leaving[start]:
                if number not in used:
                    yield self.nodes[self._walk(start, number, leaving, stops, used)], bool(self.is_wall[number])

    def _walk(self, start: int, number: int, leaving: dict[int, list[int]], stops: Flags, used: set[int]) -> list[int]:
        """Return the nodes from a start over an edge to the next stop, or around to the start; edges become used."""
        path, edge = [start], number
        while True:
            used.add(edge)
            path.append(int(self.edges[edge].sum()) - path[-1])
            onwards = [other for other in leaving[path[-1]] if other not in used]
            if stops[path[-1]] or path[-1] == start or not onwards:
                return path
            edge = onwards[0]


def unite(areas: Sequence[Area], lines: Sequence[Floats], size: tuple[float, float], coast: Floats = EMPTY) -> Network:
    """Return the boundary of the union of land, and what lies in the water of lines, in a window.

    Land are areas, and what is on the left of the nearest segment of a coast [n, 4]. The window reaches from (0, 0) to
    ``size`` (m). Rings may have any direction, touch, cross, and repeat points. Edges along the edge of the window are
    left out. Vertices are moved by 7 mm at most, and by more only where the union would not be closed otherwise.
    """
    for grid in _GRIDS:
        network = _overlay(areas, lines, size, grid, edges_of(coast.reshape(-1, 2, 2), grid, closed=False))
        if network.is_closed(size):
            return network
    raise ConfigError("the polygons or coastlines of land cannot be united: their boundary ends in the window")


def edges_of(rings: Iterable[Floats], grid: float, closed: bool) -> Floats:
    """Return the edges [n, 4] of rings or lines, whose vertices are moved to a grid."""
    edges = [np.zeros((0, 4))]
    for ring in rings:
        points = np.round(ring / grid) * grid
        if closed:
            points = np.concatenate([points, points[:1]])
        edges.append(np.concatenate([points[:-1], points[1:]], -1))
    joined = np.concatenate(edges)
    return joined[(joined[:, :2] != joined[:, 2:]).any(-1)]


def _overlay(
    areas: Sequence[Area], lines: Sequence[Floats], size: tuple[float, float], grid: float, coast: Floats
) -> Network:
    """Return the union of areas and lines whose vertices are moved to a grid; it may not be closed."""
    by_area = [edges_of(area, grid, closed=True) for area in areas]
    pieces = clip(np.concatenate([coast, *by_area]), size)
    walls = clip(edges_of(lines, grid, closed=False), size)
    nodes, edges, number = _split(np.concatenate([pieces, walls]))
    edges, index = np.unique(np.sort(edges, axis=-1), axis=0, return_inverse=True)
    is_line = np.zeros(len(edges), bool)
    is_line[index.reshape(-1)[number >= len(pieces)]] = True
    start, way = nodes[edges[:, 0]], nodes[edges[:, 1]] - nodes[edges[:, 0]]
    normal = np.stack([way[:, 1], -way[:, 0]], -1) * (_SIDE / np.maximum(np.hypot(*way.T), _NODE))[:, None]
    middle = start + 0.5 * way
    left, right = contains(by_area, middle + normal, coast), contains(by_area, middle - normal, coast)
    edges = np.where((right & ~left)[:, None], edges[:, ::-1], edges)
    kept = (left != right) | (is_line & ~left & ~right)
    return Network(nodes, edges[kept], (left == right)[kept])


def clip(segments: Floats, size: tuple[float, float]) -> Floats:
    """Return the parts of segments [n, 4] inside a window of a size (m), without those that run along its edge."""
    start, way = segments[:, :2], segments[:, 2:] - segments[:, :2]
    inside = ((way != 0.0) | ((start >= 0.0) & (start <= size))).all(-1)
    safe = np.where(way == 0.0, np.inf, way)
    ends = np.stack([-start / safe, (np.array(size) - start) / safe])
    ends = np.where(way == 0.0, np.array([-np.inf, np.inf])[:, None, None], ends)
    first = np.maximum(ends.min(0).max(-1), 0.0)
    last = np.minimum(ends.max(0).min(-1), 1.0)
    kept = inside & (first < last)
    parts = (start[:, None] + np.stack([first, last], -1)[..., None] * way[:, None])[kept]
    parts = np.where((first == 0.0)[kept, None, None] & (np.arange(2) == 0)[:, None], start[kept, None], parts)
    parts = np.where((last == 1.0)[kept, None, None] & (np.arange(2) == 1)[:, None], segments[kept, None, 2:], parts)
    parts = np.clip(parts, 0.0, size)
    along = ((parts <= BORDER).all(1) | (parts >= np.array(size) - BORDER).all(1)).any(-1)
    return parts[~along].reshape(-1, 4)


def _split(segments: Floats) -> tuple[Floats, Integers, Integers]:
    """Split segments where they meet; return nodes [N, 2], edges [K, 2] as nodes, and the segment of each edge."""
    pairs = _near_pairs(segments, _NODE)
    numbers, shares, points = [], [], []
    touching = np.zeros(len(pairs), bool)
    for one, other in ((0, 1), (1, 0)):
        base = segments[pairs[:, one]]
        way = base[:, 2:] - base[:, :2]
        for columns in (slice(0, 2), slice(2, 4)):
            corner = segments[pairs[:, other], columns]
            share = ((corner - base[:, :2]) * way).sum(-1) / (way**2).sum(-1)
            away = corner - base[:, :2] - np.clip(share, 0.0, 1.0)[:, None] * way
            on_it = np.hypot(*away.T) <= _NODE
            touching |= on_it
            on_it &= (share > 0.0) & (share < 1.0)
            numbers.append(pairs[on_it, one])
            shares.append(share[on_it])
            points.append(corner[on_it])
    pairs = pairs[~touching]
    first, second = segments[pairs[:, 0]], segments[pairs[:, 1]]
    across = _crosses(first, second)
    pairs, first, second = pairs[across], first[across], second[across]
    if len(pairs) > _MOST_CROSSINGS:
        raise ConfigError(_TOO_MANY_LINES)
    way, other_way = first[:, 2:] - first[:, :2], second[:, 2:] - second[:, :2]
    between = second[:, :2] - first[:, :2]
    share = cross(between, other_way) / cross(way, other_way)
    point = first[:, :2] + share[:, None] * way
    count = len(segments)
    numbers += [*pairs.T, np.arange(count), np.arange(count)]
    shares += [share, cross(between, way) / cross(way, other_way), np.zeros(count), np.ones(count)]
    points += [point, point, segments[:, :2], segments[:, 2:]]
    number = np.concatenate(numbers).astype(np.int64)
    order = np.lexsort((np.concatenate(shares), number))
    number = number[order]
    keys = np.round(np.concatenate(points)[order] / _NODE).astype(np.int64)
    nodes, index = np.unique(keys, axis=0, return_inverse=True)
    index = index.reshape(-1)
    joined = (number[1:] == number[:-1]) & (index[1:] != index[:-1])
    edges = np.stack([index[:-1], index[1:]], -1)[joined]
    return np.asarray(nodes * _NODE, np.float64), edges, number[1:][joined]


def contains(areas: Sequence[Floats], points: Floats, coast: Floats = EMPTY) -> Flags:
    """Return whether points [N, 2] are inside any area, the edges [n, 4] of its rings, or on the land of a coast."""
    result = signed_distance(points, coast) < 0.0
    if not len(points):
        return result
    low, high = points.min(0), points.max(0)
    for edges in areas:
        # Only edges that a ray from a point towards larger x can meet.
        near = (np.minimum(edges[:, 1], edges[:, 3]) <= high[1]) & (np.maximum(edges[:, 1], edges[:, 3]) >= low[1])
        near &= np.maximum(edges[:, 0], edges[:, 2]) >= low[0]
        a, b = edges[near, :2], edges[near, 2:]
        for part in _parts(len(points), len(a)):
            x, y = points[part].T[..., None]
            spans = (a[:, 1] > y) != (b[:, 1] > y)
            with np.errstate(divide="ignore", invalid="ignore"):
                ahead = a[:, 0] + (y - a[:, 1]) / (b[:, 1] - a[:, 1]) * (b[:, 0] - a[:, 0]) > x
            result[part] |= (spans & ahead).sum(-1) % 2 == 1
    return result
