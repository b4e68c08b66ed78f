"""Vessels that no action controls: rates against the oracle, and what they do in a world."""

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from marinenav_env import ConfigError, Curriculum, Episode, Level, MarineNavEnv
from marinenav_env.config import ActuatorConfig, VesselConfig, WorldConfig
from marinenav_env.levels import DRAWN_BEHAVIOURS
from marinenav_env.scenarios.episode import stack_episodes
from marinenav_env.stepping.behaviours import behaviour_rates
from tests.marinenav_env.env_helpers import equal, play
from tests.marinenav_env.helpers import CPU, oracle_vessel, random_episode, random_state, simple_episode
from tests.oracle import behaviours as oracle

DOUBLE = torch.float64


@pytest.mark.heavy
def test_rates_equal_the_oracle() -> None:
    """Every behaviour, every parameter different, before, at and after the onset, also from rest."""
    rng = random.Random(0)
    episodes = []
    for number in range(80):
        episode = random_episode(rng, len(DRAWN_BEHAVIOURS), 0, 0)
        names = [*DRAWN_BEHAVIOURS]
        rng.shuffle(names)
        velocity = [[0.0] * 3 if rng.random() < 0.2 else row for row in episode.velocity]
        onset = [rng.uniform(0.0, 0.28 * 50) for _ in names]
        episodes.append(replace(episode, behaviour=names, onset=onset, velocity=velocity, seed=number))
    scenario, parameters, _ = stack_episodes(episodes, CPU, DOUBLE)
    state, seconds = random_state(scenario, 0), 0.04 * 7
    state.steps = torch.randint(60, state.batch_size, generator=torch.Generator().manual_seed(0))
    rates = behaviour_rates(state, scenario, parameters, seconds)
    phases = set()
    for row, episode in enumerate(episodes):
        for robot, name in enumerate(episode.behaviour):
            now = torch.cat([tensor[row, robot] for tensor in (state.pose, state.velocity_water)]).tolist()
            now += [*state.velocity_ground[row, robot].tolist(), *state.thrust[row, robot].tolist()]
            time, onset = state.steps[row].item() * seconds, episode.onset[robot]
            speed = math.hypot(*episode.velocity[robot][:2])
            full = parameters.vessel.max_thrust_rate.expand(scenario.robot_mask.shape)[row, robot].item()
            expected = oracle.rates(
                name,
                time,
                onset,
                now,
                tuple(episode.goal[robot]),
                episode.heading[robot],
                speed,
                oracle_vessel(episode, robot),
                full,
            )
            assert rates[row, robot].tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6), name
            phases.add((name, time >= onset, time >= onset + 8.0))
    assert len(phases) == 3 * len(DRAWN_BEHAVIOURS)


def test_vessels_steer_with_the_distance_of_their_thrusters() -> None:
    """Not with the width of the hull, where the two differ."""
    episode = replace(random_episode(random.Random(3), 2, 0, 0), behaviour=["act_late", "turn_wrong"], onset=[0.0, 0.0])
    apart = replace(episode.world.vessel, width=1.0, actuators=ActuatorConfig(spacing=2.5))
    wide = replace(episode.world.vessel, width=2.5, actuators=ActuatorConfig(lag=1.0))
    rates = []
    for vessel in (apart, wide, replace(wide, width=1.0)):
        world = replace(episode.world, vessel=replace(vessel, m=400.0, max_thrust_rate=1e6))
        scenario, parameters, _ = stack_episodes([replace(episode, world=world)], CPU, DOUBLE)
        rates.append(behaviour_rates(random_state(scenario, 4), scenario, parameters, 0.5))
    assert torch.equal(rates[0], rates[1]) and not torch.equal(rates[0], rates[2])


def of_level(level: Level, **options: Any) -> MarineNavEnv:
    curriculum = Curriculum((level,), pool_size=16, refresh_size=8, refresh_interval=4)
    return MarineNavEnv(WorldConfig(max_steps=30), 16, scenarios=curriculum, seed=0, **options)


@pytest.mark.heavy
def test_keeping_on_is_what_scripted_vessels_did_before_there_were_behaviours() -> None:
    """Bit for bit."""
    old, new = (of_level(Level(3, 0, 0, 0.0, encounter=True, traffic=0.6)) for _ in range(2))
    now, parameters = new.world_state
    pool = new.reset_pool.states
    for part in (now, pool):
        part.scenario.behaviour = torch.zeros_like(part.scenario.robot_mask, dtype=torch.int64)
        part.scenario.onset = torch.zeros_like(part.scenario.heading)
    for actual, expected in zip(play(new, 12), play(old, 12), strict=True):
        assert equal(actual, expected)
    assert parameters is not None


def test_vessels_without_two_thrusters_cannot_misbehave() -> None:
    """But may keep course and speed."""
    rudder = WorldConfig(vessel=VesselConfig(actuators=ActuatorConfig(steering="rudder", rudder_lift=50.0)))

    def make_env(name: str) -> MarineNavEnv:
        level = Level(2, 0, 0, 0.0, encounter=True, unruly=1.0, behaviours=(name,))
        return MarineNavEnv(rudder, 2, scenarios=Curriculum((level,), pool_size=8, refresh_size=8), seed=0)

    assert make_env("keep").scenario.behaviour is not None
    with pytest.raises(ConfigError, match=r"^world\.vessel\.actuators\.steering='\.\.\.': must be thrusters for"):
        make_env("stop")


def test_vessels_that_are_controlled_keep_the_thrust_of_their_file() -> None:
    one: Episode = simple_episode([(0.0, 0.0, 0.0), (30.0, 0.0, 0.0)], [(50.0, 0.0), (80.0, 0.0)])
    one = replace(one, velocity=[[1.0, 0.0, 0.0]] * 2, thrust=[[100.0, 50.0]] * 2)
    env = MarineNavEnv(scenarios=[replace(one, behaviour=["", "keep"], onset=[0.0, 0.0])])
    assert env.state.thrust[0].tolist() == [[100.0, 50.0], [125.0, 125.0]]
