"""Scenario files that are refused, and with which words."""

import pytest

from marinenav_env import read_scenarios
from marinenav_env.scenarios.scenario_file import parse_scenarios
from tests.marinenav_env.helpers import recorded_entry
from tests.refusals import GONE, changed, refusal

NUMBER = "must be a number from -1e+06 to 1e+06"


def first(value):
    """Replace the first element of a list."""
    return lambda values: [value, *values[1:]]


def shorter(values):
    return values[:-1]


# A key of an episode, its value there (GONE: none), and what the refusal says.
BAD = [
    ("env", GONE, "a[1]: the key 'env' is missing"),
    ("robots.perception", GONE, "a[1].robots: the key 'perception' is missing"),
    ("config", 3, "a[1].config=3: must be an object"),
    ("robots.actuators", [1], "a[1].robots.actuators=[1]: must be an object"),
    ("robots.start", [], "a[1].robots.start=[]: must be a list of 1 to 1000 elements"),
    ("robots.goal", shorter, "must be a list of 6 elements"),
    ("robots.start", first([1.0, 2.0, 3.0]), "a[1].robots.start[0]=[1.0, 2.0, 3.0]: must be a list of 2 elements"),
    ("robots.start", first(["here", "there"]), f"a[1].robots.start[0][0]='here': {NUMBER}"),
    ("robots.start", first([1e7, 0.0]), f"a[1].robots.start[0][0]=10000000.0: {NUMBER}"),
    ("robots.length", 5.0, "a[1].robots.length=5.0: must be a list of 6 elements"),
    ("robots.length", first("long"), "a[1]: world.vessel.length=['long'"),
    ("robots.perception.max_obj_num", first(0.5), "a[1]: world.sensor.max_objects=[0.5"),
    ("robots.actuators", {"lag": [0.5] * 5}, "must be a list of 6 elements"),
    ("robots.actuators", {"steering": ["sail"] * 6}, "a[1]: world.vessel.actuators.steering="),
    ("robots.boat", 3, "a[1].robots.boat=3: must be text of one line"),
    ("robots.N", [2.5] * 6, "a[1]: world.substeps=2.5: must be a whole number"),
    ("robots.left_thrust_change", first([1.0]), "must be equal for all robots"),
    ("robots.left_thrust_change", [[]] * 6, "a[1]: world.vessel.left_thrust_change=(): must be one or"),
    ("robots.right_thrust_change", [[1.0, "x"]] * 6, f"a[1].robots.right_thrust_change[0][1]='x': {NUMBER}"),
    ("robots.behaviour", ["stop"], "a[1].robots.behaviour=['stop']: must be a list of 6 elements"),
    ("robots.behaviour", ["", "sink"] * 3, "must be a list of names, each empty (one or more) or one of keep, "),
    ("robots.behaviour", ["", "stop"] * 3, "a[1].robots.onset=[]: must be a list of 6 elements"),
    ("robots.onset", [1.0], "a[1].robots.onset=[1.0]: must be a list of 0 elements"),
    ("env.seed", "x", "a[1].env.seed='x': must be a whole number from 0"),
    ("env.num_robots", 7, "a[1].env.num_robots=7: must be 6, "),
    ("env.v_range", [2.0, 1.0], "a[1]: world.scenario.v_range=[2.0, 1.0]: must be a range, "),
    ("env.r", 0.0, "a[1]: world.scenario.core_radius=0.0: must be above 0"),
    ("env.goal_reward", "much", "a[1]: world.reward.goal_reward='much': must be a number"),
    ("env.obstacles.r", shorter, "must be a list of 8 elements"),
    ("env.obstacles.r", first(-1.0), "a[1].env.obstacles.r[0]=-1.0: must be a number from 0"),
    ("env.cores.clockwise", first("yes"), "must be a list of 8 truth values"),
    ("env.cores.positions", [[1.0, 2.0]] * 2000, "must be a list of 0 to 1000 elements"),
    ("env.shores", [[1, 2, 3]], "a[1].env.shores[0]=[1, 2, 3]: must be a list of 4 elements"),
    ("env.shores", [[1.0, 2.0, 3.0, 4.0]] * 257, "must be a list of 0 to 256 elements"),
    ("robots.route", None, "a[1].robots.route=None: must be a list of 6 elements"),
    ("robots.route", [[[1.0, 2.0]] * 8] * 6, "must be a list of 0 to 7 elements"),
    ("robots.route", [[[1.0, 2.0, 3.0]]] * 6, "a[1].robots.route[0][0]=[1.0, 2.0, 3.0]: must be a list of 2 elements"),
    ("robots.route", [[[True, 2.0]]] * 6, f"a[1].robots.route[0][0][0]=True: {NUMBER}"),
    ("robots.track", [[[0.0, 1.0]] * 2] * 6, "a[1].robots.track[0][0]=[0.0, 1.0]: must be a list of 3 elements"),
    ("robots.track", [[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]] * 6, "for the behaviour track, else none"),
    ("robots.track", [[[0.0, 1.0, 2.0]] * 20_000] * 6, "must be a list of 0 to "),
]


@pytest.mark.parametrize(("key", "value", "sentence"), BAD, ids=range(len(BAD)))
def test_bad_entries_are_refused_by_key_and_value(key, value, sentence):
    entry = changed(recorded_entry(), key.replace(".", "/"), value)
    message = refusal(parse_scenarios, [recorded_entry(), entry], "a")
    assert message.startswith("a[1]") and sentence in message


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (b"{}", "bad.json={}: must be a JSON list of at least one episode"),
        (b"[[1]]", "bad.json[0]=[1]: must be an object"),
        (b"[{", "bad.json: cannot be read as a scenario file ("),
        (None, "bad.json: cannot be read as a scenario file (No such file"),
    ],
)
def test_bad_files_are_refused(text, sentence, tmp_path):
    path = tmp_path / "bad.json"
    if text is not None:
        path.write_bytes(text)
    assert sentence in refusal(read_scenarios, path)
