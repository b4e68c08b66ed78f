"""Vessels that follow tracks, in a world."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
import torch

from marinenav_env import MarineNavEnv
from marinenav_env.scenarios.scenario_file import parse_scenarios, scenario_text
from marinenav_env.support.validation import ConfigError
from tests.marinenav_env.helpers import simple_episode

TRACK = [[0.0, 10.0, 40.0], [5.0, 20.0, 40.0], [9.0, 20.0, 32.0], [12.0, 20.0, 32.0], [13.0, 21.0, 32.0]]


def episode(track=TRACK, **changes):
    """A vessel under control, and one that follows a track."""
    pair = simple_episode([(5.0, 5.0, 0.0), (10.0, 40.0, 0.0)], [(50.0, 50.0), (200.0, 200.0)])
    return replace(pair, behaviour=["", "track"], onset=[0.0, 0.0], track=[[], track], **changes)


def place_at(time, track=TRACK):
    """Where a track is at a time."""
    legs = list(pairwise(track))
    begin, end = next((leg for leg in legs if time < leg[1][0]), legs[-1])
    share = (time - begin[0]) / (end[0] - begin[0])
    return [a + share * (b - a) for a, b in zip(begin[1:], end[1:], strict=True)]


def test_a_vessel_is_where_its_track_has_it_and_goes_on_after_the_last_leg():
    env = MarineNavEnv(scenarios=[episode(), episode(track=TRACK[:2])], num_envs=2, dtype=torch.float64)
    data = env.reset()
    assert not data["robots", "mask"][:, 1].any()
    for step in range(1, 40):
        data = env.step(env.rand_action(data))["next"]
        time = 0.5 * step
        state = env.state
        assert state.pose[0, 1, :2].tolist() == pytest.approx(place_at(time))
        assert state.pose[1, 1, :2].tolist() == pytest.approx([10.0 + 2.0 * time, 40.0])
    assert state.velocity_ground[0, 1, :2].tolist() == pytest.approx([1.0, 0.0])


def test_heading_follows_the_leg_and_stays_where_a_vessel_lies_still():
    env = MarineNavEnv(scenarios=[episode()], dtype=torch.float64)
    data, headings = env.reset(), []
    for _ in range(26):
        data = env.step(env.rand_action(data))["next"]
        headings.append(env.state.pose[0, 1, 2].item())
    assert headings[8] == 0.0
    assert headings[12] == pytest.approx(1.5 * math.pi)  # westwards
    assert headings[22] == pytest.approx(1.5 * math.pi)
    assert headings[25] == 0.0


def test_no_goal_is_stepped_over():
    """Vessels of 20 to 60 m/s turn several times a second; the oracle looks 500 times a step where they are."""
    draws, steps, scenes, expected = Random(0), 12, [], []
    for _ in range(24):
        times, place, track = sorted(draws.uniform(0.0, 4.0) for _ in range(7)), [300.0, 300.0], []
        for time, before in zip(times, [0.0, *times], strict=False):
            place = [each + draws.uniform(-60.0, 60.0) * (time - before) for each in place]
            track.append([time, *place])
        goal = [each + draws.uniform(-2.0, 2.0) for each in draws.choice(track)[1:]]
        pair = episode(track)
        within = pair.world.vessel.goal_distance
        scenes.append(replace(pair, start=[pair.start[0], track[0][1:]], goal=[pair.goal[0], goal]))
        near = (
            number for number in range(500 * steps + 1) if math.dist(place_at(number / 1000.0, track), goal) <= within
        )
        expected.append(math.ceil(next(near, 500 * steps + 1) / 500) or 1)
    env = MarineNavEnv(scenarios=scenes, num_envs=len(scenes), dtype=torch.float64)
    data, arrived = env.reset(), []
    for _ in range(steps):
        data = env.step(env.rand_action(data))["next"]
        arrived.append(env.state.arrived[:, 1].clone())
    found = [next((step for step, flags in enumerate(arrived, 1) if flags[row]), steps + 1) for row in range(24)]
    assert found == expected
    assert sum(step <= steps for step in found) > 15


def test_tracks_and_behaviours_belong_together():
    for wrong in (episode(track=TRACK[:1]), episode(track=TRACK[::-1]), replace(episode(), behaviour=["", "keep"])):
        with pytest.raises(ConfigError, match=r"track\[1\].*by rising time"):
            parse_scenarios(json.loads(scenario_text([wrong])))
