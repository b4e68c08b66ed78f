"""Scenario files of other programs are read."""

import copy
import json
import math
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from marinenav_env import ConfigError, MarineNavEnv, WorldConfig, read_scenarios, write_scenarios
from marinenav_env.scenarios.colav import parse_colav
from marinenav_env.scenarios.common_ocean import parse_common_ocean
from marinenav_env.scenarios.dnv import KNOT, parse_dnv
from marinenav_env.scenarios.reading import DATA_FOLDER, packaged_situations, read_content
from marinenav_env.scenarios.situations import scaled_episode, similarity_factors
from marinenav_env.support.nodes import parse_xml
from marinenav_env.vessels import scaled_world
from marinenav_env.waters.shapes import signed_distance
from tests.marinenav_env.helpers import simple_episode
from tests.marinenav_env.scenarios.helpers import BOX, GENERATED, INPUT, SAMPLES, SHALLOW, XML, written

# DNV --------------------------------------------------------------------------------------------


def test_generated_situations_of_dnv(tmp_path):
    situation = read_content(SAMPLES / "dnv_generated.json")
    own, head_on, crossing = situation.ships
    assert (situation.name, situation.left_out) == ("HO, CR-GW", {})
    assert own.position == (0.0, 0.0) and own.speed == pytest.approx(10.0 * KNOT)
    assert own.course == pytest.approx(0.0, abs=1e-6)
    # 7.95 sea miles ahead and 0.55 to port, see the file; 1 minute of latitude is 1,857 m there.
    assert head_on.position == pytest.approx((7.948 * 1857.0, -0.55 * 1857.0), rel=0.02)
    assert (head_on.speed, crossing.speed) == pytest.approx((14.0 * KNOT, 8.0 * KNOT))
    assert math.degrees(head_on.course) == pytest.approx(173.15, abs=0.1)
    assert math.degrees(crossing.course) % 360.0 == pytest.approx(263.5, abs=0.1)


def test_inputs_of_dnv_place_the_ships_where_the_generator_does():
    generated, from_input = (read_content(SAMPLES / f"dnv_{name}.json") for name in ("generated", "input"))
    assert from_input.name == generated.name
    for ship, other in zip(from_input.ships, generated.ships, strict=True):
        assert math.dist(ship.position, other.position) < 60.0  # of kilometres
        assert ship.course == pytest.approx(other.course, abs=math.radians(0.5))
        assert ship.speed == pytest.approx(other.speed, rel=0.01)


def test_an_overtaken_ship_is_the_closer_one_of_two():
    content = copy.deepcopy(INPUT)
    content["encounters"] = [
        {"desiredEncounterType": kind, "beta": -15.0, "relativeSpeed": 0.5, "vectorTime": 17.0}
        for kind in ("overtaking-give-way", "crossing-stand-on")
    ]
    own, near, far = parse_dnv(content, "x").ships
    assert math.hypot(*near.position) < 0.6 * math.hypot(*far.position)
    time, course = 17.0 * 60.0, own.course
    met = (own.speed * time * math.cos(course), own.speed * time * math.sin(course))
    for ship in (near, far):
        assert math.degrees(math.atan2(*reversed(ship.position))) == pytest.approx(-15.0)
        assert math.dist(ship.position, met) == pytest.approx(ship.speed * time)


def snake(value):
    """Rename the keys of an object from camelCase to snake_case."""
    if isinstance(value, dict):
        return {re.sub("([A-Z])", r"_\1", name).lower(): snake(item) for name, item in value.items()}
    return [snake(item) for item in value] if isinstance(value, list) else value


def test_other_versions_of_dnv_read_the_same():
    plain = parse_dnv(GENERATED, "x")
    assert parse_dnv(snake(GENERATED), "x") == plain
    assert parse_dnv(snake(INPUT), "x") == parse_dnv(INPUT, "x")
    nested, stated, early = (copy.deepcopy(GENERATED) for _ in range(3))
    for ship in (nested["ownShip"], *nested["targetShips"]):
        for waypoint in ship["waypoints"]:
            waypoint["data"] = {"sog": {"value": waypoint.pop("leg")["sog"]}}
    for ship in (stated["ownShip"], *stated["targetShips"]):
        first = ship["waypoints"][0]
        course = ship["initial"]["heading"]
        ship["initial"] |= {"position": first["position"], "sog": first["leg"]["sog"], "cog": course}
    for ship in (early["ownShip"], *early["targetShips"]):
        first = ship.pop("waypoints")[0]
        position = {"latitude": first["position"]["lat"], "longitude": first["position"]["lon"]}
        course = ship.pop("initial")["heading"]
        ship["startPose"] = {"position": position, "speed": first["leg"]["sog"], "course": course}
    assert parse_dnv(nested, "x") == parse_dnv(stated, "x") == plain
    for ship, other in zip(parse_dnv(early, "x").ships, plain.ships, strict=True):
        assert (ship.position, ship.speed) == (other.position, other.speed)
        assert ship.course % (2.0 * math.pi) == pytest.approx(other.course % (2.0 * math.pi), abs=2e-3)
    single = GENERATED | {"targetShip": GENERATED["targetShips"]}
    del single["targetShips"]
    assert parse_dnv(single, "x") == plain


def test_the_first_schema_of_dnv_has_its_waypoints_without_a_key():
    own, other = read_content(SAMPLES / "dnv_snake.json").ships
    assert (own.position, own.course, own.speed) == ((0.0, 0.0), 0.0, pytest.approx(10.0 * KNOT))
    assert other.position == pytest.approx((10173.75, 355.28), rel=2e-3)  # as the file states in metres, of a sphere
    assert math.degrees(other.course) % 360.0 == pytest.approx(183.7, abs=0.1)


def test_files_of_dnv_in_radians_say_so():
    with pytest.warns(UserWarning, match=r"dnv_radians\.json: read as radians and m/s"):
        own, other = read_content(SAMPLES / "dnv_radians.json").ships
    assert [math.degrees(ship.course) for ship in (own, other)] == pytest.approx([0.0, 183.63], abs=0.01)
    assert (own.speed, other.speed) == (pytest.approx(5.14), pytest.approx(6.2))
    assert other.position[0] == pytest.approx(10_170.0, rel=3e-3)


@pytest.mark.parametrize(("east", "first"), [(180.0, -180.0), (0.0, 0.0)])
def test_longitudes_begin_anywhere(east, first):
    content = copy.deepcopy(GENERATED)
    shift = east - content["ownShip"]["waypoints"][0]["position"]["lon"]
    for ship in (content["ownShip"], *content["targetShips"]):
        for waypoint in ship["waypoints"]:
            position = waypoint["position"]
            position["lon"] = (position["lon"] + shift - first) % 360.0 + first
    for ship, other in zip(parse_dnv(content, "x").ships, parse_dnv(GENERATED, "x").ships, strict=True):
        assert ship.position == pytest.approx(other.position, abs=0.01)


def changed_waypoints(ship, *added, speed=None):
    """A situation of DNV in which a ship has further waypoints, and another speed from its second one on."""
    content = copy.deepcopy(GENERATED)
    stated = [content["ownShip"], *content["targetShips"]][ship]
    stated["waypoints"] += [{"position": {"lat": lat, "lon": 10.4}} for lat in added]
    if speed is not None:
        stated["waypoints"][1]["leg"]["sog"] = speed
    return content


def test_other_ships_follow_their_later_legs(tmp_path):
    """The track turns where the file has it, in the proportions of the file; the ship is there at the scaled times."""
    path = written(tmp_path, "later.json", changed_waypoints(1, 58.7, 58.71, speed=7.0))
    situation, (episode,) = read_content(path), read_scenarios(path)
    (straight,) = read_scenarios(SAMPLES / "dnv_generated.json")
    assert situation.left_out == {} and episode.behaviour == ["", "track", ""]
    assert episode.goal[1] == episode.track[1][-1][1:]
    lengths, speeds = similarity_factors(situation, WorldConfig())
    head_on = situation.ships[1]
    stated = [head_on.position, *(state[1:] for state in head_on.track)]
    for (before, after), (a, b) in zip(pairwise(stated), pairwise(episode.track[1]), strict=True):
        assert [b[1] - a[1], b[2] - a[2]] == pytest.approx(
            [lengths * (e - s) for s, e in zip(before, after, strict=True)]
        )
    pace = [math.dist(a[1:], b[1:]) / (b[0] - a[0]) for a, b in pairwise(episode.track[1])]
    assert pace == pytest.approx([speeds * knots * KNOT for knots in (14.0, 7.0, 7.0)])
    gaps = [[math.dist(one.start[0], start) for start in one.start] for one in (episode, straight)]
    assert gaps[0] == pytest.approx(gaps[1])  # the scaling is that of the first legs
    env = MarineNavEnv(scenarios=[episode], seed=0)
    step, time = env.reset(), 0.0
    while time < episode.track[1][1][0] + 3.0:
        step = env.step_mdp(env.step(step.set(("robots", "action"), torch.zeros(1, 3, 2))))
        time += WorldConfig().control_step
    (t, x, y), (t2, x2, y2) = episode.track[1][1:3]
    share = (time - t) / (t2 - t)
    assert env.state.pose[0, 1, :2].tolist() == pytest.approx([x + share * (x2 - x), y + share * (y2 - y)], abs=1e-2)


def test_the_own_ship_has_its_later_legs_as_its_route(tmp_path):
    path = written(tmp_path, "later.json", changed_waypoints(0, 58.7, 58.71, speed=5.0))
    situation = read_content(path)
    own = situation.ships[0]
    assert situation.left_out == {"changes of speed": 1} and len(own.route) == 2
    with pytest.warns(UserWarning, match=r"later\.json: left out 1 changes of speed"):
        (episode,) = read_scenarios(path)
    lengths, _ = similarity_factors(situation, WorldConfig())
    placed = [episode.start[0], *episode.route[0], episode.goal[0]]
    for before, after in zip(pairwise([own.position, *own.route, own.goal]), pairwise(placed), strict=True):
        assert np.subtract(*after[::-1]) == pytest.approx(lengths * np.subtract(*before[::-1]))
    env = MarineNavEnv(scenarios=[episode], dtype=torch.float64)
    assert env.scenario.route[0, 0, :3, :2].tolist() == [pytest.approx(place) for place in placed[1:]]
    assert env.scenario.route[0, 1, 0, :2].tolist() == pytest.approx(episode.goal[1])
    many = written(tmp_path, "many.json", changed_waypoints(0, *(58.7, 58.71) * 5))
    assert read_content(many).left_out == {"turns at waypoints": 10}


@pytest.mark.parametrize("unknown", [102.3, "fast"])
def test_unknown_speeds_and_those_beyond_the_last_waypoint_change_nothing(unknown, tmp_path):
    expected = read_scenarios(SAMPLES / "dnv_generated.json")
    for speed in (unknown, 5.0):
        assert read_scenarios(written(tmp_path, "one.json", changed_waypoints(1, speed=speed))) == expected


# NTNU -------------------------------------------------------------------------------------------


def test_scenarios_of_colav_simulator():
    pytest.importorskip("yaml")
    situation = read_content(SAMPLES / "imazu07.yaml")
    own, crossing, slow = situation.ships
    assert (situation.name, situation.left_out) == ("imazu07", {})
    assert (own.position, own.course, own.speed) == ((7044940.0, 275000.0), 0.0, 10.0)
    # Guided along its waypoints, not on the course 320 of the initial state.
    assert math.degrees(crossing.course) == pytest.approx(-51.0, abs=0.05) and crossing.speed == 9.0
    assert (slow.course, slow.speed) == (0.0, 5.0)
    assert situation.ships == packaged_situations("imazu_ntnu")[6].ships


LEG = {"csog_state": [100.0, 0.0, 5.0, 90.0], "waypoints": [[0.0, 2000.0, 4000.0], [0.0, 0.0, 10.0]]}


@pytest.mark.parametrize(
    ("position", "degrees", "turns"),
    [
        ((-100.0, 0.0), 0.0, 0),  # before the first waypoint
        ((100.0, 0.0), 0.0, 0),
        ((2500.0, 0.0), math.degrees(math.atan2(10.0, 1500.0)), 0),  # on the second leg
        ((0.0, 300.0), -90.0, 1),  # beside the first waypoint
        ((5000.0, 10.0), 90.0, 0),  # beyond the last waypoint: the stated course
    ],
)
def test_ships_head_for_the_first_waypoint_that_they_have_not_passed(position, degrees, turns):
    ship = LEG | {"csog_state": [*position, 5.0, 90.0]}
    situation = parse_colav({"ship_list": [ship, ship]}, "x")
    for stated in situation.ships:
        assert math.degrees(stated.course) == pytest.approx(degrees)
    assert situation.left_out == {} and bool(situation.ships[0].route) == (turns > 0)
    assert [bool(stated.track) for stated in situation.ships] == [False, turns > 0]


def test_ships_of_colav_simulator_follow_their_speed_plan_and_stay_where_it_ends():
    own = {"csog_state": [0.0, 0.0, 5.0, 0.0]}
    other = {
        "csog_state": [4000.0, 0.0, 5.0, 180.0],
        "waypoints": [[4000.0, 3000.0, 3000.0, 0.0], [0.0, 0.0, 600.0, 0.0]],
    }
    content = {"ship_list": [own, other | {"speed_plan": [10.0, 4.0, 0.0, 3.0], "t_start": 50.0}]}
    situation = parse_colav(content, "x")
    track = situation.ships[1].track
    assert situation.left_out == {"later starts": 1} and situation.ships[1].position == pytest.approx((4250.0, 0.0))
    assert track == ((50.0, 4000.0, 0.0), (150.0, 3000.0, 0.0), (300.0, 3000.0, 600.0), (301.0, 3000.0, 600.0))
    episode = scaled_episode(situation, WorldConfig())
    assert math.dist(episode.goal[1], episode.track[1][-1][1:]) > 20.0  # else it would end where it stays


def test_ships_of_colav_simulator_that_appear_later_or_state_a_goal():
    own = {"csog_state": [0.0, 0.0, 5.0, 0.0], "goal_csog_state": [3000.0, 300.0, 0.0, 0.0], "t_start": 10.0}
    late = {"csog_state": [4000.0, 0.0, 5.0, 180.0], "t_start": 310.0}
    content = {"ship_list": [own, late], "n_random_ships_range": [1, 3], "ais_data_file": "x.csv"}
    situation = parse_colav(content, "x")
    assert situation.ships[0].goal == (3000.0, 300.0) and situation.ships[1].goal is None
    assert situation.ships[0].position == (0.0, 0.0)
    assert situation.ships[1].position == pytest.approx((5500.0, 0.0))
    assert situation.left_out == {"later starts": 1, "ships to be drawn": 2, "files with ships of AIS": 1}
    assert parse_colav(content | {"n_random_ships": 3}, "x").left_out["ships to be drawn"] == 2


def test_yaml_needs_its_package(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(ConfigError, match=r"pip install 'marinenav\[yaml\]'"):
        read_scenarios(SAMPLES / "imazu07.yaml")
    assert len(packaged_situations("imazu_ntnu")) == 22


def test_goals_that_are_too_far_for_an_episode_are_counted(tmp_path):
    states = [0.0, 0.0, 5.0, 0.0], [10.0, 200.0, 0.0, 0.0], [18_000.0, 0.0, 5.0, 180.0]
    path = written(tmp_path, "far.json", {"ship_list": [{"csog_state": state} for state in states]})
    with pytest.raises(ConfigError, match=r"1 episodes with 2 goals farther than vessels get before the episode ends$"):
        read_scenarios(path, strict=True)
    read_scenarios(path, world=WorldConfig(max_steps=100_000))


# CommonOcean ------------------------------------------------------------------------------------


def test_scenarios_of_common_ocean(tmp_path):
    situation = read_content(written(tmp_path, "one.xml", XML))
    own, other = situation.ships
    assert situation.name == "ZAM_1"
    assert (own.position, own.course, own.speed, own.goal) == ((0.0, 0.0), 0.0, 5.0, (3000.0, -10.0))
    # y is to port.
    assert (other.position, other.speed) == ((1000.0, 1000.0), 5.0)
    assert math.degrees(other.course) == pytest.approx(-90.0)
    assert other.track == ((10.0, 1000.0, 950.0), (20.0, 1040.0, 920.0))
    assert situation.obstacles == ((500.0, -300.0, 50.0),)
    assert situation.left_out == {"further goal states": 1, "waters": 1}
    with (
        pytest.warns(UserWarning, match="1 waters"),
        pytest.warns(UserWarning, match="ZAM_1: left out 1 areas at starts or goals of vessels"),
    ):
        (episode,) = read_scenarios(tmp_path / "one.xml")
    assert episode.shores == []
    assert len(episode.start) == 2 and len(episode.obstacles) == 1 and episode.behaviour == ["", "track"]
    own_only = re.sub("(?s)<planningProblem.*</planningProblem>", "", XML)
    left_out = parse_common_ocean(own_only, "x").left_out
    assert left_out["changes of speed"] == left_out["turns of tracks"] == 1


LARGE_BOX = """<rectangle><length>400</length><width>100</width><orientation>0.5</orientation>
  <center><x>2000</x><y>500</y></center></rectangle>"""


def test_shallows_and_polygons_of_common_ocean_become_shores(tmp_path):
    """Also those that overlap; land is on their left, whatever the order of corners, and scaled as the rest."""
    text = XML.replace(BOX, LARGE_BOX).replace('<waters id="1"/>', SHALLOW)
    situation = read_content(written(tmp_path, "one.xml", text))
    assert "shallow" not in situation.left_out and "other shapes" not in situation.left_out
    with pytest.warns(UserWarning, match="1 further goal states$"):
        (episode,) = read_scenarios(tmp_path / "one.xml")
    lengths, _ = similarity_factors(situation, WorldConfig())
    places = [(1700.0, -450.0), (2150.0, -580.0), (1950.0, -450.0), (1000.0, -450.0), (2150.0, -400.0)]
    distances = signed_distance(
        np.array([[lengths * x + episode.start[0][0], lengths * y + episode.start[0][1]] for x, y in places]),
        np.array(episode.shores),
    )
    assert (distances < 0.0).tolist() == [True, True, True, False, False]
    assert distances[3] == pytest.approx(-lengths * -500.0, abs=0.05)
    env = MarineNavEnv(scenarios=[episode], seed=0)
    assert env.scenario.shores is not None and env.reset() is not None


def test_vessels_of_common_ocean_that_appear_later_start_where_they_would_have_been():
    before, after = XML.split("<dynamicObstacle")
    for number, later in ((2, 32), (1, 31), (0, 30)):
        after = after.replace(f"<exact>{number}</exact></time>", f"<exact>{later}</exact></time>", 1)
    for speed in ("<velocity><exact>5.0</exact></velocity>", ""):
        text = f"{before}<dynamicObstacle{after}".replace(
            "<velocity><exact>5.0</exact></velocity></initialState>\n    <tr", f"{speed}</initialState>\n    <tr"
        )
        own, other = parse_common_ocean(text, "x").ships
        assert (own.position, other.speed) == ((0.0, 0.0), 5.0)
        assert other.position == pytest.approx((1000.0, 1000.0 + 5.0 * 300.0))


def test_tracks_of_common_ocean_are_followed_where_they_turn_or_change_their_speed():
    steady, bend = XML.replace("5.5", "5.0"), "<intervalStart>0.8</intervalStart><intervalEnd>1.0</intervalEnd>"
    texts = [text.replace(bend, course) for text in (XML, steady) for course in (bend, "<exact>1.5708</exact>")]
    assert [len(parse_common_ocean(text, "x").ships[1].track) for text in texts] == [2, 2, 2, 0]
    # A track may begin with the initial state, and state its speed there alone.
    first = "<exact>1</exact></time>", "<exact>0</exact></time><velocity><exact>4.0</exact></velocity>"
    repeated = XML.replace("<velocity><exact>5.0</exact></velocity></initialState>\n    <tr", "</initialState><tr")
    assert parse_common_ocean(repeated.replace(*first), "x").ships[1].speed == 4.0


def test_an_encoding_that_is_stated_does_not_count():
    root = parse_xml('<?xml version="1.0" encoding="latin-1"?><a name="Trøndelag"/>', "x")
    assert root.value.get("name") == "Trøndelag"


# Files and folders ------------------------------------------------------------------------------


def test_a_folder_is_read_by_name_whatever_its_files_are(tmp_path):
    written(tmp_path, "2.json", GENERATED)
    written(tmp_path, "3.xml", XML)
    write_scenarios(tmp_path / "1.json", [simple_episode([(1.0, 1.0, 0.0)], [[20.0, 1.0]])])
    written(tmp_path, "LICENSE", "MIT")
    written(tmp_path, "README.md", "no scenario")
    with pytest.warns(UserWarning, match="left out 1 "):
        first, second, third = read_scenarios(tmp_path)
        env = MarineNavEnv(scenarios=tmp_path)
    assert (first.start, len(second.start), len(third.start)) == ([[1.0, 1.0]], 3, 2)
    assert env.num_envs == 3 and env.reset() is not None


def test_a_world_reads_situations_for_its_own_vessels():
    world = scaled_world("otter")
    env = MarineNavEnv(world, scenarios=SAMPLES / "dnv_generated.json")
    (episode,) = read_scenarios(SAMPLES / "dnv_generated.json", world=world)
    assert env.state.pose[0, :, :2].tolist() == [pytest.approx(start[:2]) for start in episode.start]
    with pytest.raises(ConfigError, match="config='otter': must be a WorldConfig"):
        MarineNavEnv("otter", scenarios=SAMPLES / "dnv_generated.json")


def test_the_package_holds_both_sets_with_their_licences():
    assert (len(packaged_situations("dnv")), len(packaged_situations("imazu_ntnu"))) == (55, 22)
    assert not any(situation.left_out for name in ("dnv", "imazu_ntnu") for situation in packaged_situations(name))
    assert parse_dnv(GENERATED, "x").ships == packaged_situations("dnv")[6].ships
    for name, owner in (("dnv", "DNV"), ("imazu_ntnu", "NTNU TTO")):
        content = json.loads((DATA_FOLDER / f"{name}.json").read_text())
        assert "Permission is hereby granted" in content["license"] and owner in content["license"]
        assert content["commit"] and content["source"].startswith("https://github.com/")
    settings = (Path(__file__).parents[3] / "setup.cfg").read_text()
    assert "marinenav_env.scenarios =\n    data/*" in settings  # a wheel has them
