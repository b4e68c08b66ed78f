"""A boat by name among the settings."""

import json
from dataclasses import replace

import pytest

from marinenav_env import ConfigError, WorldConfig, read_vessel, scaled_world
from marinenav_env.config import ColregsConfig
from marinenav_env.rules.profiles import with_profile
from marinenav_env.vessels import vessel_files
from train_RL_agents.config.reading import apply_overrides, from_dict, load_config, to_dict
from train_RL_agents.utils.shipped import shipped_paths


def world_of(*words, path=None):
    return load_config(path, words).world


@pytest.mark.parametrize("name", vessel_files())
def test_the_world_of_a_boat_follows_from_its_name(name):
    assert world_of(f"world.vessel={name}") == scaled_world(name)


def test_the_published_boat_changes_nothing():
    assert load_config(None, ["world.vessel=published"]) == load_config(None)
    assert load_config(None, {"world.vessel": None}) == load_config(None)


def test_further_numbers_are_laid_over_those_of_the_boat_and_count_for_its_size():
    world = world_of("world.vessel=otter", "world.vessel.m=90", "world.vessel.actuators.lag=0.5")
    otter = read_vessel("otter")
    assert (world.vessel.m, world.vessel.actuators.lag, world.vessel.Izz) == (90.0, 0.5, otter.Izz)
    longer = world_of("world.vessel.length=4", "world.vessel=otter")
    assert (longer.vessel.goal_distance, longer.sensor.range, longer.scenario.scale) == (1.6, 21.1, 0.8)


def test_what_is_stated_is_not_derived():
    world = world_of("world.vessel=otter", "world.sensor.range=13", "world.vessel.radius=2", "world.dt=0.05")
    assert (world.sensor.range, world.vessel.radius, world.dt) == (13.0, 2.0, 0.05)
    assert world.colregs.domain == 3.2


def test_levels_that_are_not_stated_are_scaled():
    config = load_config(None, ["world.vessel=otter"])
    for schedule in (config.training_schedule, config.eval_schedule):
        assert [level.min_start_goal_dis for level in schedule.levels] == [12.0, 14.0, 16.0, 16.0, 16.0, 16.0]
    stated = {
        "world.vessel": "otter",
        "training_schedule.levels": [
            {"like": "crowd"},
            {"like": "crowd", "min_start_goal_dis": 9},
            {"num_robots": 2},
            {"num_robots": 2, "min_start_goal_dis": 11},
        ],
        "eval_schedule.num_robots": [2] * 6,
    }
    config = load_config(None, stated)
    sizes = [(level.min_start_goal_dis, level.map_size) for level in config.training_schedule.levels]
    assert sizes == [(16.0, 24.0), (9.0, 24.0), (16.0, 0.0), (11.0, 0.0)]
    assert [level.min_start_goal_dis for level in config.eval_schedule.levels] == [12.0, 14.0, 16.0, 16.0, 16.0, 16.0]


def test_a_boat_takes_the_place_of_the_vessel_of_a_file(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"world": {"vessel": {"m": 500.0}, "sensor": {"max_objects": 8}}}))
    world = world_of("world.vessel=otter", path=file)
    assert world.vessel == read_vessel("otter") and world.sensor.max_objects == 8
    file.write_text(json.dumps({"world.vessel": "otter", "world.vessel.m": 70.0}))
    assert world_of(path=file).vessel.m == 70.0
    assert world_of("world.vessel.m=75", path=file).vessel.m == 75.0
    assert world_of("world.vessel=wamv", path=file).vessel == read_vessel("wamv")


def test_a_file_of_a_boat(tmp_path):
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads(vessel_files()["otter"].read_text()) | {"name": "mine"}))
    assert world_of(f"world.vessel={file}").vessel.name == "mine"


def test_saved_configurations_keep_the_boat():
    config = load_config(None, ["world.vessel=otter", "world.vessel.m=90"])
    again = apply_overrides(config, {})
    assert again == config and "otter" in json.dumps(to_dict(config))
    other = apply_overrides(config, ["world.vessel=wamv"])
    assert other.world == scaled_world("wamv")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["world.vessel=otters"], r"world.vessel='otters': must be a JSON file or one of published, cybership2"),
        (["world.vessel=nowhere.json"], r"nowhere.json: cannot be read as a vessel file"),
        (["world.vessel=otter", "world.vessel.m=-1"], r"world.vessel.m=-1: must be above 0"),
        (["world.vessel=otter", "world.vessel.mass=1"], r"world.vessel.mass='1': there is no such setting"),
        (["world.vessel=otter", "world.vessel.actuators.lag=x"], r"world.vessel.actuators.lag='x': must be"),
        ({"world.vessel": 3}, r"world\.vessel=3: must be the name or the file of a boat"),
    ],
)
def test_boats_that_cannot_be_used_are_refused_in_one_sentence(words, sentence):
    with pytest.raises(ConfigError, match=sentence):
        load_config(None, words)


def test_vessel_files_are_no_configurations():
    assert not [name for name in shipped_paths("configs") if "vessel" in name or name in vessel_files()]
    assert world_of() == WorldConfig()


def test_a_profile_sets_what_is_not_stated_beside_it():
    rules = from_dict({"world": {"colregs": {"profile": "tum", "confirm": 1.5}}}).world.colregs
    assert (rules.profile, rules.confirm, rules.act_within, rules.domain) == ("tum", 1.5, 6.0, 10.0)
    assert rules.head_on_x == ColregsConfig().head_on_x, "zones of the published reward stay"
    restored = from_dict(to_dict(from_dict({"world.colregs.profile": "moos"})))
    assert restored.world.colregs == with_profile(ColregsConfig(), "moos")
    changed = apply_overrides(restored, ["world.colregs.profile=tum", "world.colregs.confirm=2"]).world.colregs
    assert changed == replace(with_profile(ColregsConfig(), "tum"), confirm=2.0)
    assert apply_overrides(restored, ["world.colregs.profile=default"]).world.colregs == ColregsConfig()
    boat = from_dict({"world.vessel": "otter", "world.colregs.profile": "tum"}).world
    assert boat.colregs.domain == pytest.approx(10.0 * boat.scenario.scale)
    assert boat.colregs.confirm == pytest.approx(3.0 * boat.scenario.time_scale)
    with pytest.raises(ConfigError, match=r"world\.colregs\.profile"):
        from_dict({"world.colregs.profile": "other"})
