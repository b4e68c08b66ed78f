"""Shores of a chart on board against the world's, and what the runtime does with them."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import Level
from marinenav_env.waters.generator import random_chart
from tests.train_RL_agents.boat.helpers import PATIENT, contract_of
from tests.train_RL_agents.boat.test_runtime import EXACT, decisions, network_of
from tests.train_RL_agents.exporting.helpers import make_policy
from train_RL_agents.boat.runtime import BoatError, Odometry, Pilot, Tracks

LAND = {"world.scenario.shore_segments": 64}
NORTHWARDS = Odometry(0.0, 20.0, 20.0, 0.5 * math.pi, 2.0, 0.0, 0.0)
GOAL = (20.0, 80.0)


@pytest.fixture
def chart(tmp_path):
    """The file of a chart with land to the north of 25 m."""
    content = {"name": "wall", "width": 100.0, "height": 60.0, "shores": [[25.0, 60.0, 25.0, 0.0]]}
    (tmp_path / "wall.json").write_text(json.dumps({"chart": content}))
    return str(tmp_path / "wall.json")


@pytest.mark.heavy
def test_shores_are_the_environments(tmp_path):
    file = tmp_path / "chart.json"
    random_chart(seed=10, size=160.0, kind="islands").save(file)
    policy = make_policy("DQN", **EXACT, **LAND)
    contract, network = contract_of(policy, tmp_path), network_of(policy)
    level, settings = Level(3, 0, 0, 60.0, maps=str(file)), replace(PATIENT, chart=str(file))
    pilots, seen = [[Pilot(contract, network, settings) for _ in range(3)] for _ in range(4)], 0
    for found, expected in decisions(policy, pilots, 12, level):
        for key, each in expected.items():
            np.testing.assert_allclose(found[key][0], each, rtol=0.0, atol=1e-9)
            seen += int(each.sum()) if key == "shore_mask" else 0
    assert seen > 100


@pytest.mark.parametrize("sees", [False, True])
def test_land_hides_objects_and_their_encounters_as_in_the_environment(tmp_path, sees):
    """A pier lies between the vessel and the first of two tracks, which it sees in the second step."""
    pier = [[50.0, 20.0, 50.0, 80.0], [50.0, 80.0, 50.0, 20.0]]
    (tmp_path / "pier.json").write_text(json.dumps({"chart": {"width": 100.0, "height": 100.0, "shores": pier}}))
    sensor = {"world.sensor.sees_through_land": sees, "world.sensor.duties": True}
    policy = make_policy("DQN", **EXACT, **LAND, **sensor)
    settings = replace(PATIENT, chart=str(tmp_path / "pier.json"))
    pilot = Pilot(contract_of(policy, tmp_path), network_of(policy), settings)
    tracks = Tracks(0.0, np.array([[50.0, 58.0, 0.0, -2.0, 2.0], [50.0, 45.0, 0.0, 0.0, 1.0]]), [1, 2])
    own = Odometry(0.0, 50.0, 40.0, 0.5 * math.pi, 0.0, 0.0, 0.0)
    found = pilot.inputs(own, tracks, GOAL)
    assert found["objects_mask"][0].sum() == 1 + sees and found["objects_state"][0, 0, 0] == pytest.approx(5.0)
    assert not pilot.command(0.0, own, tracks, GOAL).stop_reason
    beside = replace(tracks, objects=np.add(tracks.objects, [35.0, -1.0, 0.0, 0.0, 0.0]))
    duties = pilot.inputs(replace(own, x=85.0), beside, GOAL)["duties"][0, 1]
    assert duties[0] == 1.0 and duties[6] == pytest.approx(0.5 / 20.0 if sees else 0.0)  # head-on, and its age


def test_the_shield_keeps_clear_of_land(make_pilot, chart):
    """The network asks for full thrust, towards the land."""
    for file, is_shielded in (("", False), (chart, True)):
        pilot = make_pilot(settings=replace(PATIENT, shield=True, chart=file))
        command = pilot.command(0.0, NORTHWARDS, Tracks(0.0, []), GOAL)
        assert not command.stop_reason and command.is_shielded == is_shielded


def test_a_policy_that_observes_land_alone_steers(chart, tmp_path):
    contract = contract_of(policy := make_policy("IQN", **LAND, **{"agent.excluded": ["objects_state"]}), tmp_path)
    assert contract["inputs"][-1]["risk"] == "neutral"  # as it acts where it observes no objects
    pilot = Pilot(contract, network_of(policy), replace(PATIENT, chart=chart))
    assert not pilot.command(0.0, NORTHWARDS, Tracks(0.0, [[20.0, 24.0, 0.0, 0.0, 1.0]]), GOAL).stop_reason


def test_it_stops_where_land_is_not_known(make_pilot, chart):
    pilot = make_pilot(settings=replace(PATIENT, chart=chart))
    command = pilot.command(0.0, replace(NORTHWARDS, x=60.1), Tracks(0.0, []), GOAL)
    assert command.stop_reason == "the vessel is outside of the chart, at 60.1 m east and 20 m north"


@pytest.mark.parametrize(
    "text", ["", "[]", '{"chart": {}}', '{"chart": {"width": 9, "height": 9, "shores": [[1, 2, NaN, 4]]}}']
)
def test_what_is_no_chart_is_refused(make_pilot, tmp_path, text):
    (tmp_path / "chart.json").write_text(text)
    with pytest.raises(BoatError, match=r"^chart: .*chart\.json is no file of marinenav chart \(.*\)$"):
        make_pilot(settings=replace(PATIENT, chart=str(tmp_path / "chart.json")))


def test_a_policy_that_observes_shores_needs_a_chart(tmp_path):
    contract = contract_of(make_policy("DQN", **LAND), tmp_path)
    with pytest.raises(BoatError, match="chart: the policy observes shores, and none is named"):
        Pilot(contract, lambda inputs: np.array([24]), PATIENT)
