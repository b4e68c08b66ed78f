"""What the tests of waters share: windows of a chart, and shapely's view of their land."""

from pathlib import Path

import numpy as np
import shapely

from marinenav_env.waters.charts import DRAUGHT
from marinenav_env.waters.features import LAND_LAYERS, read_geojson

WATERS = Path(__file__).parents[2] / "data/waters"
WINDOWS = ("channel", "island", "marina")


def window_path(name):
    return WATERS / f"miami_{name}_300.json"


def shapes_of(name, chart):
    """Areas of land and walls of a window, in the metres of its chart."""
    features = read_geojson(window_path(name))
    solid = [
        item
        for item in features
        if item.layer in LAND_LAYERS or (item.layer == "DEPARE" and item.depth is not None and item.depth <= DRAUGHT)
    ]
    areas = [[chart.plane.to_metres(ring) for ring in area] for item in solid for area in item.areas]
    return areas, [chart.plane.to_metres(line) for item in solid for line in item.lines]


def land_of(areas):
    """The union of areas by shapely."""
    return shapely.union_all([shapely.make_valid(shapely.Polygon(area[0], area[1:])) for area in areas])


def line_of(segments):
    """Segments [S, 4] as one geometry of shapely."""
    return shapely.MultiLineString(np.asarray(segments).reshape(-1, 2, 2).tolist())
