"""GDAL's formats give the shores that GeoJSON gives; broken files are one sentence."""

import json
import struct

import numpy as np
import pytest

from tests.refusals import refusal

pytest.importorskip("pyogrio", reason="needs the extra charts")
pytest.importorskip("shapely", reason="needs the extra test")
import pyogrio
import shapely

from marinenav_env import ConfigError
from marinenav_env.waters.charts import read_chart
from marinenav_env.waters.features import read_geojson
from marinenav_env.waters.projection import LocalPlane
from tests.marinenav_env.waters.helpers import window_path
from tests.marinenav_env.waters.test_charts import COAST, LAND, OSM_COAST, collection, line, polygon, read, ring

PLACE = LocalPlane(25.77, -80.18)
AT = (PLACE.latitude, PLACE.longitude)


def write(path, shapes, layer=None, crs="EPSG:4326", kind="Unknown", **columns):
    """A layer of a file, of geometries of shapely."""
    pyogrio.raw.write(
        path,
        geometry=np.array(shapely.to_wkb(shapes), dtype=object),
        field_data=[np.array(values) for values in columns.values()],
        fields=list(columns),
        crs=crs,
        geometry_type=kind,
        layer=layer,
        append=path.exists(),
        driver="OpenFileGDB" if path.suffix == ".gdb" else None,
    )


def shape(content):
    return shapely.from_geojson(json.dumps(content))


def expected(tmp_path, *features):
    return read(tmp_path, collection(*features)).shores


def test_a_geopackage_has_layers_by_name(tmp_path):
    path = tmp_path / "harbour.gpkg"
    write(path, [shape(polygon(LAND))], "LNDARE")
    write(path, [shape(polygon([[0, 0], [90, 0], [90, 90]]))] * 2, "DEPARE", DRVAL2=[5.0, np.nan])
    write(path, [shape(line([20, 0], [90, 0]))], "CBLSUB")
    write(path, [], "PONTON")
    chart = read_chart(path, AT, 100.0)
    np.testing.assert_allclose(chart.shores, expected(tmp_path, COAST), atol=0.011)
    tags = {"natural": ["coastline", "coastline"], "highway": [None, "path"]}
    write(tmp_path / "quick.gpkg", [shape(each["geometry"]) for each in OSM_COAST], "quick", **tags)
    np.testing.assert_allclose(read_chart(tmp_path / "quick.gpkg", AT, 100.0).shores, chart.shores, atol=0.011)
    with pytest.raises(ConfigError, match="has no layer SLCONS; its layers are CBLSUB, DEPARE, LNDARE"):
        read_chart(path, AT, 100.0, layers=["SLCONS"])
    np.testing.assert_allclose(read_chart(path, AT, 100.0, layers=["LNDARE", "PONTON"]).shores, chart.shores)
    assert len(read_chart(path, AT, 100.0, layers=["CBLSUB"]).shores) == 2


def test_a_chart_is_of_several_files_that_are_layers_by_name(tmp_path):
    """GeoJSON of depths, a shapefile of a pier and GPX of a route, which has no tracks."""
    depths, pier, route = (tmp_path / name for name in ("depare.geojson", "my pier.shp", "mine.gpx"))
    depths.write_text(json.dumps(collection(*(COAST | {"properties": {"DRVAL2": depth}} for depth in (0.2, 5.0)))))
    write(pier, [shape(line([20, 0], [90, 0]))])
    places = "".join(f'<rtept lat="{y}" lon="{x}"/>' for x, y in ring([[30.0, -40.0], [40.0, -10.0]])[:2])
    route.write_text(f'<gpx version="1.1" xmlns="http://www.topografix.com/GPX/1/1"><rte>{places}</rte></gpx>')
    chart = read_chart([depths, pier, route], AT, 100.0)
    both = expected(tmp_path, COAST, COAST | {"properties": {}, "geometry": line([20, 0], [90, 0])})
    np.testing.assert_allclose(np.sort(chart.shores, 0), np.sort(both, 0), atol=0.011)
    assert [len(each) for each in chart.routes] == [2] and chart.name == "depare"


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32617", "EPSG:3857"])
def test_a_shapefile_of_any_name_and_coordinate_system_is_land(tmp_path, crs):
    pyproj = pytest.importorskip("pyproj", reason="needs the extra test")
    change = pyproj.Transformer.from_crs(4326, crs, always_xy=True).transform
    write(tmp_path / "my land.shp", [shapely.transform(shape(polygon(LAND)), change, interleaved=False)], crs=crs)
    chart = read_chart(tmp_path / "my land.shp", AT, 100.0)
    np.testing.assert_allclose(chart.shores, expected(tmp_path, COAST), atol=0.03)


def test_geojson_in_another_coordinate_system_is_converted(tmp_path):
    pyproj = pytest.importorskip("pyproj", reason="needs the extra test")
    land = np.stack(pyproj.Transformer.from_crs(4326, 32617, always_xy=True).transform(*np.array(ring(LAND)).T), -1)
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32617"}}
    content = {"type": "Polygon", "coordinates": [land.tolist()], "crs": crs}
    np.testing.assert_allclose(read(tmp_path, content).shores, expected(tmp_path, COAST), atol=0.011)


def test_a_file_geodatabase_is_a_folder_of_layers(tmp_path):
    path = tmp_path / "kart.gdb"
    for layer in ("landareal", "skjer"):
        write(path, [shapely.MultiPolygon([shape(polygon(LAND))])], layer, kind="MultiPolygon")
    chart = read_chart(path, AT, 100.0, layers=["landareal"])
    np.testing.assert_allclose(chart.shores, expected(tmp_path, COAST), atol=0.011)
    (tmp_path / "empty.gdb").mkdir()
    for other in (path, tmp_path / "empty.gdb", tmp_path / "none.gdb"):
        assert ("LANDAREAL, SKJER" if other == path else "cannot be read as a chart") in refusal(read_chart, other)


def test_geometries_of_several_parts_and_three_coordinates_are_read(tmp_path):
    land = shapely.force_3d(shape(polygon(LAND)), 3.0)
    pier = shapely.force_3d(shape(line([20, 0], [90, 0])), 3.0)
    parts = [land, shapely.MultiLineString([pier]), shapely.MultiPolygon([land]), shapely.Point(1, 2, 3)]
    write(tmp_path / "coast.gpkg", [shapely.GeometryCollection(parts)], "coast", kind="GeometryCollection Z")
    chart = read_chart(tmp_path / "coast.gpkg", AT, 100.0)
    assert len(chart.shores) == 4


def test_a_window_written_as_layers_is_the_window(tmp_path):
    features = read_geojson(window_path("marina"))
    path = tmp_path / "marina.gpkg"
    for layer in ("LNDARE", "SLCONS"):
        items = [item for item in features if item.layer == layer]
        shapes = [shapely.Polygon(area[0], area[1:]) for item in items for area in item.areas]
        write(path, shapes + [shapely.LineString(each) for item in items for each in item.lines], layer)
    bounds = np.concatenate([points for item in features for points in item.points()])
    at = tuple(((bounds.min(0) + bounds.max(0)) / 2)[::-1].tolist())
    np.testing.assert_allclose(read_chart(path, at).shores, read_chart(window_path("marina"), at).shores, atol=0.011)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cell.000", b"00240 no cell" * 40, "cannot be read as a chart"),
        ("land.gpkg", b"SQLite format 3" + bytes(200), "cannot be read as a chart"),
        ("land.shp", struct.pack(">i", 9994) + bytes(96), "cannot be read as a chart"),
        ("land.txt", b"land", "cannot be read as a chart"),
    ],
)
def test_broken_files_are_refused_in_one_sentence(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert words in refusal(read_chart, tmp_path / name)
    with pytest.raises(ConfigError, match="cannot be read as a chart"):
        read_chart(tmp_path / f"no {name}")


def test_unknown_coordinate_systems_and_layers_are_refused(tmp_path):
    write(tmp_path / "land.shp", [shape(polygon(LAND))])
    (tmp_path / "land.prj").unlink()
    with pytest.raises(ConfigError, match=r"its coordinate system is unknown; a shapefile needs its \.prj file"):
        read_chart(tmp_path / "land.shp")
    unknown = {"type": "name", "properties": {"name": "EPSG:99999"}}
    assert "its coordinate system is unknown" in refusal(read, tmp_path, collection(COAST, crs=unknown))
    write(tmp_path / "depare.shp", [shape(polygon(LAND))], DRVAL2=[5.0])
    assert "its layers are DEPARE" in refusal(read_chart, tmp_path / "depare.shp")
    write(tmp_path / "two.gpkg", [shape(polygon(LAND))], "water")
    write(tmp_path / "two.gpkg", [shape(polygon(LAND))], "roads")
    with pytest.raises(ConfigError, match="has no land in COALNE, DEPARE, LNDARE, PONTON, SLCONS; its layers are RO"):
        read_chart(tmp_path / "two.gpkg")
    (tmp_path / "table.csv").write_text("lat,lon\n1,2\n")
    assert "its layers are none; a chart is GeoJSON, S-57" in refusal(read_chart, tmp_path / "table.csv")


def test_what_gdal_repairs_is_a_warning(tmp_path):
    path = tmp_path / "coast.gpkg"
    write(path, [shape(polygon(LAND))], "LNDARE")
    content = path.read_bytes()
    path.write_bytes(content[:68] + bytes(4) + content[72:])  # application_id
    with pytest.warns(UserWarning, match=r"shores may be missing: GDAL found .* problems, such as .*application_id"):
        chart = read_chart(path, AT, 100.0)
    np.testing.assert_allclose(chart.shores, expected(tmp_path, COAST), atol=0.011)
