"""Reading charts by GDAL, such as S-57 cells, GeoPackages and shapefiles: the extra ``charts``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError
from marinenav_env.waters.geojson import (
    COVERAGE_LAYER,
    DESCRIPTION,
    FAIRWAY_LAYER,
    GEOJSON_SUFFIXES,
    LAYERS,
    NAME_OF_COVERAGE,
    NAME_OF_DEPTH,
    ROUTE_LAYERS,
    Feature,
    features_of,
)

_MOST_BYTES = 2**30
"""Size of the largest file that is read."""


def read_by_gdal(path: Path, layers: Iterable[str]) -> list[Feature]:
    """Return the features of some layers of a file, which GDAL converts to GeoJSON.

    Routes, fairways and what a chart covers are read, too. Layers that are not read are in the list without any lines.
    If no layer of a file has a name of LAYERS and there is only one, its features have none.
    """
    pyogrio = import_optional("pyogrio", "charts")
    open_regular(path, DESCRIPTION, _MOST_BYTES).close()
    wanted = {*layers, *ROUTE_LAYERS, FAIRWAY_LAYER, COVERAGE_LAYER}
    features: list[Feature] = []
    try:
        with warnings.catch_warnings(action="always", category=RuntimeWarning, record=True) as problems:
            names = [name for name, kind in pyogrio.list_layers(path) if kind is not None]
            is_unnamed = len(names) == 1 and names[0].upper() not in wanted.union(LAYERS)
            for name in names:
                layer = "" if is_unnamed else name.upper()
                if layer and layer not in wanted:
                    features.append(Feature(layer))
                else:
                    for feature in _as_geojson(pyogrio, path, name):
                        features += features_of(feature, str(path), layer)
    except (RuntimeError, ValueError, OSError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{path}: cannot be read as {DESCRIPTION} ({error})") from error
    if problems:
        first = str(problems[0].message).partition("\n")[0]
        warnings.warn(
            f"{path}: shores may be missing: GDAL found {len(problems)} problems, such as {first}", stacklevel=2
        )
    return features


def _as_geojson(pyogrio: Any, path: Path, name: str) -> Iterator[Any]:
    """Yield the features of a layer of a file as GeoJSON, in longitudes and latitudes of WGS84."""
    columns = [NAME_OF_DEPTH, NAME_OF_COVERAGE, "layer"]
    meta, _, shapes, values = pyogrio.raw.read(path, layer=name, columns=columns)
    # GDAL takes GeoJSON for WGS84 if it does not know the other coordinate system that it states.
    is_unknown = path.suffix.lower() in GEOJSON_SUFFIXES and meta["crs"] == "EPSG:4326"
    if meta["crs"] is None or is_unknown:
        raise ConfigError(f"{path}: its coordinate system is unknown; a shapefile needs its .prj file")
    lines, options = BytesIO(), {"driver": "GeoJSONSeq", "COORDINATE_PRECISION": "12"}
    pyogrio.raw.write(lines, shapes, values, meta["fields"], crs=meta["crs"], geometry_type="Unknown", **options)
    lines.seek(0)
    # One after another, since parsed GeoJSON takes far more memory than its text.
    yield from map(json.loads, lines)
