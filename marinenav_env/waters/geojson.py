"""Features of charts, and reading them from GeoJSON by ``json`` alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from marinenav_env.support.files import read_json
from marinenav_env.support.validation import ConfigError, brief
from marinenav_env.waters.shapes import Area, Floats

DESCRIPTION = "a chart"
"""Description of a readable chart, for error messages."""
LAND_LAYERS = ("LNDARE", "COALNE", "SLCONS", "PONTON")
"""Layers of S-57 that are land or walls: land areas, coastlines, piers and walls, pontoons."""
DEPTH_LAYER, COVERAGE_LAYER = "DEPARE", "M_COVR"
"""Layers of S-57 of depth areas, and of the area that a chart covers."""
FAIRWAY_LAYER = "FAIRWY"
"""Layer of S-57 of fairways, whose centre line is offered as a route."""
ROUTE_LAYERS = ("RECTRC", "NAVLNE", "RCRTCL", "DWRTCL", "TRACK", "ROUTE")
"""Layers of lines that are offered as routes: recommended tracks, navigation lines, centre lines; plain names."""
LAYERS = (*LAND_LAYERS, DEPTH_LAYER, COVERAGE_LAYER, FAIRWAY_LAYER, *ROUTE_LAYERS)
NAME_OF_DEPTH = "DRVAL2"
"""Attribute of a depth area: its greatest depth (m)."""
_WGS84 = ("CRS84", "4326", "WGS84", "WGS 84", "4979", "CRS84H")
_MOST_LEVELS = 8
"""Most collections of GeoJSON inside one another."""


@dataclass
class Feature:
    """Feature of one layer of a chart, with areas and lines in longitudes and latitudes (degrees)."""

    layer: str
    """Layer in capitals, such as LNDARE; empty if the file does not say it."""
    areas: list[Area] = field(default_factory=list)
    """Polygons of rings [n, 2], with their holes."""
    lines: list[Floats] = field(default_factory=list)
    """Lines [n, 2]."""
    depth: float | None = None
    """Greatest depth (m), if stated."""

    def points(self) -> Iterator[Floats]:
        """Yield the points [n, 2] of all rings and lines."""
        return chain(*self.areas, self.lines)


def read_geojson(path: Path) -> tuple[list[Feature], str]:
    """Read the features of a GeoJSON file, and the name of its coordinate system; empty for WGS84.

    A feature's layer is ``properties.layer``, else the name of the collection or of the file if it is one of LAYERS.
    """
    content = read_json(path, DESCRIPTION)
    reader = _Reader(str(path), content if isinstance(content, dict) else {})
    reader.read(content, {}, 0)
    if not any(len(points) for item in reader.features for points in item.points()):
        raise ConfigError(f"{path}: cannot be read as {DESCRIPTION} (it has no polygons or lines)")
    return reader.features, reader.crs


class _Reader:
    """Reader of one file, which collects its features."""

    def __init__(self, name: str, content: dict[str, Any]) -> None:
        self.name, self.features = name, list[Feature]()
        titles = (str(content.get("name")).upper(), Path(name).stem.upper())
        self._title = next((title for title in titles if title in LAYERS), "")
        self.crs = self._read_crs(content.get("crs"))

    def _error(self, reason: str) -> ConfigError:
        return ConfigError(f"{self.name}: cannot be read as {DESCRIPTION} ({reason})")

    def _read_crs(self, crs: Any) -> str:
        """Return the name in a member ``crs``; empty for WGS84, the default."""
        if crs is None:
            return ""
        properties = crs.get("properties") if isinstance(crs, dict) else None
        name = properties.get("name") if isinstance(properties, dict) else None
        if not isinstance(name, str):
            raise self._error(f"its crs is unknown: {brief(crs)}")
        return "" if is_wgs84(name) else name

    def read(self, item: Any, properties: dict[str, Any], level: int) -> None:
        """Add the features of an object of GeoJSON."""
        kind = item.get("type") if isinstance(item, dict) else None
        if not isinstance(kind, str) or level > _MOST_LEVELS:
            raise self._error(f"{brief(item)} is no object of GeoJSON with a type")
        if kind in ("FeatureCollection", "GeometryCollection"):
            members = item.get("features" if kind == "FeatureCollection" else "geometries")
            if not isinstance(members, list):
                raise self._error(f"a {kind} must have a list of its members")
            for member in members:
                self.read(member, properties, level + 1)
        elif kind == "Feature":
            known = item.get("properties")
            if item.get("geometry") is not None:
                self.read(item["geometry"], known if isinstance(known, dict) else {}, level + 1)
        else:
            self._add_geometry(kind, item.get("coordinates"), properties)

    def _add_geometry(self, kind: str, coordinates: Any, properties: dict[str, Any]) -> None:
        """Add a feature for a geometry that is no collection; points are left out."""
        several = kind.startswith("Multi")
        single = kind.removeprefix("Multi")
        if single not in ("Point", "LineString", "Polygon"):
            raise self._error(f"{brief(kind)} is no type of GeoJSON")
        if single == "Point":
            return
        layer = properties.get("layer")
        feature = Feature((layer.strip() if isinstance(layer, str) else self._title).upper())
        feature.depth = depth_of(properties.get(NAME_OF_DEPTH))
        for part in self._list(coordinates) if several else [coordinates]:
            if single == "Polygon":
                feature.areas.append([self._points(ring) for ring in self._list(part)])
            else:
                feature.lines.append(self._points(part))
        self.features.append(feature)

    def _list(self, value: Any) -> list[Any]:
        """Return a value that must be a list."""
        if not isinstance(value, list):
            raise self._error(f"{brief(value)} must be a list of coordinates")
        return value

    def _points(self, value: Any) -> Floats:
        """Return positions [n, 2] of a list of longitude, latitude and anything else."""
        try:
            points = np.array([position[:2] for position in self._list(value)])
        except (TypeError, ValueError, KeyError, OverflowError) as error:
            raise self._error(f"{brief(value)} must be a list of positions") from error
        if not len(points):
            return np.zeros((0, 2))
        if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "fi":
            raise self._error(f"{brief(value)} must be a list of positions")
        return points.astype(np.float64)


def depth_of(value: Any) -> float | None:
    """Return the depth (m) that an attribute states as a number, or as text of one; None if it states none."""
    try:
        depth = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return depth if np.isfinite(depth) else None


def is_wgs84(crs: str) -> bool:
    """Return whether the name of a coordinate system is that of longitude and latitude of WGS84."""
    return crs.upper().replace("::", ":").rpartition(":")[2] in _WGS84


def require_degrees(features: list[Feature], name: str) -> None:
    """Raise an error unless all positions of features are finite longitudes and latitudes."""
    for feature in features:
        for points in feature.points():
            if not (np.isfinite(points).all() and (np.abs(points) <= (360.0, 90.0)).all()):
                worst = points[~(np.abs(points) <= (360.0, 90.0)).all(-1)][0].tolist()
                raise ConfigError(f"{name}: the position {worst} is no longitude and latitude in degrees")
