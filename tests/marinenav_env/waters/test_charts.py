"""Windows of charts become shores, and files of charts are read back; what cannot be used is one sentence."""

import json
import math
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.refusals import refusal

pytest.importorskip("shapely", reason="needs the extra test")
import shapely

from marinenav_env import ConfigError
from marinenav_env.waters.charts import Chart, read_chart, with_land
from marinenav_env.waters.projection import LocalPlane
from marinenav_env.waters.shapes import signed_distance
from tests.marinenav_env.waters.helpers import WINDOWS, land_of, line_of, shapes_of, window_path

PLACE = LocalPlane(25.77, -80.18)
LAND = [[-100.0, -100.0], [10.0, -100.0], [30.0, 100.0], [-100.0, 100.0]]
"""A coast with water to the north of it (m; x north, y east)."""


def ring(points, closed=True):
    """Positions of points (m) in degrees, as GeoJSON has them."""
    degrees = PLACE.to_degrees(np.array(points)).tolist()
    return [*degrees, degrees[0]] if closed else degrees


def polygon(*rings):
    return {"type": "Polygon", "coordinates": [ring(each) if each else [] for each in rings]}


def line(*points):
    return {"type": "LineString", "coordinates": ring(points, closed=False) if points else []}


def feature(geometry, layer=None, **properties):
    return {"type": "Feature", "properties": properties | ({"layer": layer} if layer else {}), "geometry": geometry}


def collection(*features, **members):
    return {"type": "FeatureCollection", "features": list(features), **members}


def read(tmp_path, content, **options):
    path = tmp_path / "harbour.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_chart(path, **({"at": (PLACE.latitude, PLACE.longitude), "size": 100.0} | options))


SQUARE = [[30.0, -10.0], [40.0, -10.0], [40.0, 10.0], [30.0, 10.0]]
TWO_SIDES = [[[x, -60.0], [x + 40.0, -60.0], [x + 40.0, 60.0], [x, 60.0]] for x in (-60.0, 20.0)]
COAST = feature(polygon(LAND), "LNDARE")
OSM_COAST = [feature(line(*ends), natural="coastline") for ends in ([LAND[2], (20.0, 0.0)], [(20.0, 0.0), LAND[1]])]
"""The same coast as OpenStreetMap has it: lines with land on their left."""
OSM_OTHERS = [
    feature(polygon(SQUARE), leisure="marina", layer="1"),
    feature(polygon(SQUARE), tags={"natural": "water"}, type="way"),
    feature(line([-40.0, -40.0], [40.0, 40.0]), route="ferry"),
    feature(line([-40.0, 40.0], [40.0, -40.0]), **{"@id": "way/1", "power": "line"}),
]


@pytest.mark.heavy
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_have_land_where_shapely_has_it(name):
    chart = read_chart(window_path(name), most_segments=256)
    areas, walls = shapes_of(name, chart)
    land = land_of(areas)
    window = shapely.box(0.05, 0.05, chart.width - 0.05, chart.height - 0.05)
    lines = shapely.union_all([shapely.LineString(wall) for wall in walls]).difference(land.buffer(0.02))
    expected = shapely.union(land.boundary, lines).intersection(window)
    found = line_of(chart.shores).intersection(window)
    assert shapely.hausdorff_distance(found, expected, 0.01) < chart.tolerance + 0.05
    points, distance = chart.sample()
    clear = shapely.distance(expected, shapely.points(points)) > 2.0 * chart.tolerance
    assert (shapely.contains_xy(land, points) == (distance < 0.0))[clear].all()
    away = shapely.distance(line_of(chart.shores), shapely.points(points))
    np.testing.assert_allclose(np.abs(distance), away, rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("name", WINDOWS)
def test_coastlines_are_the_same_shores_as_the_land_on_their_left(name):
    chart = read_chart(window_path(name), most_segments=256)
    areas, walls = shapes_of(name, chart)
    lines = [np.array(each.coords) for part in shapely.get_parts(land_of(areas)) for each in _outlines(part)]
    drawn = np.random.default_rng(0)
    coast = np.concatenate([np.concatenate([line[:-1], line[1:]], -1) for line in lines])
    again = with_land(replace(chart, routes=()), [], walls, 256, None, name, drawn.permutation(coast))
    assert again.tolerance == pytest.approx(chart.tolerance, abs=0.01)
    apart = shapely.hausdorff_distance(line_of(again.shores), line_of(chart.shores), 0.01)
    assert apart < 2.0 * chart.tolerance + 0.05


def _outlines(part):
    """Rings of a polygon with land on their left where x is north, which is on the right where x is east."""
    turned = shapely.geometry.polygon.orient(part, -1.0)
    return turned.exterior, *turned.interiors


@pytest.mark.parametrize(("name", "most"), [("island", 8), ("island", 16), ("marina", 32)])
def test_fewer_segments_are_less_exact_as_stated(name, most):
    exact, chart = (read_chart(window_path(name), most_segments=count) for count in (256, most))
    assert len(chart.shores) <= most < len(exact.shores)
    measured = shapely.hausdorff_distance(line_of(chart.shores), line_of(exact.shores), 0.01)
    assert 0.1 < measured <= chart.tolerance + exact.tolerance
    assert chart.tolerance < 3.0


def test_a_chart_is_read_back_from_its_small_file(tmp_path):
    chart = read_chart(window_path("marina"))
    chart.save(tmp_path / "marina.json")
    loaded = Chart.load(tmp_path / "marina.json")
    assert (tmp_path / "marina.json").stat().st_size < 3000
    np.testing.assert_allclose(loaded.shores, chart.shores, atol=0.005)
    assert (loaded.name, loaded.width, loaded.height) == ("miami_marina_300", chart.width, chart.height)
    assert (loaded.source, loaded.routes, loaded.origin) == (chart.source, (), chart.origin)
    assert loaded.tolerance == pytest.approx(chart.tolerance, abs=1e-3)


def test_the_window_lies_around_its_place_with_x_to_the_north(tmp_path):
    chart = read(tmp_path, collection(COAST))
    middle = np.array([chart.width, chart.height]) / 2
    np.testing.assert_allclose(chart.plane.to_degrees(middle), [PLACE.longitude, PLACE.latitude], atol=1e-7)
    ((ax, ay, bx, by),) = chart.shores
    assert (ay, by) == (100.0, 0.0)  # to the west: land, to the south, is on the left
    assert (ax, bx) == (pytest.approx(75.0, abs=0.02), pytest.approx(65.0, abs=0.02))
    land, water = signed_distance(np.array([middle, [90.0, 50.0]]), chart.shores)
    assert land < 0.0 < water


@pytest.mark.parametrize(
    "content",
    [
        collection(COAST),
        COAST,
        polygon(LAND),
        {"type": "MultiPolygon", "coordinates": [polygon(LAND)["coordinates"], []]},
        {"type": "GeometryCollection", "geometries": [polygon(LAND), {"type": "Point", "coordinates": [0, 0]}]},
        {"type": "Polygon", "coordinates": [[[*p, 4.5] for p in ring(LAND)]]},
        {"type": "Polygon", "coordinates": [[[*p, *[4.5] * (i % 2)] for i, p in enumerate(ring(LAND))]]},
        collection(COAST, feature(None), feature({"type": "LineString", "coordinates": []}, "SLCONS")),
        collection(COAST, feature(polygon(LAND), "LNDARE"), feature(line(*LAND[1:3]), "COALNE")),
        collection(COAST, feature({"type": "Point", "coordinates": [1, 2]}), feature(line([0, 0], [90, 0]), "DEPCNT")),
        collection({"type": "Feature", "properties": None, "geometry": polygon(LAND)}),
        collection(COAST, crs={"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}),
        collection(feature(polygon(LAND)), name="LNDARE"),
        collection(feature(polygon(LAND), "DEPARE", DRVAL1=-1, DRVAL2=0.0)),
        collection(COAST, feature(polygon([[0, 0], [90, 0], [90, 90]]), "DEPARE", DRVAL1=0.6, DRVAL2=3.0)),
        collection(COAST, feature(polygon([[0, 0], [90, 0], [90, 90]]), "DEPARE")),
        collection(feature(polygon(LAND), "DEPARE", DRVAL2="0.2")),
        collection(COAST, feature(polygon(SQUARE), "DEPARE", DRVAL2="0,2")),
        collection(feature(polygon(LAND), " lndare ")),
        collection(COAST, feature(polygon(SQUARE), "M_COVR", CATCOV=2)),
        collection(COAST, feature(line([40.0, 0.0])), feature(polygon([[40.0, 0.0]])), feature(polygon([]))),
        collection(COAST, feature(polygon([[0.0, 0.0], [40.0, 0.0], [0.0, 0.0]]))),
        collection(feature({"type": "GeometryCollection", "geometries": [polygon(LAND)]}, "LNDARE"), feature(None)),
        collection({"type": "Feature", "properties": [1], "geometry": polygon(LAND)}, {"type": "Feature"}),
        collection(COAST, feature(line([40.0, 0.0]), "RECTRC"), feature(polygon([[30, -60], [30, 60]]), "FAIRWY")),
        collection(*OSM_COAST),
        collection(*OSM_COAST, *OSM_OTHERS, OSM_COAST[0]),
        collection(
            feature(polygon([LAND[1], [99, -99], [99, 0], [20, 0]]), natural="water"),
            feature(polygon([[20, 0], [99, 0], [99, 99], LAND[2]]), waterway="dock"),
        ),
    ],
    ids=range(28),
)
def test_the_same_coast_in_other_words_is_the_same(tmp_path, content):
    expected = read(tmp_path, collection(COAST)).shores
    np.testing.assert_allclose(read(tmp_path, content).shores, expected, rtol=0.0, atol=0.011)


@pytest.mark.parametrize("at", [(60.0, 179.9999), (60.0, -180.0), (70.0, 20.0), (-88.0, 20.0)])
def test_windows_lie_anywhere_also_across_the_antimeridian(tmp_path, at):
    """Longitudes are from -180 to 180, and the middle of the data is the default place."""
    degrees = LocalPlane(*at).to_degrees(np.array([*LAND, LAND[0], [100.0, 0.0], LAND[0]]))
    degrees[:, 0] = (degrees[:, 0] + 180.0) % 360.0 - 180.0
    content = {"type": "Polygon", "coordinates": [degrees.tolist()]}
    for place in (at, None):
        ((ax, ay, bx, by),) = read(tmp_path, content, at=place).shores
        assert (ay, by, ax - bx) == (100.0, 0.0, pytest.approx(10.0, abs=0.1))


def test_lines_are_walls_and_shallows_are_land_up_to_the_draught(tmp_path):
    pier = feature(line([20.0, 0.0], [40.0, 0.0]))
    shallow = feature(polygon([[30, -40], [40, -40], [40, -30], [30, -30]]), "DEPARE", DRVAL1=0.0, DRVAL2=2.0)
    chart = read(tmp_path, collection(COAST, pier, shallow))
    assert len(chart.shores) == 4  # the coast in two, and both sides of the pier
    tagged = feature(pier["geometry"], man_made="pier", layer="1", highway="footway")
    np.testing.assert_array_equal(read(tmp_path, collection(COAST, tagged, shallow)).shores, chart.shores)
    deep = read(tmp_path, collection(COAST, pier, shallow), draught=2.0)
    assert len(deep.shores) == 8
    only = read(tmp_path, collection(COAST, pier, shallow), draught=2.0, layers=["depare"])
    assert len(only.shores) == 4


def test_tracks_are_routes_where_they_are_in_the_water(tmp_path):
    track = feature(line([-80.0, 0.0], [30.0, 0.0], [40.0, 30.0], [40.0, 80.0]), "RECTRC")
    short = feature(line([-80.0, 20.0], [25.0, 20.0]), "NAVLNE")
    (route,) = read(tmp_path, collection(COAST, track, short)).routes
    np.testing.assert_allclose(route, [[80.0, 50.0], [90.0, 80.0], [90.0, 100.0]], atol=0.02)


def test_a_fairway_that_leads_through_has_a_centre_line(tmp_path):
    first = [[22.0, -90.0], [42.0, -90.0], [42.0, 0.0], [32.0, 0.0]]
    second = [[32.0, 0.0], [42.0, 0.0], [48.0, 90.0], [38.0, 90.0]]
    fairways = [feature(polygon(each), "FAIRWY") for each in (first, second)]
    (route,) = read(tmp_path, collection(COAST, *fairways)).routes
    assert sorted(route[[0, -1], 1].tolist()) == pytest.approx([0.0, 100.0])
    inside = shapely.Polygon(np.array(first) + 50.0).union(shapely.Polygon(np.array(second) + 50.0)).buffer(0.02)
    assert inside.covers(shapely.LineString(route))
    banks = shapely.LineString(np.array([first[0], second[0], second[3]]) + 50.0)
    assert shapely.distance(banks, shapely.points(route)).min() > 3.0
    branch = feature(polygon([[40.0, -5.0], [90.0, -5.0], [90.0, 5.0], [40.0, 5.0]]), "FAIRWY")
    for other in ([branch, *fairways], [fairways[0]], [feature(polygon(SQUARE), "FAIRWY")]):
        assert read(tmp_path, collection(COAST, *other)).routes == ()


def test_windows_that_need_more_segments_have_more(tmp_path):
    """By default they have 64, or 256 where 64 are too few or have an error of more than 1 m."""
    zigzag = [[10.0 + 3.0 * (number % 2), -99.0 + 2.0 * number] for number in range(100)]
    content = polygon([*zigzag, [-100.0, 99.0], [-100.0, -99.0]])
    fine, coarse = read(tmp_path, content, size=180.0), read(tmp_path, content, size=180.0, most_segments=64)
    assert 64 < len(fine.shores) <= 256 and fine.tolerance < 0.1
    assert len(coarse.shores) <= 64 and coarse.tolerance > 1.0
    with pytest.raises(ConfigError, match=r"more than 256: a larger --segments"):
        read(tmp_path, collection(COAST, *[feature(line([y, 31.0], [y, 40.0])) for y in np.linspace(31, 49, 150)]))


def test_a_given_tolerance_is_kept(tmp_path):
    assert len(read_chart(window_path("island"), tolerance=2.0, most_segments=64).shores) < 12
    with pytest.raises(ConfigError, match=r"18 segments with an error of 0\.3 m, more than 8: another --seg"):
        read_chart(window_path("island"), tolerance=0.3, most_segments=8)


STAR = np.random.default_rng(0).uniform(-50.0, 50.0, (200, 2)).tolist()
"""A polygon whose edges cross each other everywhere."""
MESH = {
    "type": "MultiLineString",
    "coordinates": [
        ring(ends, closed=False)
        for each in np.linspace(-48.0, 48.0, 320)
        for ends in ([[each, -49.0], [each, 49.0]], [[-49.0, each], [49.0, each]])
    ],
}
"""Walls that cross each other more than 100,000 times."""
DAMAGED = [
    ("", {}, "it is empty"),
    ("[]", {}, "no object of GeoJSON with a type"),
    ('{"type": "FeatureCollection"}', {}, "a FeatureCollection must have a list of its members"),
    ({"type": "Topology", "arcs": []}, {}, "'Topology' is no type of GeoJSON"),
    (collection(feature(polygon([])), feature(line())), {}, "it has no polygons or lines"),
    (collection(feature({"type": "GeometryCollection", "geometries": [None]})), {}, "None is no object of GeoJSON"),
    ({"type": "LineString", "coordinates": None}, {}, "None must be a list of positions"),
    ({"type": "Polygon", "coordinates": [[["1", "2"], ["3", "4"]]]}, {}, "must be a list of positions"),
    ({"type": "Polygon", "coordinates": [[[True, False], [True, True]]]}, {}, "must be a list of positions"),
    (collection(feature(polygon(LAND), "DEPARE", DRVAL2="shallow")), {}, "its layers are DEPARE"),
    (collection(feature(polygon([[0.0, 0.0], [20.0, 0.0]]))), {}, "the window has no shore: it is all water"),
    (collection(feature({"type": "Polygon", "coordinates": [ring(LAND)] * 2})), {}, "the window has no shore"),
    ({"type": "Polygon", "coordinates": [[p[::-1] for p in ring(LAND)]]}, {}, "a shore is at -80.1"),
    (collection(feature(polygon(STAR))), {}, "harbour.json: the polygons or coastlines of land cannot be united"),
    (collection(*OSM_COAST[1:]), {}, "their boundary ends in the window"),
    (collection(*OSM_COAST), {"at": (25.7694, -80.18), "size": 20}, "the window has no water: it is all land; a shore"),
    (collection(*OSM_OTHERS[2:]), {}, "LNDARE, PONTON, SLCONS; its layers are OSM, ROUTE=FERRY"),
    (collection(feature(MESH)), {}, "harbour.json: the window has too many lines for one map"),
    ({"type": "Polygon", "coordinates": 3}, {}, "3 must be a list of coordinates"),
    ({"type": "Polygon", "coordinates": [[[1], [2]]]}, {}, "must be a list of positions"),
    ('{"type": "Polygon", "coordinates": [[[NaN, 2.0], [0.0, 1.0]]]}', {}, "no longitude and latitude"),
    ({"type": "Polygon", "coordinates": [[[582000.0, 0.0], [0, 1]]]}, {}, "[582000.0, 0.0] is no longitude"),
    (collection(COAST, crs={"type": "name", "properties": None}), {}, "its crs is unknown"),
    (collection(feature(polygon(LAND), "BUAARE")), {}, "its layers are BUAARE"),
    (collection(feature(polygon(LAND), "DEPARE", DRVAL2=9)), {}, "has no land in COALNE, DEPARE, LNDARE"),
    (collection(COAST), {"layers": ["SLCONS"]}, "has no layer SLCONS; its layers are LNDARE"),
    (collection(COAST), {"at": (25.77, -80.1817)}, "the window has no shore: it is all water; a shore is at 25.7"),
    (collection(COAST), {"at": (25.7694, -80.18), "size": 20}, "the window has no water: it is all land; a shore is"),
    (collection(COAST), {"at": (95.0, 0.0)}, "at=(95.0, 0.0): must be latitude and longitude"),
    (collection(COAST), {"size": 0.0}, "size=0.0: must be a number of metres from 10"),
    (collection(COAST), {"draught": math.nan}, "draught=nan: must be"),
    (collection(COAST), {"most_segments": 0}, "segments=0: must be a whole number from 1"),
    (collection(COAST), {"tolerance": -1.0}, "tolerance=-1.0: must be"),
    (collection(COAST, *(feature(polygon(each), "M_COVR") for each in TWO_SIDES)), {}, "window reaches beyond what"),
    (collection(COAST, *[feature(line([31, y], [40, y])) for y in range(8)]), {"most_segments": 16}, "a smaller"),
]


@pytest.mark.parametrize(("content", "options", "words"), DAMAGED)
def test_what_cannot_be_a_chart_is_refused_in_one_sentence(tmp_path, content, options, words):
    assert words in refusal(read, tmp_path, content, **options)


def test_files_that_are_not_there_are_refused(tmp_path):
    (tmp_path / "folder.json").mkdir()
    for name in ("none.json", "folder.json"):
        with pytest.raises(ConfigError, match="cannot be read as a chart"):
            read_chart(tmp_path / name)


@pytest.mark.parametrize("name", ["cell.000", "harbour.json"])
def test_what_needs_the_extra_says_so(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, "pyogrio", None)
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32617"}}
    (tmp_path / name).write_text(json.dumps(collection(COAST, crs=crs)))
    with pytest.raises(ConfigError, match=r"pyogrio is not installed.*'marinenav.charts.'"):
        read_chart(tmp_path / name)


GOOD = {"name": "x", "width": 100.0, "height": 50.0, "shores": [[0.0, 20.0, 100.0, 20.0]], "routes": [[[1, 2], [3, 4]]]}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "harbour.json=[]: must be an object"),
        ({}, "harbour.json: the key 'chart' is missing"),
        ({"chart": 3}, "harbour.json.chart=3: must be an object"),
        ({"chart": {key: GOOD[key] for key in ("name", "width")}}, "harbour.json.chart: the key 'height' is missing"),
        ({"chart": GOOD | {"colour": 3}}, "the keys colour of chart are unknown"),
        *(
            ({"chart": GOOD | {key: value}}, f"harbour.json.chart.{key}")
            for key, values in {
                "name": ("a\nb", 3),
                "source": (4,),
                "width": (0.0, "3", True, 1e9),
                "height": (math.nan, [3.0]),
                "tolerance": (-1.0, "x"),
                "origin": ([1.0], [100.0, 0.0], "x", [math.nan, 0.0]),
                "shores": (3, [[1, 2, 3]], [[1, 2, 3, "x"]], [[0.0, 20.0, 101.0, 20.0]], [[math.nan] * 4], [1.0], [[]]),
                "routes": ({}, [[[1, 2, 3]]], [3], [[[1, 60]]]),
            }.items()
            for value in values
        ),
    ],
)
def test_damaged_files_of_charts_are_refused_in_one_sentence(tmp_path, content, words):
    (tmp_path / "harbour.json").write_text(json.dumps(content))
    assert words in refusal(Chart.load, tmp_path / "harbour.json")


def test_a_file_without_shores_or_optional_keys_is_open_water(tmp_path):
    (tmp_path / "harbour.json").write_text(json.dumps({"chart": GOOD | {"shores": []}}))
    chart = Chart.load(tmp_path / "harbour.json")
    assert chart.shores.shape == (0, 4)
    assert (chart.sample()[1] > 0.0).all()
    assert [route.tolist() for route in chart.routes] == [[[1.0, 2.0], [3.0, 4.0]]]
