"""What is odd about given scenarios, and what is done about it."""

import warnings
from dataclasses import replace

import pytest
import torch

from marinenav_env import ConfigError, Level, WorldConfig, read_scenarios, scaled_world, write_scenarios
from marinenav_env.config import VesselConfig
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.scenarios.plausibility import (
    ANGLE_IN_DEGREES,
    CURRENT_TOO_FAST,
    GOAL_IN_OBSTACLE,
    GOAL_OFF_MAP,
    GOAL_OUT_OF_REACH,
    ROUTE_OVER_LAND,
    START_IN_CONTACT,
    START_OFF_MAP,
    START_ON_OBSTACLE,
    THRUST_BEYOND_LIMITS,
    TOO_FAST,
    count_implausible_starts,
)
from marinenav_env.scenarios.scenario import ScenarioSampler
from tests.marinenav_env.helpers import CPU, DATA, simple_episode

POSE, GOAL = (10.0, 10.0, 0.0), (40.0, 45.0)


def with_hulls(episode, *radius):
    vessel = VesselConfig(radius=radius, detect_radius=radius)
    return replace(episode, world=replace(episode.world, vessel=vessel))


def in_world(episode, world):
    return replace(episode, world=world)


CASES = {
    "as it should be": (simple_episode([POSE], [GOAL], [(20.0, 20.0, 1.0)]), {}),
    "goal in an obstacle": (simple_episode([POSE], [GOAL], [(40.5, 45.0, 1.0)]), {GOAL_IN_OBSTACLE: 1}),
    "around land, and over it": (
        replace(simple_episode([POSE, (30.0, 5.0, 0.0)], [GOAL, (30.0, 40.0)]),
                shores=[[20.0, 15.0, 20.0, 25.0]], route=[[[30.0, 12.0]], [[15.0, 20.0]]]), {ROUTE_OVER_LAND: 1}),
    "a long way": (replace(simple_episode([POSE], [GOAL]), route=[[[2000.0, 0.0]]]), {GOAL_OUT_OF_REACH: 1}),
    "goal beside it": (simple_episode([POSE], [GOAL], [(41.0, 45.0, 1.0)]), {}),
    "start on an obstacle": (simple_episode([POSE], [GOAL], [(13.75, 10.0, 1.0)]), {START_ON_OBSTACLE: 1}),
    "off the map on a track": (
        replace(simple_episode([POSE, (-9.0, 10.0, 0.0)], [GOAL, (20.0, 99.0)]), behaviour=["", "track"],
                onset=[0.0, 0.0], track=[[], [[0.0, -9.0, 10.0], [9.0, 20.0, 10.0]]]), {}),
    "start beside it": (simple_episode([POSE], [GOAL], [(13.85, 10.0, 1.0)]), {}),
    "in contact": (
        simple_episode([POSE, (15.5, 10.0, 0.0), (40.0, 5.0, 0.0)], [GOAL, (5, 40), (5, 5)]), {START_IN_CONTACT: 2}),
    "small hulls": (with_hulls(simple_episode([POSE, (15.5, 10.0, 0.0)], [GOAL, (5, 40)]), 2.8, 2.6), {}),
    "off the map": (
        simple_episode([(-0.1, 10, 0.0), (10.0, 55.5, 0.0)], [(40, 56), (5, 5)]), {START_OFF_MAP: 2, GOAL_OFF_MAP: 1}),
    "on its edge": (simple_episode([(0.0, 55.0, 0.0)], [(55.0, 20.0)]), {}),
    "an encounter from outside": (simple_episode([(-10.0, 28.0, 0.0), (27.5, 60.0, 0.0)], [(45, 27), (28, 5)]), {}),
    "one of them passes aside": (
        simple_episode([(-10.0, 28.0, 0.0), (32.0, 60.0, 0.0)], [(45, 27), (32, 5)]), {START_OFF_MAP: 2}),
    "the same with a boat of a quarter of the length": (
        in_world(simple_episode([(-1.0, 8.0, 0.0)], [(12.0, 8.0)]), scaled_world("cybership2")), {START_OFF_MAP: 1}
    ),
    "other units": (
        replace(simple_episode([(*POSE[:2], 90.0)], [GOAL]), velocity=[[100.0, 0.0, 0.0]], thrust=[[1e5, 0.0]],
                cores=[[30.0, 30.0, 1e6]]),
        {ANGLE_IN_DEGREES: 1, TOO_FAST: 1, THRUST_BEYOND_LIMITS: 1, CURRENT_TOO_FAST: 1},
    ),
    "a fast turn": (replace(simple_episode([POSE], [GOAL]), velocity=[[0.0, 0.0, 90.0]]), {ANGLE_IN_DEGREES: 1}),
    "a way that ends before the centre": (simple_episode([(-10.0, 27.5, 0.0)], [(20.0, 27.5)]), {START_OFF_MAP: 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_odd_is_counted_by_kind(name):
    episode, expected = CASES[name]
    assert count_implausible_starts(episode) == expected


@pytest.mark.heavy
@pytest.mark.parametrize("config", [WorldConfig(), scaled_world("cybership2")], ids=["published", "cybership2"])
def test_encounters_that_are_drawn_are_not_odd(config):
    levels = (Level(4, 0, 0, 0.0, encounter=True), Level(6, 0, 0, 0.0, encounter=True, traffic=0.5))
    sampler = ScenarioSampler(config.scenario, levels, CPU, torch.float64)
    drawn = sampler.sample(torch.arange(200) % 2, torch.Generator().manual_seed(0))
    assert (drawn.start < 0.0).any()
    assert not any(map(count_implausible_starts, episodes_from_scenarios(drawn, config)))
    wide = replace(config, scenario=replace(config.scenario, width=5000.0))  # the centre is elsewhere
    assert any(count_implausible_starts(each)[START_OFF_MAP] for each in episodes_from_scenarios(drawn, wide))


def test_recorded_episodes_are_not_odd():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_scenarios(DATA / "episodes.json")


def test_a_file_is_read_with_one_warning_and_refused_when_strict(tmp_path):
    path = tmp_path / "odd.json"
    write_scenarios(path, [CASES["off the map"][0], CASES["goal in an obstacle"][0]])
    said = "odd.json: 2 episodes with 2 starts off the map, 1 goals off the map, 1 goals in an"
    with pytest.warns(UserWarning, match=said) as seen:
        assert len(read_scenarios(path)) == 2
    assert len(seen) == 1
    with pytest.raises(ConfigError, match=said):
        read_scenarios(path, strict=True)
