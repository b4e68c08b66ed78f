"""Damaged scenario files of other programs are refused with one sentence."""

import copy
import re

import pytest

from marinenav_env import read_scenarios
from tests.marinenav_env.scenarios.helpers import BOX, GENERATED, INPUT, SHALLOW, XML, written
from tests.refusals import GONE, changed, refusal

COLAV = {"ship_list": [{"csog_state": [0.0, 0.0, 5.0, 0.0]}, {"csog_state": [900.0, 0.0, 5.0, 180.0]}]}
LEAST = "must be a list of 1 to 1000 elements"
# A file, a key of it, its value there (GONE: none), and what the refusal says.
JSON_BAD = [
    (GENERATED, "ownShip", [], "ownShip=[]: must be an object"),
    (GENERATED, "targetShips", GONE, "the key 'encounters' is missing"),
    (GENERATED, "targetShips", [], f"targetShips=[]: {LEAST}"),
    (GENERATED, "targetShips.0.waypoints", GONE, "the key 'position' is missing"),
    (GENERATED, "targetShips.0.waypoints.0.position", GONE, "the key 'lon' is missing"),
    (GENERATED, "targetShips.0.waypoints.0.position.lat", GONE, "the key 'lat' is missing"),
    (GENERATED, "targetShips.0.waypoints.0.position.lat", 90.0, "lat=90.0: must be a number from -89 to 89"),
    (GENERATED, "targetShips.0.waypoints.0.position.lat", -40.0, "must be within 1,000 km of the own ship"),
    (GENERATED, "targetShips.0.waypoints.0.position.lon", 400, "lon=400: must be a number from -180 to 360"),
    (GENERATED, "targetShips.0.waypoints.0.leg", GONE, "the key 'sog' is missing"),
    (GENERATED, "targetShips.0.waypoints.0.leg.sog", -1, "sog=-1: must be a number from 0 to 100"),
    (GENERATED, "targetShips.1", GENERATED["targetShips"][0], "two ships start at the same place"),
    (GENERATED, "title", 7, "title=7: must be text of one line"),
    (INPUT, "encounters.0.desiredEncounterType", "ramming", "must be one of head-on, crossing-"),
    (INPUT, "encounters.0.beta", [1.0, 2.0], "beta must be one number, as trafficgen draws it"),
    (INPUT, "encounters.0.vectorTime", 0, "vectorTime=0: must be a number from 0.01"),
    (INPUT, "encounters.0.relativeSpeed", 0.01, "no ship on this bearing meets the own one"),
    (COLAV, "ship_list", [], f"ship_list=[]: {LEAST}"),
    (COLAV, "ship_list.0", {"id": 3}, "the key 'csog_state' is missing, or waypoints with"),
    (COLAV, "ship_list.0.csog_state", [0.0, 0.0, 5.0], "must be a list of 4 elements"),
    (COLAV, "ship_list.0.csog_state.0", 1e9, "must be a number from -1e"),
    (COLAV, "ship_list.0.waypoints", [[0.0, 1.0], [0.0]], "must be two lists of the same length"),
    (COLAV, "ship_list.0", {"csog_state": [0.0] * 4, "speed_plan": [-1.0]}, "must be a number from 0 to 100"),
]
FOREIGN = "<!DOCTYPE x [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><commonOcean timeStepSize='1'>&a;</commonOcean>"
TEXT_BAD = {
    "list.json": ([GENERATED], "[0]: the key 'env' is missing"),
    "empty.json": ("", "cannot be read as a scenario file"),
    "settings.json": ('{"agent_type": "PPO"}', "a scenario file, or a chart from marinenav chart; it has agent"),
    "other.yml": ("name: x\n", "the key 'ship_list' is missing"),
    "tag.yaml": ("ship_list: !!python/object/apply:os.system ['true']\n", "cannot be read as YAML"),
    "alias.yaml": ("a: &a [1, 2]\nship_list: [*a, *a]\n", "anchors and aliases are not read"),
    "long.yaml": ("# " + "x" * 2**20 + "\nship_list: []\n", "more than 1,048,576 characters"),
    "foreign.xml": (FOREIGN, "document types are not read"),
    "other.xml": ("<a>" * 40 + "</a>" * 40, "must be commonOcean"),
    "step.xml": (XML.replace('timeStepSize="10.0"', 'timeStepSize="0"'), "Size=0.0: must be a number from 1e-09"),
    "nobody.xml": ("<commonOcean timeStepSize='1'/>", "a scenario with a vessel and at most"),
    "no_goal.xml": (re.sub("(?s)<goalState>.*</goalState>", "", XML), "<goalState> is missing"),
    "no_state.xml": (re.sub("(?s)(<planning[^>]*>).*?<goalS", r"\1<goalS", XML), "<initialState> is missing"),
    "text.xml": (XML.replace("<x>400.0</x>", "<x>far</x>"), "x='far': must be a number from -1e+08"),
    "time.xml": (XML.replace("<exact>2<", "<exact>1<"), "must be increasing counts"),
    "twice.xml": (XML.replace("<x>1000.0</x><y>-1000.0</y>", "<x>0</x><y>0</y>"), "two ships start at the same place"),
    "corners.xml": (XML.replace(BOX, "<polygon><point><x>1</x><y>1</y></point></polygon>"), "must be 3 to 1000 points"),
    "corner.xml": (XML.replace(BOX, "<polygon><point><x>1</x></point></polygon>"), "the element <y> is missing"),
    "box.xml": (XML.replace(BOX, BOX.replace(">5<", ">-1<")), "must be a number from 0"),
    "rectangle.xml": (XML.replace(BOX, "<rectangle><length>1</length></rectangle>"), "the element <width> is missing"),
    "shallow.xml": (XML.replace('<waters id="1"/>', SHALLOW.replace(">1900<", ">deep<")), "'deep': must be a number"),
    "many.xml": (XML.replace('<waters id="1"/>', "<shallow/>" * 1001), "at most 1000 of each kind"),
    "interval.xml": (XML.replace("<intervalEnd>1.0</intervalEnd>", ""), "<intervalEnd> is missing"),
}


def refused(path):
    """The sentence with which a path is refused."""
    message = refusal(read_scenarios, path)
    assert message.startswith(str(path)[:20]) and len(message) < 400
    return message


@pytest.mark.parametrize(("content", "keys", "value", "sentence"), JSON_BAD, ids=range(len(JSON_BAD)))
def test_damaged_json_is_refused(content, keys, value, sentence, tmp_path):
    damaged = changed(content, keys.replace(".", "/"), value)
    assert sentence in refused(written(tmp_path, "bad.json", damaged))


def test_a_course_must_follow_from_something(tmp_path):
    still, unknown = copy.deepcopy(GENERATED), copy.deepcopy(INPUT)
    del still["targetShips"][0]["initial"]["heading"], still["targetShips"][0]["waypoints"][1]
    for key in ("cog", "heading"):
        unknown["ownShip"]["initial"].pop(key, None)
    for content in (still, unknown):
        message = refused(written(tmp_path, "bad.json", content))
        assert "the course is missing, and there is no waypoint ahead" in message


@pytest.mark.parametrize("name", TEXT_BAD)
def test_damaged_yaml_and_xml_is_refused(name, tmp_path):
    if name.endswith("ml") and not name.endswith(".xml"):
        pytest.importorskip("yaml")
    content, message = TEXT_BAD[name]
    assert message in refused(written(tmp_path, name, content))


def test_folders_without_scenarios_are_refused(tmp_path):
    assert "cannot be read as a folder of scenario files (it has 0 of .json, .xml" in refused(tmp_path)
    written(tmp_path, "notes.txt", "x")
    assert "it has 0 of .json" in refused(tmp_path)
    written(tmp_path, "1.json", GENERATED)
    path = written(tmp_path, "2.json", {"name": "package"})
    assert str(path) in refused(tmp_path)
    path.unlink()
    (tmp_path / "3.json").mkdir()
    assert "3.json: cannot be read as a scenario file (not a regular file)" in refused(tmp_path)
