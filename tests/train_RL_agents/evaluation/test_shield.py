"""The shield of all robots at once, and what evaluations report of it."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marinenav_env import GROUP, ConfigError, WorldConfig
from marinenav_env.config import ActuatorConfig, SensorConfig
from tests.train_RL_agents.boat.shield_scenes import SECONDS, VESSEL, random_scenes
from tests.train_RL_agents.evaluation.test_contenders import CPU
from train_RL_agents.boat.shield import BoatShield
from train_RL_agents.environments.scoring import evaluate_all
from train_RL_agents.evaluation import shield as module
from train_RL_agents.evaluation.contenders import Contender
from train_RL_agents.evaluation.others import ACTION
from train_RL_agents.evaluation.shield import Shield, ShieldCount

EXACT = WorldConfig(sensor=SensorConfig(r_mean_ratio=1.0))
ENVS, ROBOTS = 20, 3


def step_of(seed=1):
    """A step of [20, 3] robots, the last of which are not active, and their commands."""
    own, objects, seen, command = (
        torch.from_numpy(column).unflatten(0, (ENVS, ROBOTS)) for column in random_scenes(ENVS * ROBOTS, seed=seed)
    )
    observation = {"self_state": own, "objects_state": objects, "objects_mask": seen}
    active = torch.ones(ENVS, ROBOTS, dtype=torch.bool)
    active[:, 2] = False
    group = {"observation": TensorDict(observation, [ENVS, ROBOTS]), "mask": active}
    return TensorDict({GROUP: TensorDict(group, [ENVS, ROBOTS])}, [ENVS]), command


def acting(action):
    return lambda step: step.set(ACTION, action)


def test_it_equals_the_shield_on_board():
    step, command = step_of()
    count = ShieldCount()
    found = Shield(acting(command), EXACT, EXACT, True, False, count)(step).get(ACTION)
    board, replaced = BoatShield(VESSEL, SECONDS), 0
    entries = [step[GROUP, "observation", name].numpy() for name in ("self_state", "objects_state", "objects_mask")]
    for e in range(ENVS):
        for r in range(2):
            rates, is_other = board(1000.0 * command[e, r].numpy(), *(entry[e, r][None] for entry in entries))
            np.testing.assert_allclose(1000.0 * found[e, r].numpy(), rates, rtol=0.0, atol=1e-9)
            replaced += is_other
    assert found[:, 2].equal(command[:, 2])
    assert count.share == replaced / (2 * ENVS) and 0 < replaced < 2 * ENVS


def test_it_computes_the_same_without_host_reads(monkeypatch):
    step, command = step_of()
    usual = Shield(acting(command), EXACT, EXACT, True, False, ShieldCount())(step.clone()).get(ACTION)
    monkeypatch.setattr(module, "rows_where", lambda mask: None)
    assert Shield(acting(command), EXACT, EXACT, True, False, ShieldCount())(step.clone()).get(ACTION).equal(usual)


def test_discrete_actions_become_indices_of_the_safe_commands():
    step, _ = step_of()
    index = torch.arange(ENVS * ROBOTS).view(ENVS, ROBOTS) % 25
    pairs = module.command_pairs(EXACT.vessel)
    found = Shield(acting(index), EXACT, EXACT, False, False, ShieldCount())(step.clone()).get(ACTION)
    commands = Shield(acting(pairs[index].double()), EXACT, EXACT, True, False, ShieldCount())(step).get(ACTION)
    assert pairs[found].double().equal(commands)
    assert 0 < (found != index).sum() < ENVS * ROBOTS


def test_only_steps_of_the_own_vessel_count_where_it_alone_is_controlled():
    step, command = step_of()
    all_robots, own = ShieldCount(), ShieldCount()
    for only_own, count in ((False, all_robots), (True, own)):
        Shield(acting(command), EXACT, EXACT, True, only_own, count)(step.clone())
    assert own.share * ENVS == round(own.share * ENVS) and own.share != all_robots.share
    assert ShieldCount().share == 0.0


def test_the_hull_is_that_of_the_policys_world():
    """Suites with one controlled vessel add the others' radii to its own, which the shield knows already."""
    step, command = step_of()
    larger = replace(EXACT, vessel=replace(EXACT.vessel, radius=(5.6, 0.01, 0.01)))
    results = [
        Shield(acting(command), EXACT, own, True, False, ShieldCount())(step.clone()).get(ACTION)
        for own in (EXACT, larger)
    ]
    assert results[0].equal(results[1])


def test_boats_that_are_not_steered_by_two_thrusters_are_refused():
    steered = replace(EXACT, vessel=replace(EXACT.vessel, actuators=ActuatorConfig(steering="rudder")))
    with pytest.raises(ConfigError, match="steering='rudder': must be thrusters for --shield"):
        Shield(acting(None), steered, steered, True, False, ShieldCount())


@pytest.mark.heavy
def test_evaluations_report_how_often_it_acts():
    options = {"suite": "rules", "episodes": 1, "shield": True}
    evaluation = evaluate_all({"straight": Contender("straight")}, options, CPU)
    share = evaluation.results[0].shielded
    assert 0.0 < share < 0.8
    assert evaluation.setting["shield"] is True and evaluation.content()["shielded"] == share
    assert f"straight: the shield acted in {share:.1%} of the steps" in evaluation.markdown()
    assert evaluation.results[0].overall["collision_rate"] < 1.0


@pytest.mark.heavy
def test_without_it_nothing_is_said_of_it():
    evaluation = evaluate_all({"straight": Contender("straight")}, {"suite": "rules", "episodes": 1}, CPU)
    assert "shield" not in evaluation.setting and "shielded" not in evaluation.content()
    assert "shield" not in evaluation.markdown()
