"""Scenario files: reading, writing, and what is refused with which words."""

import json
from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError, read_scenarios, write_scenarios
from marinenav_env.config import ActuatorConfig, ScenarioConfig, SensorConfig, VesselConfig, WorldConfig
from marinenav_env.levels import Level
from marinenav_env.scenarios.episode import Episode, episodes_from_scenarios, stack_episodes
from marinenav_env.scenarios.scenario import ScenarioSampler
from marinenav_env.scenarios.scenario_file import parse_scenarios
from marinenav_env.vessels import read_vessel, vessel_files
from tests.marinenav_env.helpers import CPU, DATA, random_world, recorded_entry, recordings, simple_episode

RECORDED = DATA / "episodes.json"


def assert_same_world(first, second):
    """Equal tensors."""
    for a, b in zip(stack_episodes(first, CPU, torch.float64), stack_episodes(second, CPU, torch.float64), strict=True):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b)
            continue
        for name, value in a.items(True, True):
            assert torch.equal(value.expand(b.get(name).shape), b.get(name)), name


@pytest.mark.filterwarnings("ignore:.* episodes with ")
@pytest.mark.parametrize("kind", ["recorded", "random"])
def test_what_is_written_reads_back_the_same(kind, tmp_path):
    path = tmp_path / "scenarios.json"
    sizes = [(5, 3, 2), (1, 0, 0), (3, 2, 0)]
    recorded = kind == "recorded"
    episodes = read_scenarios(RECORDED) if recorded else random_world(0, sizes).episodes
    write_scenarios(path, episodes)
    again = read_scenarios(str(path))
    assert_same_world(episodes, again)
    # The format has no place for one number that all robots share.
    vessels = [replace(e.world.vessel, max_thrust_rate=(1000.0,) * len(e.start)) for e in episodes]
    spread = [replace(e, world=replace(e.world, vessel=vessel)) for e, vessel in zip(episodes, vessels, strict=True)]
    assert again == spread
    write_scenarios(path, again)
    assert read_scenarios(path) == again


@pytest.mark.parametrize("boat", [*vessel_files(), "a fleet"])
def test_boats_with_actuators_read_back_the_same(boat, tmp_path):
    fleet = VesselConfig(nUV=(1.0, 2.0), actuators=ActuatorConfig(steering=("rudder", "azimuth"), lag=(0.1, 0.2)))
    vessel = fleet if boat == "a fleet" else read_vessel(boat)
    simple = simple_episode([(1.0, 2.0, 3.0), (25.0, 26.0, 6.0)], [(9.0, 9.0), (8.0, 8.0)])
    episode = replace(simple, world=replace(simple.world, vessel=vessel))
    write_scenarios(tmp_path / "boats.json", [episode])
    (again,) = read_scenarios(tmp_path / "boats.json")
    assert again == episode and again.world.vessel.name == vessel.name
    assert again != replace(simple, world=replace(simple.world, vessel=replace(vessel, xUUU=-9.0)))
    other = replace(vessel, actuators=replace(vessel.actuators, lag=9.0))
    assert again != replace(simple, world=replace(simple.world, vessel=other))
    assert_same_world([episode], [again])
    assert len(stack_episodes([again, again], CPU, torch.float64)[1].extras.steering[0]) == 2


@pytest.mark.parametrize("episodes", [[], 3, ["one"]])
def test_what_cannot_be_read_back_is_not_written(episodes, tmp_path):
    with pytest.raises(ConfigError, match=r"^episodes=.*: must be a list of one Episode or more$"):
        write_scenarios(tmp_path / "none.json", episodes)
    assert not any(tmp_path.iterdir())


def test_an_episode_made_by_hand_equals_the_one_that_is_read_back(tmp_path):
    built = Episode([[1, 2]], [[30, 40]], [0.0], [[0.0] * 3], [[0.0] * 2], [[0.0] * 2])
    write_scenarios(tmp_path / "one.json", [built])
    (read,) = read_scenarios(tmp_path / "one.json")
    assert read == built and built != "an episode"
    assert read.world.vessel.radius != built.world.vessel.radius  # one of each robot, and of all
    assert read != replace(built, goal=[[30, 41]])
    assert read != replace(built, world=WorldConfig(vessel=VesselConfig(radius=0.9)))
    assert read != replace(built, world=WorldConfig(dt=0.1))
    fewer = VesselConfig(left_thrust_change=(0.0, 500.0))
    assert read != replace(built, world=WorldConfig(vessel=fewer))
    empty = replace(built, start=[])
    assert empty == empty != built
    with pytest.raises(TypeError, match="unhashable type: 'Episode'"):
        hash(built)


def test_the_format_is_that_of_the_recordings(tmp_path):
    """Nothing that other readers look for is left out."""
    path = tmp_path / "scenarios.json"
    write_scenarios(path, read_scenarios(RECORDED))

    def keys(value, prefix=""):
        if not isinstance(value, dict):
            return {prefix}
        return set().union(*(keys(v, f"{prefix}.{k}") for k, v in value.items()))

    written, recorded = json.loads(path.read_text()), list(recordings().values())
    for actual, (expected, _) in zip(written, recorded, strict=True):
        assert keys(expected["config"]) <= keys(actual)
        # Penalties that only training knows are no part of an episode.
        more = keys(actual) - keys(expected["config"])
        assert not [key for key in more if key.endswith("_penalty")]
        assert actual["robots"]["start"] == expected["config"]["robots"]["start"]
        assert len(actual["robots"]["nVR"]) == expected["num_robots"]


def test_drawn_scenarios_can_be_written(tmp_path):
    levels = (Level(2, 0, 1, 30.0), Level(4, 3, 2, 30.0))
    config = WorldConfig(
        vessel=VesselConfig(m=(401.0, 402.0, 403.0, 404.0)),
        sensor=SensorConfig(max_objects=(3, 4, 5, 6)),
        scenario=ScenarioConfig(obs_r_range=(0.5, 1.5)),
        dt=0.1,
    )
    sampler = ScenarioSampler(config.scenario, levels, CPU, torch.float64)
    scenarios = sampler.sample(torch.tensor([0, 1, 0]), torch.Generator().manual_seed(0))
    episodes = episodes_from_scenarios(scenarios, config, seed=7)
    assert [len(episode.start) for episode in episodes] == [2, 4, 2]
    path = tmp_path / "scenarios.json"
    write_scenarios(path, episodes)
    again = read_scenarios(path)
    assert_same_world(episodes, again)
    assert [episode.world.vessel.m for episode in again] == [(401.0, 402.0), (401, 402, 403, 404), (401, 402)]
    assert {(episode.world.dt, episode.seed) for episode in again} == {(0.1, 7)}
    tensors, _, _ = stack_episodes(again, CPU, torch.float64)
    for name in ("start", "goal", "robot_mask", "obstacle_position", "obstacle_radius", "core_position"):
        assert torch.equal(tensors.get(name), scenarios.get(name)), name


def test_unknown_keys_are_named_and_left_out():
    given = recorded_entry()
    expected = parse_scenarios([given])
    given["env"]["tides"] = [1, 2]
    given["robots"]["colour"] = "red"  # not even one for each robot
    given["robots"]["trajectory"] = [[]] * 6
    given["robots"]["perception"]["sonar"] = 3
    with pytest.warns(UserWarning) as caught:
        got = parse_scenarios([given, given], "them.json")
    assert [str(w.message) for w in caught] == [
        "them.json: left out unknown keys "
        "['env.tides', 'robots.colour', 'robots.perception.sonar', 'robots.trajectory']"
    ]
    assert got == expected * 2


def test_one_episode_may_stand_alone(tmp_path):
    path = tmp_path / "one.json"
    for content in (recorded_entry(), {"key": "x", "config": recorded_entry()}):
        path.write_text(json.dumps(content))
        assert read_scenarios(path) == parse_scenarios([recorded_entry()])
    path.write_text('{"env": {}}')
    with pytest.raises(ConfigError, match=r"one\.json\[0\]: the key 'robots' is missing"):
        read_scenarios(path)


def test_behaviours_are_kept_and_files_without_them_have_no_such_keys(tmp_path):
    one = simple_episode([(0.0, 0.0, 0.0), (9.0, 0.0, 0.0)], [(30.0, 0.0), (40.0, 0.0)])
    two = replace(one, behaviour=["", "lose_left"], onset=[0.0, 2.5])
    write_scenarios(tmp_path / "two.json", [one, two])
    robots = [entry["robots"] for entry in json.loads((tmp_path / "two.json").read_text())]
    assert not {"behaviour", "onset"} & robots[0].keys() and robots[1]["behaviour"] == ["", "lose_left"]
    again = read_scenarios(tmp_path / "two.json")
    assert again == [one, two] and again[0] != again[1]
    scenario, _, _ = stack_episodes(again, CPU, torch.float64)
    assert scenario.scripted is not None and scenario.behaviour is not None and scenario.onset is not None
    assert scenario.scripted.tolist() == [[False, False], [False, True]]
    assert scenario.behaviour.tolist() == [[0, 0], [0, 5]] and scenario.onset.tolist() == [[0.0, 0.0], [0.0, 2.5]]
    assert stack_episodes([one], CPU, torch.float64)[0].scripted is None
    assert episodes_from_scenarios(scenario, one.world)[1].behaviour == two.behaviour
