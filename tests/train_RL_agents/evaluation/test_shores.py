"""Policies in waters with shores: what evaluations count, record and judge, and how baselines see land."""

from dataclasses import replace

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.physics.shores import ABSENT_SHORE
from tests.marinenav_env.helpers import simple_episode
from train_RL_agents.evaluation.judging.seamanship import judge
from train_RL_agents.evaluation.judging.shield import Shield
from train_RL_agents.evaluation.running import recording as recordings
from train_RL_agents.evaluation.running.baselines import BASELINES
from train_RL_agents.evaluation.running.classical import with_shores
from train_RL_agents.evaluation.running.episodes import run_episodes
from train_RL_agents.evaluation.running.steps import StepShare
from train_RL_agents.evaluation.suites.frozen import FROZEN_SEED, scenario_hash
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.figures.episode_view import reward_terms
from train_RL_agents.utils.rows import Episodes

WORLD = WorldConfig(max_steps=45, dt=0.25, substeps=2)
WALL = [[30.0, 0.0, 30.0, 60.0], [30.0, 60.0, 30.0, 0.0]]
"""A wall from west to east."""
HASH = "f475c6c72edce4e03dd47be013e11341"
"""Hash of the suite, whose change has to be noticed."""


def scenes(shores=WALL):
    """A vessel whose stated route leads through a wall, one on its own side of it, and two that meet beside it."""
    ends = [((10.0, 20.0, 0.0), (50.0, 20.0)), ((10.0, 20.0, 0.0), (10.0, 40.0))]
    alone = [simple_episode([start], [goal]) for start, goal in ends]
    return [replace(each, shores=shores, route=[[]], world=replace(each.world, max_steps=45)) for each in alone]


def test_groundings_are_counted_apart_from_collisions():
    episodes = run_episodes(BASELINES["straight"](WORLD), scenes(), WORLD)
    assert episodes.grounding.tolist() == [True, False]
    assert episodes.success.tolist() == [False, True]
    report = episodes.report() | episodes.exposure()
    assert (report["grounding_rate"], report["collision_rate"], report["timeout_rate"]) == (0.5, 0.0, 0.0)
    assert (report["groundings"], report["collisions"]) == (1, 0)
    assert report["hours_per_grounding"] == pytest.approx(report["vessel_hours"])
    again = Episodes.from_state_dict(episodes.state_dict())
    assert torch.equal(again.grounding, episodes.grounding)
    open_water = run_episodes(BASELINES["straight"](WORLD), [replace(each, shores=[]) for each in scenes()], WORLD)
    assert open_water.grounding is None
    assert "grounding_rate" not in open_water.report()


def test_recordings_have_shores_routes_and_groundings(tmp_path):
    first, second = scenes()
    found = run_and_record([first, replace(second, route=[[[10.0, 30.0]]])])
    assert found.outcomes == ["grounding", "success"]
    assert found.shores[0, :2].tolist() == WALL
    assert (found.shores[0, 2:] == ABSENT_SHORE).all()
    assert found.routes[:, 0, -1].tolist() == [[50.0, 20.0], [10.0, 40.0]]
    recordings.save(found, tmp_path / "recording.npz")
    again = recordings.load(tmp_path / "recording.npz")
    assert torch.equal(again.grounded, found.grounded)
    assert again.routes[1, 0, 0].tolist() == [10.0, 30.0]
    is_near = torch.linalg.vector_norm(again.poses[:, 1, 0, :2] - again.routes[1, 0, 0], dim=-1) <= 5.0
    assert torch.equal(again.waypoint[:, 1, 0] > 0, is_near.cumsum(0) > 0)
    terms = reward_terms(recordings.episode_tensors(again, 1))
    last = int(again.steps[1])
    # Progress is along the route, so that the reward of the arrival is left.
    assert not terms["end"][:last].any() and terms["end"][last] == pytest.approx(10.0, abs=1e-3)
    wide = run_and_record([replace(each, shores=WALL * 10) for each in scenes()])
    joined = recordings.concatenate([found, wide])
    assert (joined.shores[0, 16:] == ABSENT_SHORE).all()


def run_and_record(episodes):
    """The recording of the baseline that steers straight."""
    return recordings.record(BASELINES["straight"](WORLD), episodes, WORLD, name="straight", groups=["", ""])[1]


@pytest.mark.parametrize("hidden", [True, False])
def test_vessels_that_land_hides_from_each_other_meet_nobody(hidden):
    """Both reach the wall together; without it they would meet."""
    pair = simple_episode([(17.0, 20.0, 0.0), (43.0, 20.0, 3.14159)], [(26.0, 20.0), (34.0, 20.0)])
    pair = replace(pair, velocity=[[1.5, 0.0, 0.0], [-1.5, 0.0, 0.0]], route=[[], []], shores=WALL if hidden else [])
    found = run_and_record([pair, pair])
    judged = judge(found)
    assert (len(judged.state.phase) == 0) == hidden


def test_room_for_shores_does_not_change_the_hash_of_open_water():
    sets = [
        ScenarioSet("s", ("g",), make_scenario_set("paper", replace(WORLD, scenario=area)).parts, 0)
        for area in (WORLD.scenario, replace(WORLD.scenario, shore_segments=64))
    ]
    assert scenario_hash(sets[0]) == scenario_hash(sets[1])


def test_the_shield_stops_a_vessel_that_would_run_aground():
    count, part = StepShare(), Part(WORLD, scenes())
    episodes = run_episodes(Shield(BASELINES["straight"](WORLD), WORLD, part, True, count), scenes(), WORLD)
    assert episodes.grounding.tolist() == [False, False] and episodes.success.tolist() == [False, True]
    assert 0.0 < count.value < 1.0


def test_baselines_see_the_nearest_points_of_shores_as_objects_at_rest():
    shore = torch.arange(14.0).reshape(1, 1, 2, 7)
    seen = {
        "self_state": torch.zeros(1, 1, 7),
        "objects_state": torch.ones(1, 1, 3, 5),
        "objects_mask": torch.ones(1, 1, 3, dtype=torch.bool),
        "shore": shore,
        "shore_mask": torch.tensor([[[True, False]]]),
    }
    more = with_shores(seen, 0.5)
    assert more["objects_state"][0, 0, 3:].tolist() == [[4.0, 5.0, 0.0, 0.0, 0.5], [11.0, 12.0, 0.0, 0.0, 0.5]]
    assert more["objects_mask"].tolist() == [[[True, True, True, True, False]]]
    del seen["shore"]
    assert with_shores(seen, 0.5) is seen


def test_the_suite_is_as_it_was():
    assert scenario_hash(make_scenario_set("harbours", WorldConfig(), 25, FROZEN_SEED)) == HASH
