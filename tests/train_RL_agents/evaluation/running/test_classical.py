"""Baselines must really navigate."""

import math

import pytest
import torch
from tensordict import TensorDict

from marinenav_env import GROUP, LEVELS, ConfigError, Level, WorldConfig
from marinenav_env.config import VesselConfig
from marinenav_env.vessels import scaled_world
from tests.train_RL_agents.helpers import observations
from train_RL_agents.evaluation.running.baselines import BASELINES
from train_RL_agents.evaluation.running.episodes import draw_scenarios, run_episodes

WORLD = WorldConfig()
CPU = torch.device("cpu")


def as_step(observation, active=True):
    group = {"observation": TensorDict(observation, [1, 1]), "mask": torch.tensor([[active]])}
    return TensorDict({GROUP: TensorDict(group, [1, 1])}, [1])


def test_baselines_need_one_vessel_for_all():
    world = WorldConfig(vessel=VesselConfig(m=(400.0, 500.0)))
    with pytest.raises(ConfigError, match=r"world.vessel.m=.*: must be one number for all robots"):
        BASELINES["straight"](world)


def test_constants_for_the_published_vessel_are_said_to_be_used_for_another():
    with pytest.warns(UserWarning, match="ORCA: its distances, times and speeds .* not adapted to otter"):
        BASELINES["orca"](scaled_world("otter"))


@pytest.mark.parametrize("name", BASELINES)
def test_alone_the_goal_is_all(name):
    baseline = BASELINES[name](WORLD)
    wanted = baseline.desired_velocity(observations(goal=(6.0, 8.0)))[0, 0]
    assert math.atan2(wanted[1], wanted[0]) == pytest.approx(math.atan2(8.0, 6.0))
    assert wanted.norm() >= 1.5


@pytest.mark.parametrize("name", ["apf", "orca"])
@pytest.mark.parametrize("other", [(9.0, 0.3, 0.0, 0.0, 1.0), (12.0, 0.3, -2.0, 0.0, 2.8)])
def test_what_is_ahead_is_avoided(name, other):
    wanted = BASELINES[name](WORLD).desired_velocity(observations(other))[0, 0]
    assert abs(math.atan2(wanted[1], wanted[0])) > 0.1 or wanted[0] < 1.0


@pytest.mark.parametrize("name", BASELINES)
def test_robots_that_are_not_active_are_not_steered(name):
    baseline = BASELINES[name](WORLD)
    observed = observations((9.0, 0.3, 0.0, 0.0, 1.0), goal=(-9.0, 9.0))
    assert baseline(as_step(observed))[GROUP, "action"].any()
    assert not baseline(as_step(observed, active=False))[GROUP, "action"].any()
    assert baseline.out_keys == [(GROUP, "action")]


def successes(name, level, steps, seed):
    """Of ten episodes."""
    world = WorldConfig(max_steps=steps, dt=0.25, substeps=2)
    drawn = draw_scenarios(world, (level,), (10,), seed)
    return run_episodes(BASELINES[name](world), drawn, world, continuous=True, device=CPU).success.sum()


@pytest.mark.parametrize("name", BASELINES)
def test_alone_every_baseline_arrives(name):
    assert successes(name, Level(1, 0, 0, 30.0), 100, 3) == 10


def test_currents_are_compensated_on_a_straight_course():
    assert successes("straight", Level(1, 8, 0, 30.0), 120, 3) >= 9


def test_on_level_3_avoiding_beats_going_straight():
    success = {name: successes(name, LEVELS[2], 140, 4) for name in BASELINES}
    assert success["straight"] <= 1
    assert success["apf"] >= 6
    assert success["orca"] >= 5
