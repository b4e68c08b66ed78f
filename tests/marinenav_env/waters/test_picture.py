"""Pictures of charts show land where it is."""

from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("shapely", reason="needs the extra test")

from marinenav_env.waters.charts import Chart, read_chart
from marinenav_env.waters.picture import draw_svg, land_outlines
from marinenav_env.waters.shapes import contains, edges_of, unite
from marinenav_env.waters.simplify import simplify
from tests.marinenav_env.waters.helpers import WINDOWS, window_path
from tests.marinenav_env.waters.test_shapes import HOLE, SIZE, SQUARE, star

NORTH, SOUTH = np.array([[0.0, 40.0], [30.0, 0.0]])
STRIP = np.array([[-10.0, 30.0], [110.0, 30.0], [110.0, 50.0], [-10.0, 50.0]])


def chart_of(areas, lines=()):
    shores, error = simplify(list(unite(areas, lines, SIZE).chains()), 999, 0.0, 0.0)
    return Chart("<test>", *SIZE, shores, (np.array([[5.0, 5.0], [95.0, 5.0]]),), (0.0, 0.0), error, "source")


def charts():
    yield from (read_chart(window_path(name), most_segments=256) for name in WINDOWS)
    yield from (chart_of([[SQUARE, HOLE]], [np.array([[10.0, 10.0], [90.0, 10.0]])]), chart_of([[STRIP]]), chart_of([]))
    yield chart_of([[STRIP], [STRIP + NORTH], [SQUARE - SOUTH, HOLE - SOUTH]])
    for seed in range(4):
        drawn = np.random.default_rng(seed)
        yield chart_of([[star(seed * 20 + number, drawn.uniform((-5, -5), (105, 85)))] for number in range(9)])


@pytest.mark.parametrize("chart", [*charts()])
def test_outlines_are_around_the_land(chart):
    points, distance = chart.sample(60)
    inside = contains([edges_of(land_outlines(chart), 0.01, closed=True)], points)
    clear = np.abs(distance) > 0.05
    assert (inside == (distance < 0.0))[clear].all()


def test_a_picture_has_every_segment_and_route_and_is_to_scale():
    chart = chart_of([[SQUARE, HOLE]], [np.array([[10.0, 10.0], [90.0, 10.0]])])
    root = ElementTree.fromstring(draw_svg(chart))
    kinds = [each.get("class") for each in root]
    assert (kinds.count("shore"), kinds.count("wall"), kinds.count("route")) == (8, 2, 1)
    wall = next(each for each in root if each.get("class") == "wall")
    assert [float(wall.get(key)) for key in ("x1", "y1", "x2", "y2")] == [90.0, 810.0, 90.0, 90.0]
    assert "20 m; north is up" in "".join(root.itertext())
    assert root.find("{*}title").text == "<test>"
