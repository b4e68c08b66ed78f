"""Charts: the shores, and the routes offered, of a window of a chart file, in local metres; and their own files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from marinenav_env.config import MAX_WAYPOINTS, SHORE_SIZES
from marinenav_env.support.files import parse_json, read_text, replacing
from marinenav_env.support.nodes import Node
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, is_number, require
from marinenav_env.waters.features import (
    COVERAGE_LAYER,
    DEPTH_LAYER,
    FAIRWAY_LAYER,
    LAND_LAYERS,
    OSM_COASTLINE,
    OSM_LAYERS,
    OSM_WATERS,
    ROUTE_LAYERS,
    Feature,
    read_features,
)
from marinenav_env.waters.moos import is_moos, read_obstacles
from marinenav_env.waters.projection import LocalPlane
from marinenav_env.waters.shapes import (
    EMPTY,
    Area,
    Floats,
    clip,
    contains,
    crossing_pairs,
    edges_of,
    segment_distances,
    signed_distance,
    unite,
    ways_are_clear,
)
from marinenav_env.waters.simplify import significance, simplify

FILE_DESCRIPTION = "a chart of marinenav"
"""Description of a readable file of a Chart, for error messages."""
DRAUGHT = 0.5
"""Depth (m) up to which the greatest depth of a depth area makes it land, by default."""
MOST_SEGMENTS, FINE_ERROR = 64, 1.0
"""Segments of a chart, by default, and the error (m) above which it may have as many as worlds have room for."""
LIMIT_OF_SEGMENTS = 4096
"""Largest number of segments that may be asked for, and of a file."""
SIZES = (10.0, 20_000.0)
"""Smallest and largest side of a window (m)."""
_LEAST_ERROR = 0.02
"""Error of simplification (m) that is always allowed."""
_MOST_ERROR = 0.01
"""Largest error of simplification, and largest gap between data and the window, as a share of the window's side."""
_TOUCHING = 0.01
"""Distance (m) from shores below which a route touches land."""
_BANK_RATIO = 1.5
"""Largest ratio of the lengths of two banks of a fairway that lie opposite each other."""
_CENTRE_POINTS = 65
"""Points of the centre line of a fairway before it is simplified."""
_SAMPLES = 100
"""Points along a side of the window at which it is looked where water is."""


@dataclass(frozen=True, eq=False)
class Chart:
    """Shores and routes of a window of a chart, in metres from its south-west corner: x north, y east."""

    name: str
    """Name, such as that of its file."""
    width: float
    """Size of the window along x, to the north (m)."""
    height: float
    """Size of the window along y, to the east (m)."""
    shores: Floats
    """[S, 4] segments (ax, ay, bx, by) with land on their left (see ``waters.shapes``); walls are in it twice."""
    routes: tuple[Floats, ...]
    """Routes that the chart offers, each as positions [n, 2] in their order."""
    origin: tuple[float, float]
    """Latitude and longitude of the south-west corner (degrees)."""
    tolerance: float
    """Largest distance between the chart's lines and these segments (m)."""
    source: str
    """Where it comes from: file, layers, draught."""

    @property
    def plane(self) -> LocalPlane:
        """Return the plane of the window's metres, for conversion from and to longitudes and latitudes."""
        return LocalPlane(*self.origin)

    def sample(self, along: int = _SAMPLES) -> tuple[Floats, Floats]:
        """Return the middles [along^2, 2] of parts of the window, and their distances from land, negative on it."""
        shares = (np.arange(along) + 0.5) / along
        points = np.stack(np.meshgrid(shares * self.width, shares * self.height, indexing="ij"), -1).reshape(-1, 2)
        return points, signed_distance(points, self.shores)

    def text(self) -> str:
        """Return the text of the chart's file: JSON, with lengths rounded to 1 cm."""
        content = {
            "name": self.name,
            "width": round(self.width, 2),
            "height": round(self.height, 2),
            "origin": [round(value, 8) for value in self.origin],
            "tolerance": round(self.tolerance, 3),
            "source": self.source,
            "shores": np.round(self.shores, 2).tolist(),
            "routes": [np.round(route, 2).tolist() for route in self.routes],
        }
        lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in content.items())
        return f'{{"chart": {{\n{lines}\n}}}}\n'

    def save(self, path: str | Path) -> None:
        """Write the chart's file."""
        with replacing(Path(path)) as stream:
            stream.write(self.text().encode())

    @classmethod
    def load(cls, path: str | Path) -> Chart:
        """Read a chart's file, or one of obstacles of MOOS-IvP; a file that is damaged is refused in one sentence."""
        text, name = read_text(path, FILE_DESCRIPTION), str(path)
        if not is_moos(text):
            return cls.parse(parse_json(text, name, FILE_DESCRIPTION), name)
        areas, window = read_obstacles(text, name)
        fits = min(window) > 0.0 and max(window) <= SIZES[1]
        require(fits, f"{name}: size", "{:g} x {:g} m".format(*window), f"above 0 and up to {SIZES[1]:g} m")
        empty = cls(Path(name).stem, *window, np.zeros((0, 4)), (), (0.0, 0.0), 0.0, "polygons of MOOS-IvP")
        return with_land(empty, [[area] for area in areas], [], SHORE_SIZES[-1], name=name)

    @classmethod
    def parse(cls, content: Any, name: str) -> Chart:
        """Return the chart in the parsed content of a file; ``name`` is the source of the content, for messages."""
        root = Node(content, name).require("chart")
        unknown = ", ".join(sorted(map(str, root.keys() - set(cls.__dataclass_fields__))))
        if unknown:
            raise ConfigError(f"{name}: the keys {unknown} of chart are unknown")
        width, height = (root.require(key).number(1e-6, SIZES[1]) for key in ("width", "height"))
        source, tolerance, origin, routes = (root.get(key) for key in ("source", "tolerance", "origin", "routes"))
        latitude, longitude = origin.items(2, 2) if origin else [Node(0.0, "")] * 2
        return cls(
            root.require("name").text(),
            width,
            height,
            _points(root.require("shores"), (width, height) * 2),
            tuple(_points(route, (width, height)) for route in routes.items()) if routes else (),
            (latitude.number(-90.0, 90.0), longitude.number(-360.0, 360.0)),
            tolerance.number(0.0) if tolerance else 0.0,
            source.text() if source else "",
        )


def _points(node: Node, most: tuple[float, ...]) -> Floats:
    """Return rows of as many numbers as ``most`` has, each from 0 to that, as an array."""
    rows = [row.items(len(most), len(most)) for row in node.items(0, LIMIT_OF_SEGMENTS)]
    numbers = [[item.number(0.0, high + 0.01) for item, high in zip(row, most, strict=True)] for row in rows]
    return np.array(numbers, np.float64).reshape(-1, len(most))


# Reading charts ---------------------------------------------------------------------------------


def read_chart(
    path: str | Path | Sequence[str | Path],
    at: tuple[float, float] | None = None,
    size: float = 300.0,
    layers: Sequence[str] | None = None,
    draught: float = DRAUGHT,
    most_segments: int | None = None,
    tolerance: float | None = None,
) -> Chart:
    """Read a window of a chart, whose lines are simplified until they have few segments.

    GeoJSON is read by itself; S-57 (``.000``), GeoPackage, shapefiles and others need the extra ``charts``. Land are
    the polygons of LAND_LAYERS, and depth areas that are nowhere deeper than the draught; their other lines are walls
    with water on both sides. Polygons without a layer are land, lines without a layer walls. Coastlines of
    OpenStreetMap have land on their left.

    Args:
        path: path of the chart, or of several that lie beside each other or hold one layer each.
        at: latitude and longitude (degrees) of the middle of the window; by default the middle of the data.
        size: side of the square window (m); the window ends where the data ends if that is less than 1% less.
        layers: layers of land, walls and depths in place of the default ones.
        draught: greatest depth (m) of depth areas that are as good as land.
        most_segments: largest number of segments, two for each edge of a wall; by default 64, or 256 for an error up
            to 1 m.
        tolerance: error of simplification (m); by default the smallest that gives few enough segments, up to 1% of
            the side.

    Raises:
        ConfigError: if the file or an option cannot be used, or the window has no shore, no water, or too many
            segments.
    """
    paths = [Path(each) for each in ([path] if isinstance(path, str | Path) else path)]
    name = ", ".join(map(str, paths))
    require_window(at, size)
    require(is_number(draught) and abs(draught) <= 100.0, "draught", draught, "a number of metres from -100 to 100")
    valid = most_segments is None or (is_nonnegative_int(most_segments) and 1 <= most_segments <= LIMIT_OF_SEGMENTS)
    require(valid, "segments", most_segments, f"a whole number from 1 to {LIMIT_OF_SEGMENTS:,}")
    valid = tolerance is None or (is_number(tolerance) and 0.0 <= tolerance <= size)
    require(valid, "tolerance", tolerance, "a number of metres from 0 to the size")
    wanted = {DEPTH_LAYER, *LAND_LAYERS, *OSM_LAYERS} if layers is None else {layer.upper() for layer in layers}
    features = [item for each in paths for item in read_features(each, wanted)]
    chosen, names = _choose(features, wanted, layers is not None, draught, name)
    plane, window = _place(features, at, size)
    _require_coverage(features, plane, window, name)
    dry = [area for item in chosen if item.layer not in OSM_WATERS for area in item.areas]
    areas = [[plane.to_metres(ring) for ring in area] for area in dry]
    walls = [plane.to_metres(line) for item in chosen if item.layer != OSM_COASTLINE for line in item.lines]
    coast = _coast(chosen, plane, window)
    waters = [ring for item in chosen if item.layer in OSM_WATERS for area in item.areas for ring in area]
    if waters and not len(coast):
        areas.append([np.array([(0, 0), (1, 0), (1, 1), (0, 1)]) * window, *map(plane.to_metres, waters)])
    routes = [plane.to_metres(line) for item in features if item.layer in ROUTE_LAYERS for line in item.lines]
    fairways = [area for item in features if item.layer == FAIRWAY_LAYER for area in item.areas]
    routes += _centre_line([[plane.to_metres(ring) for ring in area] for area in fairways], window)
    source = f"{', '.join(each.name for each in paths)}: {', '.join(names)}; depths up to {draught:g} m are land"
    origin = plane.latitude, plane.longitude
    empty = Chart(paths[0].stem, *window, np.zeros((0, 4)), tuple(routes), origin, 0.0, source)
    return with_land(empty, areas, walls, most_segments, tolerance, name, coast)


def with_land(
    chart: Chart,
    areas: Sequence[Area],
    walls: Sequence[Floats],
    most_segments: int | None = None,
    tolerance: float | None = None,
    name: str = "",
    coast: Floats = EMPTY,
) -> Chart:
    """Return a chart with land and walls (m) as its shores, and with what of its routes is in the water.

    The other arguments are those of ``read_chart``; ``name`` is for messages.
    """
    name, window = name or chart.name, (chart.width, chart.height)
    most_error = _MOST_ERROR * max(window) if tolerance is None else tolerance
    least = min(_LEAST_ERROR, most_error) if tolerance is None else tolerance
    try:
        lines = list(unite(areas, walls, window, coast).chains())
        for most in [most_segments] if most_segments else [MOST_SEGMENTS, SHORE_SIZES[-1]]:
            shores, error = simplify(lines, most, least, most_error)
            if len(shores) <= most and error <= FINE_ERROR:
                break
    except ConfigError as problem:
        raise ConfigError(f"{name}: {problem}") from problem
    if not len(shores):
        raise _empty_window(chart, areas, walls, coast, name)
    if len(shores) > most:
        advice = "a larger --segments or a smaller --size" if tolerance is None else "another --segments or --tolerance"
        raise ConfigError(
            f"{name}: the window has {len(shores):,} segments with an error of {most_error:g} m, more than "
            f"{most:,}: {advice} helps"
        )
    offered = tuple(part for route in chart.routes for part in _route_parts(route, window, shores))
    found = replace(chart, shores=shores, routes=offered, tolerance=error)
    _require_agreement(found, areas, coast, name)
    return found


def require_window(at: tuple[float, float] | None, size: float) -> None:
    """Raise an error for a place or a size of a window that cannot be used."""
    valid = at is None or (len(at) == 2 and all(map(is_number, at)) and abs(at[0]) < 90.0 and abs(at[1]) <= 360.0)
    require(valid, "at", at, "latitude and longitude in degrees, such as 25.77,-80.18")
    low, high = SIZES
    require(is_number(size) and low <= size <= high, "size", size, f"a number of metres from {low:g} to {high:g}")


def _choose(
    features: list[Feature], wanted: set[str], is_exact: bool, draught: float, name: str
) -> tuple[list[Feature], list[str]]:
    """Return the features that are land, walls, coastlines or waters, and their layers.

    If ``is_exact``, all layers must be there, and what has no layer is left out.
    """
    present = {item.layer for item in features}
    shown = ", ".join(sorted(present - {""})) or "none; a chart is GeoJSON, S-57, GeoPackage or a shapefile"
    if is_exact and wanted - present:
        raise ConfigError(f"{name}: has no layer {', '.join(sorted(wanted - present))}; its layers are {shown}")
    chosen = []
    for item in features:
        is_deep = item.layer == DEPTH_LAYER and (item.depth is None or item.depth > draught)
        if (item.layer in wanted or not (item.layer or is_exact)) and not is_deep:
            chosen.append(item)
    if not any(len(points) for item in chosen for points in item.points()):
        looked_for = ", ".join(sorted(wanted.difference(() if is_exact else OSM_LAYERS)))
        raise ConfigError(f"{name}: has no land in {looked_for}; its layers are {shown}")
    return chosen, sorted(wanted & present) or ["polygons and lines"]


def _coast(features: list[Feature], plane: LocalPlane, window: tuple[float, float]) -> Floats:
    """Return the segments [n, 4] of coastlines that decide where land is in a window: those near it, or the nearest."""
    lines = [plane.to_metres(line) for item in features if item.layer == OSM_COASTLINE for line in item.lines]
    edges = edges_of(lines, 1e-3, closed=False)
    away, _ = segment_distances(0.5 * np.array(window), edges)
    return edges[away <= max(*window, away.min(initial=np.inf) + 1e-6)]


def _place(
    features: list[Feature], at: tuple[float, float] | None, size: float
) -> tuple[LocalPlane, tuple[float, float]]:
    """Return the plane at the south-west corner of a window, and the size of the window along x and y (m).

    The window lies around ``at``, by default the middle of the data. If it reaches a little beyond the data, it is cut
    there, because polygons of a cut file run along its edge.
    """
    points = np.concatenate([points for item in features for points in item.points()])
    points[:, 0] = (points[:, 0] - points[0, 0] + 180.0) % 360.0 - 180.0 + points[0, 0]  # from -180 or not
    bounds = np.stack([points.min(0), points.max(0)])
    middle = LocalPlane(*(bounds.mean(0)[::-1].tolist() if at is None else at))
    low, high = middle.to_metres(bounds)
    half, most = 0.5 * size, _MOST_ERROR * size
    low = np.where((low > -half) & (low < most - half), low, -half)
    high = np.where((high < half) & (high > half - most), high, half)
    longitude, latitude = middle.to_degrees(low).tolist()
    width, height = np.round(high - low, 2).tolist()
    return LocalPlane(round(latitude, 8), round(longitude, 8)), (width, height)


def _require_coverage(features: list[Feature], plane: LocalPlane, window: tuple[float, float], name: str) -> None:
    """Raise an error if a chart that says what it covers does not cover a window."""
    covered = [area for item in features if item.layer == COVERAGE_LAYER for area in item.areas]
    if covered:
        sides = [np.linspace(1.0, side - 1.0, 21) for side in window]
        points = np.stack(np.meshgrid(*sides), -1).reshape(-1, 2)
        edges = [edges_of([plane.to_metres(ring) for ring in area], 0.01, closed=True) for area in covered]
        if not contains(edges, points).all():
            raise ConfigError(f"{name}: the window reaches beyond what the chart covers; give a smaller --size")


def _empty_window(
    chart: Chart, areas: Sequence[Area], lines: Sequence[Floats], coast: Floats, name: str
) -> ConfigError:
    """Return the error for a window without shores: it is all land or all water, and where the nearest shore is."""
    middle = 0.5 * np.array([[chart.width, chart.height]])
    is_land = contains([edges_of(area, 0.01, closed=True) for area in areas], middle, coast)[0]
    points = np.concatenate([coast[:, :2], *(ring for area in areas for ring in area), *lines])
    near = chart.plane.to_degrees(points[np.hypot(*(points - middle).T).argmin()])
    what = "no water: it is all land" if is_land else "no shore: it is all water"
    return ConfigError(f"{name}: the window has {what}; a shore is at {near[1]:.6f},{near[0]:.6f} (--at)")


def _route_parts(route: Floats, window: tuple[float, float], shores: Floats) -> list[Floats]:
    """Return the parts [n, 2] of a route in a window that stay in the water and have a fifth of its side or more."""
    pieces = clip(np.concatenate([route[:-1], route[1:]], -1), window)
    pieces = pieces[ways_are_clear(pieces[:, :2], pieces[:, 2:], shores, _TOUCHING)]
    breaks = np.flatnonzero((pieces[1:, :2] != pieces[:-1, 2:]).any(-1)) + 1
    parts = []
    for part in np.split(pieces, breaks) if len(pieces) else []:
        points = np.concatenate([part[:1, :2], part[:, 2:]])
        values = significance(points)
        points = points[values >= np.sort(values)[-min(MAX_WAYPOINTS, len(values))]]
        in_water = len(points) > 1 and (signed_distance(points, shores) > 0.0).all()
        is_long = np.hypot(*(points[1:] - points[:-1]).T).sum() >= 0.2 * min(window)
        if is_long and in_water and ways_are_clear(points[:-1], points[1:], shores, _TOUCHING).all():
            parts.append(points)
    return parts


def _centre_line(fairways: Sequence[Area], window: tuple[float, float]) -> list[Floats]:
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
    if len(lines) != 2 or is_closed or max(lengths) > _BANK_RATIO * min(lengths):
        return []
    left, right = (_resampled(line) for line in lines)
    middle = 0.5 * (left + right[::-1])
    edges = [edges_of(area, 0.01, closed=True) for area in fairways]
    return [middle] if contains(edges, middle[1:-1]).all() else []


def _resampled(line: Floats) -> Floats:
    """Return points [n, 2] at equal distances along a line."""
    along = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
    shares = np.linspace(0.0, along[-1], _CENTRE_POINTS)
    return np.stack([np.interp(shares, along, values) for values in line.T], -1)


def _require_agreement(chart: Chart, areas: Sequence[Area], coast: Floats, name: str) -> None:
    """Raise an error unless simplified shores have water and land where the chart has them, and there is water."""
    points, distance = chart.sample()
    is_land = contains([edges_of(area, 0.01, closed=True) for area in areas], points, coast)
    differs = (is_land != (distance < 0.0)) & (np.abs(distance) > chart.tolerance + 0.1)
    if differs.any() or len(crossing_pairs(chart.shores)):
        raise ConfigError(f"{name}: the simplified shores would not keep land and water apart; more --segments help")
    if not (distance > 0.0).any():
        raise ConfigError(f"{name}: the window has no water")
