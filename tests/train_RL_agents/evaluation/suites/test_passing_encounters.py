"""Encounters given by parameters."""

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.levels import DRAWN_BEHAVIOURS
from marinenav_env.vessels import scaled_world
from tests.train_RL_agents.experiments.helpers import drawn, encounter
from train_RL_agents.evaluation.suites.encounter_suites import (
    COURSES_BY_KIND,
    SLOW_MAX_THRUST,
    SLOW_SPEED_SHARE,
    VESSEL_SPEED,
)
from train_RL_agents.evaluation.suites.misbehaving_suite import misbehaving_scenarios
from train_RL_agents.evaluation.suites.passing_encounters import (
    INITIAL_DISTANCES,
    MAX_APPROACH_TIME,
    MAX_PASSING_DISTANCE,
    PASSING_SIDE,
    encounter_batches,
)
from train_RL_agents.experiments.searches import concatenate_batches

WORLD = WorldConfig()


def test_vessels_pass_at_the_distance_and_on_the_course_of_their_parameters():
    encounters = drawn()
    seen = 0
    for rows, world, scenarios in encounter_batches(encounters, WORLD):
        seen += len(rows)
        chosen = encounters.rows(rows)
        relative = scenarios.start[:, 1:] - scenarios.start[:, :1]
        closing = scenarios.velocity[:, 1:, :2] - scenarios.velocity[:, :1, :2]
        time = -(relative * closing).sum(-1) / (closing**2).sum(-1)
        closest = (relative + time[..., None] * closing).norm(dim=-1)
        expected = MAX_PASSING_DISTANCE * (2.0 * chosen.unit[..., PASSING_SIDE] - 1.0).abs()
        torch.testing.assert_close(closest, expected)
        assert (time <= MAX_APPROACH_TIME + 1e-9).all() and (relative.norm(dim=-1) <= INITIAL_DISTANCES[1] + 1e-9).all()
        mean, spread = torch.tensor([*COURSES_BY_KIND.values()])[chosen.kind].unbind(-1)
        off = (torch.rad2deg(scenarios.heading[:, 1:]) - mean + 180.0) % 360.0 - 180.0
        assert (off.abs() <= spread + 1e-6).all()
        # Everything is on the map, with the goals ahead.
        for ends in (scenarios.start, scenarios.goal):
            assert (ends >= 0.0).all() and (ends <= world.scenario.width).all()
        ahead = scenarios.goal - scenarios.start
        course = torch.atan2(ahead[..., 1], ahead[..., 0])
        torch.testing.assert_close(course.cos(), scenarios.heading.cos())
        assert torch.equal(scenarios.scripted, scenarios.robot_mask & (torch.arange(3) > 0))
        assert torch.equal(scenarios.robot_mask.sum(-1), chosen.num_others + 1)
    assert seen == len(encounters.num_others)


@pytest.mark.parametrize(
    "make",
    [lambda world: encounter_batches(drawn(), world), lambda world: misbehaving_scenarios(world, 14, 0)[1]],
    ids=["passing", "misbehaving"],
)
def test_encounters_of_boats_are_those_of_published_vessels_to_scale(make):
    boat = scaled_world("otter")
    length, pace = boat.scenario.scale, boat.scenario.speed_scale
    for usual, placed in zip(make(WORLD), make(boat), strict=True):
        published, scaled = usual.scenarios, placed.scenarios
        assert placed.world.scenario.width == pytest.approx(length * usual.world.scenario.width)
        torch.testing.assert_close(scaled.start, length * published.start)
        torch.testing.assert_close(scaled.goal, length * published.goal)
        torch.testing.assert_close(scaled.velocity, pace * published.velocity)
        if published.onset is not None:
            torch.testing.assert_close(scaled.onset, length / pace * published.onset)


def test_the_own_vessel_is_slow_only_where_it_is_overtaken():
    both = concatenate_batches([encounter("overtaken"), encounter("overtaking")])
    fast, slow = encounter_batches(both, WORLD)
    assert fast.rows.tolist() == [1] and slow.rows.tolist() == [0]
    assert fast.scenarios.velocity[0, 0, 0] == VESSEL_SPEED and fast.world.vessel == WORLD.vessel
    assert slow.scenarios.velocity[0, 0, 0] == pytest.approx(SLOW_SPEED_SHARE * VESSEL_SPEED)
    assert slow.world.vessel.max_thrust == (SLOW_MAX_THRUST, WORLD.vessel.max_thrust)
    assert slow.scenarios.velocity[0, 1, 0] > VESSEL_SPEED * SLOW_SPEED_SHARE > 0.0
    assert 0.0 < fast.scenarios.velocity[0, 1, 0] < VESSEL_SPEED


def test_behaviours_begin_before_the_closest_approach():
    both = concatenate_batches([encounter("head-on", "stop"), encounter("head-on", "see_nothing")])
    (batch,) = encounter_batches(both, WORLD)
    time = ((batch.scenarios.start[:, 1, 0] - batch.scenarios.start[:, 0, 0]) / (VESSEL_SPEED + 1.75))[0]
    onset = batch.scenarios.onset
    assert onset[0, 1] == pytest.approx(float(time) - 5.0) and not onset[:, 0].any() and onset[1, 1] == 0.0
    names = [DRAWN_BEHAVIOURS[code] for code in batch.scenarios.behaviour[:, 1]]
    assert names == ["stop", "see_nothing"]
