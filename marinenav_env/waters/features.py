"""Features of charts: GeoJSON is read by ``json`` alone; GDAL (the extra ``charts``) converts other formats to it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import open_regular, read_json
from marinenav_env.support.validation import ConfigError, brief
from marinenav_env.waters.shapes import Area, Floats

_DESCRIPTION = "a chart"
"""Description of a readable chart, for error messages."""
_GEOJSON_SUFFIXES = (".json", ".geojson")
LAND_LAYERS = ("LNDARE", "COALNE", "SLCONS", "PONTON")
"""Layers of S-57 that are land or walls: land areas, coastlines, piers and walls, pontoons."""
DEPTH_LAYER, COVERAGE_LAYER = "DEPARE", "M_COVR"
"""Layers of S-57 of depth areas, and of the area that a chart covers."""
FAIRWAY_LAYER = "FAIRWY"
"""Layer of S-57 of fairways, whose centre line is offered as a route."""
ROUTE_LAYERS = ("RECTRC", "NAVLNE", "RCRTCL", "DWRTCL", "TRACK", "TRACKS", "ROUTE", "ROUTES")
"""Layers of lines that are offered as routes: recommended tracks, navigation lines, centre lines; plain names."""
LAYERS = (*LAND_LAYERS, DEPTH_LAYER, COVERAGE_LAYER, FAIRWAY_LAYER, *ROUTE_LAYERS)
OSM_COASTLINE, OSM_WATERS = "NATURAL=COASTLINE", ("NATURAL=WATER", "WATERWAY=RIVERBANK", "WATERWAY=DOCK")
"""Tags of OpenStreetMap, as layers: coastlines, with land on their left, and waters."""
_OSM_PIERS = (f"MAN_MADE={each}" for each in ("PIER", "BREAKWATER", "GROYNE", "QUAY", "JETTY"))
OSM_LAYERS = (OSM_COASTLINE, *OSM_WATERS, *_OSM_PIERS, "PLACE=ISLAND", "PLACE=ISLET", "WATERWAY=DAM", "WATERWAY=WEIR")
"""Tags of OpenStreetMap, as layers, that are land, walls, coastlines or waters."""
_TAGS = ("natural", "man_made", "place", "waterway", "leisure", "landuse", "route", "highway", "railway", "boundary")
"""Tags of OpenStreetMap, of which the first that a feature has is its layer."""
_DEPTH = "DRVAL2"
"""Attribute of a depth area: its greatest depth (m)."""
_COVERAGE = "CATCOV"
"""Attribute of a coverage area: 1 where there is data, 2 where there is none."""
_WGS84 = ("CRS84", "4326", "WGS84", "WGS 84", "4979", "CRS84H")
_MOST_BYTES = 2**30
"""Size of the largest file that GDAL is given."""
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


def read_features(path: Path, layers: Iterable[str]) -> list[Feature]:
    """Return the features of a chart in longitudes and latitudes; all but GeoJSON of WGS84 is read by GDAL.

    Of such files only ``layers``, routes and what the chart covers are read.
    """
    features = read_geojson(path) if path.suffix.lower() in _GEOJSON_SUFFIXES else None
    if features is None:
        features = _read_by_gdal(path, layers)
    _require_degrees(features, str(path))
    return features


def read_geojson(path: Path) -> list[Feature] | None:
    """Read the features of a GeoJSON file; None if it states a coordinate system other than WGS84.

    A feature's layer is ``properties.layer``, else a tag of OpenStreetMap such as NATURAL=COASTLINE, else the name of
    the collection or of the file if it is one of LAYERS.
    """
    content, name = read_json(path, _DESCRIPTION), str(path)
    members = content if isinstance(content, dict) else {}
    system = members.get("crs")
    if system is not None:
        try:
            known = str.upper(system["properties"]["name"]).replace("::", ":").rpartition(":")[2] in _WGS84
        except (TypeError, KeyError) as error:
            reason = f"its crs is unknown: {brief(system)}"
            raise ConfigError(f"{name}: cannot be read as {_DESCRIPTION} ({reason})") from error
        if not known:
            return None
    titles = (str(members.get("name")).upper(), path.stem.upper())
    features = _features_of(content, name, next((title for title in titles if title in LAYERS), ""))
    if not any(len(points) for item in features for points in item.points()):
        raise ConfigError(f"{name}: cannot be read as {_DESCRIPTION} (it has no polygons or lines)")
    return features


def _features_of(content: Any, name: str, layer: str) -> list[Feature]:
    """Return the features of parsed GeoJSON; those that do not state a layer have the given one."""
    try:
        return [*_features(content, {}, layer, 0)]
    except ValueError as error:
        raise ConfigError(f"{name}: cannot be read as {_DESCRIPTION} ({error})") from error


def _features(item: Any, properties: dict[str, Any], layer: str, level: int) -> Iterator[Feature]:
    """Yield the features of an object of GeoJSON; points, and areas without data, are left out."""
    kind = item.get("type") if isinstance(item, dict) else None
    if not isinstance(kind, str) or level > _MOST_LEVELS:
        raise ValueError(f"{brief(item)} is no object of GeoJSON with a type")
    if kind in ("FeatureCollection", "GeometryCollection"):
        members = item.get("features" if kind == "FeatureCollection" else "geometries")
        if not isinstance(members, list):
            raise ValueError(f"a {kind} must have a list of its members")
        for member in members:
            yield from _features(member, properties, layer, level + 1)
    elif kind == "Feature":
        known = item.get("properties")
        if item.get("geometry") is not None:
            yield from _features(item["geometry"], known if isinstance(known, dict) else {}, layer, level + 1)
    elif kind not in ("Point", "MultiPoint"):
        feature = _feature(kind, item.get("coordinates"))
        feature.layer = (_stated_layer(properties) or layer).upper()
        feature.depth = _depth_of(properties.get(_DEPTH))
        if feature.layer != COVERAGE_LAYER or properties.get(_COVERAGE, 1) == 1:
            yield feature


def _stated_layer(properties: dict[str, Any]) -> str:
    """Return the layer that a feature states, or the first of its tags of OpenStreetMap; empty if it has neither."""
    tags = inner if isinstance(inner := properties.get("tags"), dict) else properties
    stated = tags.get("layer")
    if isinstance(stated, str) and not stated.lstrip("-").isdecimal():  # of OpenStreetMap: the height of a bridge
        return stated.strip()
    return next((f"{key}={tags[key]}" for key in _TAGS if tags.get(key)), "OSM" if "@id" in properties else "")


def _feature(kind: str, coordinates: Any) -> Feature:
    """Return a feature with the lines or polygons of a geometry."""
    single = kind.removeprefix("Multi")
    if single not in ("LineString", "Polygon"):
        raise ValueError(f"{brief(kind)} is no type of GeoJSON")
    parts = [coordinates] if single == kind else _list(coordinates)
    if single == "Polygon":
        return Feature("", areas=[[_points(ring) for ring in _list(part)] for part in parts])
    return Feature("", lines=[_points(part) for part in parts])


def _list(value: Any) -> list[Any]:
    """Return a value that must be a list."""
    if not isinstance(value, list):
        raise ValueError(f"{brief(value)} must be a list of coordinates")
    return value


def _points(value: Any) -> Floats:
    """Return positions [n, 2] of a list of longitude, latitude and anything else."""
    try:
        points = np.array([position[:2] for position in _list(value)] or np.zeros((0, 2)))
    except (TypeError, ValueError, KeyError, OverflowError):
        points = np.zeros(0)
    if points.ndim != 2 or points.shape[1] != 2 or points.dtype.kind not in "fi":
        raise ValueError(f"{brief(value)} must be a list of positions")
    return points.astype(np.float64)


def _depth_of(value: Any) -> float | None:
    """Return the depth (m) that an attribute states as a number, or as text of one; None if it states none."""
    try:
        depth = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return depth if np.isfinite(depth) else None


def _require_degrees(features: list[Feature], name: str) -> None:
    """Raise an error unless all positions of features are finite longitudes and latitudes."""
    for feature in features:
        for points in feature.points():
            if not (np.isfinite(points).all() and (np.abs(points) <= (360.0, 90.0)).all()):
                worst = points[~(np.abs(points) <= (360.0, 90.0)).all(-1)][0].tolist()
                raise ConfigError(f"{name}: the position {worst} is no longitude and latitude in degrees")


def _read_by_gdal(path: Path, layers: Iterable[str]) -> list[Feature]:
    """Return the features of some layers of a file, which GDAL converts to GeoJSON.

    Routes, fairways and what a chart covers are read, too. Layers that are not read are in the list without any lines.
    If no layer of a file has a name of LAYERS and there is only one, its features have none.
    """
    pyogrio = import_optional("pyogrio", "charts")
    if path.suffix.lower() != ".gdb":  # a folder
        open_regular(path, _DESCRIPTION, _MOST_BYTES).close()
    wanted = {*layers, *ROUTE_LAYERS, FAIRWAY_LAYER, COVERAGE_LAYER}
    features: list[Feature] = []
    try:
        with warnings.catch_warnings(action="always", category=RuntimeWarning, record=True) as problems:
            names = [name for name, kind in pyogrio.list_layers(path) if kind is not None]
            is_unnamed = len(names) == 1 and names[0].upper() not in wanted.union(LAYERS)
            for name in names:
                layer = "" if is_unnamed else name.upper()
                features.append(Feature(layer))
                if not layer or layer in wanted:
                    for feature in _as_geojson(pyogrio, path, name):
                        features += _features_of(feature, str(path), layer)
    except (RuntimeError, ValueError, OSError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: cannot be read as {_DESCRIPTION} ({error})") from error
    if problems:
        first = str(problems[0].message).partition("\n")[0]
        warnings.warn(
            f"{path}: shores may be missing: GDAL found {len(problems)} problems, such as {first}", stacklevel=2
        )
    return features


def _as_geojson(pyogrio: Any, path: Path, name: str) -> Iterator[Any]:
    """Yield the features of a layer of a file as GeoJSON, in longitudes and latitudes of WGS84."""
    columns = [_DEPTH, _COVERAGE, "layer", *_TAGS]
    meta, _, shapes, values = pyogrio.raw.read(path, layer=name, columns=columns)
    if not len(shapes):  # of which GDAL writes nothing
        return
    # GDAL takes GeoJSON for WGS84 if it does not know the other coordinate system that it states.
    is_unknown = path.suffix.lower() in _GEOJSON_SUFFIXES and meta["crs"] == "EPSG:4326"
    if meta["crs"] is None or is_unknown:
        raise ConfigError(f"{path}: its coordinate system is unknown; a shapefile needs its .prj file")
    lines, options = BytesIO(), {"driver": "GeoJSONSeq", "COORDINATE_PRECISION": "12"}
    pyogrio.raw.write(lines, shapes, values, meta["fields"], crs=meta["crs"], geometry_type="Unknown", **options)
    lines.seek(0)
    # One after another, since parsed GeoJSON takes far more memory than its text.
    yield from map(json.loads, lines)
