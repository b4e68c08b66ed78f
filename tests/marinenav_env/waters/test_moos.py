"""Obstacles of MOOS-IvP become a chart, on which scenarios are drawn."""

import numpy as np
import pytest

from marinenav_env import read_scenarios
from marinenav_env.waters.charts import Chart
from marinenav_env.waters.shapes import signed_distance
from tests.marinenav_env.helpers import DATA
from tests.refusals import refusal

OBSTACLES = DATA / "waters/moos_obstacles.txt"
SQUARE = "poly = pts={0,10:4,10:4,30:0,30},label=one"


def test_polygons_are_land_where_the_file_has_them():
    """The region is 90 m from west to east and 120 m from south to north, from (30, -140)."""
    chart = Chart.load(OBSTACLES)
    assert (chart.width, chart.height, len(chart.shores)) == (120.0, 90.0, 40)
    middles = np.array([(-79.7, 106.3), (-97.3, 71.7), (-55.9, 59.9), (-39.6, 89.25), (-82.9, 46.1)]) - [-140.0, 30.0]
    assert (signed_distance(middles, chart.shores) < -5.0).all()
    assert (signed_distance(np.array([[5.0, 5.0], [115.0, 85.0]]), chart.shores) > 20.0).all()


def test_x_is_east_and_a_window_that_is_not_stated_is_wider_than_the_obstacles(tmp_path):
    behaviour = "Behavior = BHV_OpRegion\n{\n  polygon = pts={-99,-99:99,-99:99,99:-99,99}\n}"
    for text in (
        SQUARE,
        "poly = 0,10:4,10:4,30:0,30",
        f"region = pts=$(ALL)\n{behaviour}\n  given_obstacle={SQUARE[7:]}",
    ):
        (tmp_path / "x.txt").write_text(f"// a comment\n  {text}\nmin_range = 2\n")
        chart = Chart.load(tmp_path / "x.txt")
        assert (chart.width, chart.height) == (60.0, 44.0)
    points = np.array([[30.0, 22.0], [22.0, 30.0]])
    assert signed_distance(points, chart.shores).tolist() == pytest.approx([-2.0, 6.0], abs=0.02)


@pytest.mark.heavy
def test_scenarios_are_drawn_on_obstacles():
    episodes = read_scenarios(OBSTACLES)
    assert len(episodes) == 100 and {len(episode.shores) for episode in episodes} == {40}
    starts = np.array([episode.start[0] for episode in episodes])
    assert signed_distance(starts, Chart.load(OBSTACLES).shores).min() > 2.0


BAD = {
    "poly = label=one": "line 1='poly = label=one': must be pts={x,y:x,y:...} with 3 points or more",
    "poly = pts={1,2:3,4}": "must be pts={x,y:x,y:...} with 3 points or more",
    "poly = pts={1,2:3,4:5,x}": "must be pts=",
    "poly = pts={1,2:3,4:5,1e9}": "must be pts=",
    f"{SQUARE}\npoly = pts={{1,2": "line 2=",
    "region = pts={0,0:9,0:9,9}": "has no line poly = pts={x,y:x,y:...}",
    f"{SQUARE}\nregion = pts={{0,0:9,0:5,0}}": "size='0 x 9 m': must be above 0 and up to 20000 m",
    f"{SQUARE}\nregion = pts={{50,0:60,0:60,9:50,9}}": "the window has no shore: it is all water",
    "poly = pts={0,0:9,9:5,5}": "the window has no",
}


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_damaged_files_are_refused(text, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text(text)
    for read in (Chart.load, read_scenarios):
        message = refusal(read, path)
        assert BAD[text] in message and len(message) < 400
