"""Scenario files: reading, writing, and what is refused with which words."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from marinenav_env import ConfigError, read_scenarios, write_scenarios
from marinenav_env.config import ActuatorConfig, ScenarioConfig, SensorConfig, VesselConfig, WorldConfig
from marinenav_env.levels import Level
from marinenav_env.scenarios import scenario_file
from marinenav_env.scenarios.scenario import ScenarioSampler
from marinenav_env.scenarios.scenario_file import (
    Episode,
    episodes_from_scenarios,
    parse_scenarios,
    stack_episodes,
)
from marinenav_env.vessels import read_vessel, vessel_files
from tests.marinenav_env.helpers import CPU, DATA, random_world, recorded_entry, recordings, simple_episode

RECORDED = DATA / "episodes.json"
Entry = dict[str, Any]


def test_reads_what_the_recordings_say() -> None:
    episodes = dict(zip(recordings(), read_scenarios(RECORDED), strict=True))
    for key, episode in episodes.items():
        config = recordings()[key][0]["config"]
        env, robots = config["env"], config["robots"]
        assert episode.start == robots["start"] and episode.goal == robots["goal"]
        assert episode.heading == robots["init_theta"]
        assert episode.velocity == robots["init_velocity_r"]
        for ours, name in ((episode.thruster_angle, "pos"), (episode.thrust, "thrust")):
            for side, values in zip(("left", "right"), zip(*ours, strict=True), strict=True):
                assert list(values) == robots[f"init_{side}_{name}"]
        assert [o[:2] for o in episode.obstacles] == env["obstacles"]["positions"]
        assert [o[2] for o in episode.obstacles] == env["obstacles"]["r"]
        assert [core[:2] for core in episode.cores] == env["cores"]["positions"]
        signs = [1 if turn else -1 for turn in env["cores"]["clockwise"]]
        gammas = [s * g for s, g in zip(signs, env["cores"]["Gamma"], strict=True)]
        assert [core[2] for core in episode.cores] == gammas
        assert (episode.world.dt, episode.world.substeps, episode.seed) == (0.05, 10, env["seed"])
        for config_, given, other in (
            (
                episode.world.vessel,
                robots,
                {"radius": "r", "detect_radius": "detect_r", "goal_distance": "goal_dis"},
            ),
            (episode.world.sensor, robots["perception"], {"max_objects": "max_obj_num"}),
            (episode.world.reward, env, {}),
            (episode.world.scenario, env, {"core_radius": "r"}),
        ):
            compared = 0
            for name, value in vars(config_).items():
                theirs = given.get(other.get(name, name))
                if theirs is not None and not name.endswith("thrust_change"):
                    assert value == (tuple(theirs) if isinstance(theirs, list) else theirs), name
                    compared += 1
            assert compared >= 4
        assert list(episode.world.vessel.left_thrust_change) == robots["left_thrust_change"][0]


def assert_same_world(first: list[Episode], second: list[Episode]) -> None:
    """Equal tensors."""
    for a, b in zip(stack_episodes(first, CPU, torch.float64), stack_episodes(second, CPU, torch.float64), strict=True):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b)
            continue
        for name, value in a.items(True, True):
            assert torch.equal(value.expand(b.get(name).shape), b.get(name)), name


@pytest.mark.filterwarnings("ignore:.* episodes with ")
@pytest.mark.parametrize("kind", ["recorded", "random"])
def test_what_is_written_reads_back_the_same(kind: str, tmp_path: Path) -> None:
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
def test_boats_with_actuators_read_back_the_same(boat: str, tmp_path: Path) -> None:
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


def test_values_shared_by_all_robots_are_written_for_each(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.json"
    episode = simple_episode([(1.0, 2.0, 3.0), (5.0, 6.0, 2.0)], [(9.0, 9.0), (8.0, 8.0)])
    write_scenarios(path, [episode])
    robots = json.loads(path.read_text())[0]["robots"]
    assert robots["m"] == [400.0, 400.0] and robots["N"] == [10, 10]
    assert robots["perception"]["max_obj_num"] == [5, 5]
    assert_same_world([episode], read_scenarios(path))


@pytest.mark.parametrize("episodes", [[], 3, ["one"]])
def test_what_cannot_be_read_back_is_not_written(episodes: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^episodes=.*: must be a list of one Episode or more$"):
        write_scenarios(tmp_path / "none.json", episodes)
    assert not any(tmp_path.iterdir())


def test_an_episode_made_by_hand_equals_the_one_that_is_read_back(tmp_path: Path) -> None:
    made = Episode([[1, 2]], [[30, 40]], [0.0], [[0.0] * 3], [[0.0] * 2], [[0.0] * 2])
    write_scenarios(tmp_path / "one.json", [made])
    (read,) = read_scenarios(tmp_path / "one.json")
    assert read == made and made != "an episode"
    assert read.world.vessel.radius != made.world.vessel.radius  # one of each robot, and of all
    assert read != replace(made, goal=[[30, 41]])
    assert read != replace(made, world=WorldConfig(vessel=VesselConfig(radius=0.9)))
    assert read != replace(made, world=WorldConfig(dt=0.1))
    fewer = VesselConfig(left_thrust_change=(0.0, 500.0))
    assert read != replace(made, world=WorldConfig(vessel=fewer))
    empty = replace(made, start=[])
    assert empty == empty != made
    with pytest.raises(TypeError, match="unhashable type: 'Episode'"):
        hash(made)


def test_the_format_is_that_of_the_recordings(tmp_path: Path) -> None:
    """Nothing that other readers look for is left out."""
    path = tmp_path / "scenarios.json"
    write_scenarios(path, read_scenarios(RECORDED))

    def keys(value: Any, prefix: str = "") -> set[str]:
        if not isinstance(value, dict):
            return {prefix}
        return set().union(*(keys(v, f"{prefix}.{k}") for k, v in value.items()))

    written, recorded = json.loads(path.read_text()), list(recordings().values())
    for ours, (theirs, _) in zip(written, recorded, strict=True):
        assert keys(theirs["config"]) <= keys(ours)
        # Penalties that only training knows are no part of an episode.
        more = keys(ours) - keys(theirs["config"])
        assert not [key for key in more if key.endswith("_penalty")]
        assert ours["robots"]["start"] == theirs["config"]["robots"]["start"]
        assert len(ours["robots"]["nVR"]) == theirs["num_robots"]


def test_drawn_scenarios_can_be_written(tmp_path: Path) -> None:
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
    assert [episode.world.vessel.m for episode in again] == [
        (401.0, 402.0),
        (401, 402, 403, 404),
        (401, 402),
    ]
    assert {(episode.world.dt, episode.seed) for episode in again} == {(0.1, 7)}
    tensors, _, _ = stack_episodes(again, CPU, torch.float64)
    for name in (
        "start",
        "goal",
        "robot_mask",
        "obstacle_position",
        "obstacle_radius",
        "obstacle_mask",
        "core_position",
        "core_circulation",
    ):
        assert torch.equal(tensors.get(name), scenarios.get(name)), name
    mask = scenarios.robot_mask
    assert torch.equal(tensors.heading[mask], scenarios.heading[mask])


def test_unknown_keys_are_named_and_left_out() -> None:
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


def test_one_episode_may_stand_alone(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    for content in (recorded_entry(), {"key": "x", "config": recorded_entry()}):
        path.write_text(json.dumps(content))
        assert read_scenarios(path) == parse_scenarios([recorded_entry()])
    path.write_text('{"env": {}}')
    with pytest.raises(ConfigError, match=r"one\.json\[0\]: the key 'robots' is missing"):
        read_scenarios(path)


def test_episodes_with_the_same_world_are_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of thousands is read and stacked in seconds."""
    other = recorded_entry()
    other["robots"]["m"] = [401.0] * 6
    episodes = parse_scenarios([recorded_entry(), recorded_entry(), other])
    first, second, third = (each.world for each in episodes)
    assert first is second and third.vessel.m == (401.0,) * 6
    assert first.sensor is third.sensor
    made = []
    whole = scenario_file.replace
    monkeypatch.setattr(scenario_file, "replace", lambda *a, **b: made.append(a) or whole(*a, **b))
    stack_episodes(episodes, CPU, torch.float64)
    assert len(made) == 2 * 3  # a world, its vessel and its sensor


def test_stacking_pads_to_the_largest() -> None:
    world = random_world(0, [(2, 0, 3), (4, 2, 0), (1, 1, 1)])
    scenario, parameters = world.scenario, world.parameters
    assert scenario.robot_mask.sum(-1).tolist() == [2, 4, 1]
    assert scenario.obstacle_mask.tolist() == [[False] * 2, [True] * 2, [True, False]]
    assert (scenario.core_circulation != 0.0).sum(-1).tolist() == [3, 0, 1]
    for e, episode in enumerate(world.episodes):
        count = len(episode.start)
        assert scenario.start[e, :count].tolist() == episode.start
        assert not scenario.start[e, count:].any()
        assert parameters.vessel.m[e, :count].tolist() == list(episode.world.vessel.m)
        assert parameters.sensor.max_objects[e, :count].tolist() == list(episode.world.sensor.max_objects)
        assert parameters.rules.goal_reward[e] == episode.world.reward.goal_reward
        assert parameters.rules.core_radius[e] == episode.world.scenario.core_radius


def test_behaviours_are_kept_and_files_without_them_have_no_such_keys(tmp_path: Path) -> None:
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


def test_vessels_that_keep_on_are_written_too() -> None:
    level = Level(3, 0, 0, 0.0, encounter=True, traffic=1.0)
    sampler = ScenarioSampler(ScenarioConfig(), (level,), CPU, torch.float64)
    drawn = sampler.sample(torch.zeros(2).long(), torch.Generator().manual_seed(0))
    (first, _) = episodes_from_scenarios(drawn, WorldConfig())
    assert first.behaviour == ["", "keep", "keep"] and first.onset == [0.0] * 3
