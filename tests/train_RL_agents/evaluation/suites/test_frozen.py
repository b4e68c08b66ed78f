"""The frozen suites: their scenarios are those of the hashes, and the world that a policy runs them in."""

from dataclasses import replace

import pytest

from marinenav_env import ConfigError, WorldConfig, scaled_world
from marinenav_env.config import SensorConfig, VesselConfig
from train_RL_agents.evaluation.suites import frozen
from train_RL_agents.evaluation.suites.frozen import FROZEN_SEED, FROZEN_SUITES, frozen_world, scenario_hash
from train_RL_agents.evaluation.suites.suites import make_scenario_set

FEW = {
    "fresh": "74a1513edbdd320c1b0bda10763cc3cd",
    "vessels": "226cbf849fb9ab786db98a2b7502d04d",
    "weather": "9258ab2eb5fea33711f856356a4b1547",
    "faults": "4d8719b49b5b44a2802c549e4a1052a7",
}
"""Hashes of two episodes per level of the suites whose drawing takes long."""


def hash_of(name, episodes, seed=FROZEN_SEED, world=None):
    return scenario_hash(make_scenario_set(name, world or WorldConfig(), episodes, seed))


@pytest.mark.heavy
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in FEW else name for name in FROZEN_SUITES]
)
def test_scenarios_are_those_of_the_hashes(name):
    assert hash_of(name, FROZEN_SUITES[name].episodes) == FROZEN_SUITES[name].scenarios


@pytest.mark.parametrize("name", FEW)
def test_few_scenarios_are_those_of_their_hashes(name):
    assert hash_of(name, 2) == FEW[name]


def test_a_hash_depends_on_the_world_but_not_on_what_a_policy_observes():
    world = WorldConfig()
    own = hash_of("rules", 2)
    assert hash_of("rules", 2, world=replace(world, sensor=replace(world.sensor, max_objects=8))) == own
    chosen = make_scenario_set("rules", world, 2, FROZEN_SEED)
    chosen.parts[0].scenarios.goal[0, 0, 0] += 1e-9
    assert scenario_hash(chosen) == own
    chosen.parts[0].scenarios.goal[0, 0, 0] += 1e-3
    noisy = replace(world, sensor=replace(world.sensor, pos_std=0.06))
    hashes = {scenario_hash(chosen), hash_of("rules", 2, FROZEN_SEED + 1), hash_of("rules", 2, world=noisy)}
    assert len(hashes | {own}) == 4


def test_a_hash_depends_on_the_policies_that_steer_others(monkeypatch):
    chosen = make_scenario_set("unruly", WorldConfig(), 1, FROZEN_SEED)
    chosen = replace(chosen, parts=[part for part in chosen.parts if part.others == "ppo"])
    own = scenario_hash(chosen)
    monkeypatch.setattr(frozen, "sha256_of", lambda path: "another file")
    assert scenario_hash(chosen) != own


def test_the_world_is_the_published_one_with_the_policy_s_own_observation():
    own = WorldConfig(
        vessel=VesselConfig(m=300.0, left_thrust_change=(0.0, 1000.0)), sensor=SensorConfig(max_objects=3, range=90.0)
    )
    world = frozen_world(own)
    assert world.sensor.max_objects == 3 and world.vessel.left_thrust_change == (0.0, 1000.0)
    assert world.vessel.m == 400.0 and world.sensor.range == 20.0
    with pytest.raises(ConfigError, match="at most 1000 N/s in frozen suites"):
        frozen_world(replace(own, vessel=replace(own.vessel, left_thrust_change=(5000.0,))))


def test_the_world_of_a_boat_is_scaled_to_it():
    scaled = scaled_world("milliampere")
    own = replace(scaled, max_steps=7, sensor=replace(scaled.sensor, max_objects=3))
    assert frozen_world(own) == replace(scaled, sensor=replace(scaled.sensor, max_objects=3))
