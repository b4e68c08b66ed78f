"""Reading charts by GDAL, such as S-57 cells, GeoPackages and shapefiles: the extra ``charts``."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import unpack_from
from typing import Any

import numpy as np

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError
from marinenav_env.waters.geojson import (
    COVERAGE_LAYER,
    DESCRIPTION,
    FAIRWAY_LAYER,
    LAYERS,
    NAME_OF_DEPTH,
    ROUTE_LAYERS,
    Feature,
    depth_of,
    is_wgs84,
)
from marinenav_env.waters.shapes import Floats

_EXTRA = "charts"
_MOST_BYTES = 2**30
"""Size of the largest file that is read."""
_COVERS = "CATCOV"
"""Attribute of a coverage area: 1 where there is data, 2 where there is none."""
_LINE, _POLYGON, _COLLECTIONS = 2, 3, (4, 5, 6, 7)
"""Types of geometries in well-known binary."""


def read_by_gdal(path: Path, layers: Iterable[str]) -> tuple[list[Feature], str]:
    """Return the features of some layers of a file, and its coordinate system; empty for WGS84.

    Routes, fairways and what a chart covers are read, too. Layers that are not read are in the list without any lines.
    If no layer of a file has a name of LAYERS and there is only one, its features have none.
    """
    pyogrio = import_optional("pyogrio", _EXTRA)
    open_regular(path, DESCRIPTION, _MOST_BYTES).close()
    wanted, systems = {*layers, *ROUTE_LAYERS, FAIRWAY_LAYER, COVERAGE_LAYER}, set()
    features: list[Feature] = []
    try:
        with warnings.catch_warnings(action="always", category=RuntimeWarning, record=True) as problems:
            names = [name for name, kind in pyogrio.list_layers(path) if kind is not None]
            is_unnamed = len(names) == 1 and names[0].upper() not in wanted.union(LAYERS)
            for name in names:
                layer = "" if is_unnamed else name.upper()
                if layer and layer not in wanted:
                    features.append(Feature(layer))
                    continue
                meta, _, shapes, columns = pyogrio.raw.read(path, layer=name, columns=[NAME_OF_DEPTH, _COVERS, "layer"])
                systems.add(meta["crs"] or "")
                features += _features(layer, shapes, dict(zip(meta["fields"], columns, strict=True)))
    except (RuntimeError, ValueError, OSError) as error:
        raise ConfigError(f"{path}: cannot be read as {DESCRIPTION} ({error})") from error
    if problems:
        first = str(problems[0].message).partition("\n")[0]
        warnings.warn(
            f"{path}: shores may be missing: GDAL found {len(problems)} problems, such as {first}", stacklevel=2
        )
    if len(systems) > 1 or "" in systems:
        raise ConfigError(f"{path}: its coordinate system is unknown; a shapefile needs its .prj file")
    system = next(iter(systems), "EPSG:4326")
    return features, "" if is_wgs84(system) else system


def _features(layer: str, shapes: Any, values: dict[str, Any]) -> Iterator[Feature]:
    """Yield the features of a layer, from geometries as well-known binary and the values of each attribute."""
    for index, shape in enumerate(shapes):
        row = {name: column[index] for name, column in values.items()}
        if shape is None or (layer == COVERAGE_LAYER and row.get(_COVERS, 1) != 1):
            continue
        own = row.get("layer")
        feature = Feature(own.upper() if isinstance(own, str) else layer)
        feature.depth = depth_of(row.get(NAME_OF_DEPTH))
        _add_shape(feature, shape, 0)
        yield feature


def _add_shape(feature: Feature, shape: bytes, offset: int) -> int:
    """Add the areas and lines of a geometry, as well-known binary from an offset; return the offset of its end."""
    order = "<" if shape[offset] else ">"
    code, count = unpack_from(f"{order}II", shape, offset + 1)
    kind, width = code % 1000 & 0xFF, 2 + (code // 1000 % 10 in (1, 2)) + 2 * (code // 1000 % 10 == 3)
    if code >= 2**28:  # flags of z and m
        kind, width = code & 0xFF, 2 + bool(code & 2**31) + bool(code & 2**30)
    if kind == 1:
        return offset + 5 + 8 * width
    offset += 9
    if kind in _COLLECTIONS:
        for _ in range(count):
            offset = _add_shape(feature, shape, offset)
        return offset
    if kind == _LINE:
        points, offset = _points(shape, offset, count, order, width)
        feature.lines.append(points)
        return offset
    if kind != _POLYGON:
        raise ValueError(f"a geometry of type {kind} is none of points, lines and polygons")
    rings = []
    for _ in range(count):
        (length,) = unpack_from(f"{order}I", shape, offset)
        points, offset = _points(shape, offset + 4, length, order, width)
        rings.append(points)
    feature.areas.append(rings)
    return offset


def _points(shape: bytes, offset: int, count: int, order: str, width: int) -> tuple[Floats, int]:
    """Return positions [count, 2] of well-known binary from an offset, and the offset of their end."""
    values = np.frombuffer(shape, f"{order}f8", count * width, offset).reshape(count, width)
    return values[:, :2].astype(np.float64), offset + 8 * values.size


def to_wgs84(features: list[Feature], system: str, name: str) -> None:
    """Convert the positions of features from a coordinate system to longitudes and latitudes, in place."""
    pyproj = import_optional("pyproj", _EXTRA)
    try:
        change = pyproj.Transformer.from_crs(system, "EPSG:4326", always_xy=True).transform
    except pyproj.exceptions.CRSError as error:
        raise ConfigError(f"{name}: its coordinate system is unknown ({system})") from error
    for item in features:
        item.areas = [[np.stack(change(*ring.T), -1) for ring in area] for area in item.areas]
        item.lines = [np.stack(change(*line.T), -1) for line in item.lines]
