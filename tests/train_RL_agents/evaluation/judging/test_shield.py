"""The shield of all robots at once, and what evaluations report of it."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from tensordict import TensorDict

from marinenav_env import GROUP, ConfigError, Level, WorldConfig
from marinenav_env.config import ActuatorConfig, SensorConfig, VesselConfig
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.stepping.actions import commands_of_discrete_actions
from tests.train_RL_agents.boat.helpers import SECONDS, UNEVEN, random_scenes
from tests.train_RL_agents.evaluation.judging.test_policies import CPU
from train_RL_agents.boat.shield import BoatShield
from train_RL_agents.environments.scoring import evaluate_all
from train_RL_agents.evaluation.comparing import scoring
from train_RL_agents.evaluation.judging import shield as module
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy, run_set
from train_RL_agents.evaluation.judging.shield import Shield
from train_RL_agents.evaluation.running import episodes as batches
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.running.others import ACTION_KEY
from train_RL_agents.evaluation.running.steps import StepShare
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet

EXACT = WorldConfig(sensor=SensorConfig(r_mean_ratio=1.0))
ENVS, ROBOTS = 20, 3
LIMITS = (VesselConfig().min_thrust, VesselConfig().max_thrust, np.inf)


def part_of(world, **options):
    """A part with scenarios of a world."""
    return Part(world, draw_scenarios(world, (Level(ROBOTS, 0, 0, 20.0),), (1,), 0), **options)


DRAWN = part_of(EXACT)


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
    return lambda step: step.set(ACTION_KEY, action)


def test_it_computes_the_same_without_host_reads(monkeypatch):
    step, command = step_of()
    usual = Shield(acting(command), EXACT, DRAWN, True, StepShare())(step.clone()).get(ACTION_KEY)
    monkeypatch.setattr(module, "true_indices", lambda mask: None)
    assert Shield(acting(command), EXACT, DRAWN, True, StepShare())(step.clone()).get(ACTION_KEY).equal(usual)
    # Policies that observe no objects are left alone.
    group = step[GROUP, "observation"]
    for name in ("objects_state", "objects_mask"):
        group[name] = group[name][:, :, :0]
    assert Shield(acting(command), EXACT, DRAWN, True, StepShare())(step).get(ACTION_KEY) is command


def test_discrete_actions_become_indices_of_the_safe_commands():
    step, _ = step_of()
    index = torch.arange(ENVS * ROBOTS).view(ENVS, ROBOTS) % 25
    pairs = commands_of_discrete_actions(EXACT.vessel)
    found = Shield(acting(index), EXACT, DRAWN, False, StepShare())(step.clone()).get(ACTION_KEY)
    commands = Shield(acting(pairs[index].double()), EXACT, DRAWN, True, StepShare())(step).get(ACTION_KEY)
    assert pairs[found].double().equal(commands)
    assert 0 < (found != index).sum() < ENVS * ROBOTS


def test_only_steps_of_the_own_vessel_count_where_it_alone_is_controlled():
    step, command = step_of()
    all_robots, own = StepShare(), StepShare()
    for only_own, count in ((False, all_robots), (True, own)):
        Shield(acting(command), EXACT, replace(DRAWN, only_own=only_own), True, count)(step.clone())
    assert own.value * ENVS == round(own.value * ENVS) and own.value != all_robots.value
    assert StepShare().value == 0.0


def with_vessel(**changes):
    return replace(EXACT, vessel=replace(EXACT.vessel, **changes))


@pytest.mark.parametrize(
    ("world", "only_own"),
    [
        # Suites with one controlled vessel add the others' radii to its own, which the shield knows already.
        (with_vessel(radius=(5.6, 0.01, 0.01)), True),
        (with_vessel(actuators=ActuatorConfig(steering=("thrusters",) * ROBOTS)), False),
    ],
)
def test_worlds_that_state_the_same_otherwise_change_nothing(world, only_own):
    step, command = step_of()
    first, second = (
        Shield(acting(command), EXACT, part_of(each, only_own=only_own), True, StepShare())(step.clone())
        for each in (EXACT, world)
    )
    assert first.get(ACTION_KEY).equal(second.get(ACTION_KEY))


@pytest.mark.parametrize("steering", ["rudder", ("thrusters", "rudder", "thrusters")])
@pytest.mark.parametrize("in_file", [False, True])
def test_boats_without_two_thrusters_are_refused(steering, in_file):
    other = replace(EXACT, vessel=replace(EXACT.vessel, actuators=ActuatorConfig(steering=steering)))
    part = Part(EXACT, episodes_from_scenarios(DRAWN.scenarios, other)) if in_file else part_of(other)
    with pytest.raises(ConfigError, match=r"steering=.*: must be thrusters for --shield"):
        Shield(acting(None), EXACT, part, True, StepShare())


@pytest.mark.parametrize("continuous", [True, False])
def test_episodes_have_vessels_commands_and_a_control_step_of_their_own(continuous):
    light, heavy = (
        replace(
            EXACT,
            dt=0.1,
            vessel=replace(
                EXACT.vessel, m=(300.0 * factor, 400.0), max_thrust=500.0 * factor, right_thrust_change=rates
            ),
        )
        for factor, rates in ((1.0, (0.0, 100.0, -700.0)), (3.0, (0.0, 900.0, -200.0)))
    )
    scenarios = draw_scenarios(EXACT, (Level(2, 0, 0, 20.0),), (ENVS,), 0)
    episodes = [
        replace(episode, world=heavy if number % 2 else light)
        for number, episode in enumerate(episodes_from_scenarios(scenarios, EXACT))
    ]
    step, command = step_of()
    action = command if continuous else torch.arange(ENVS * ROBOTS).view(ENVS, ROBOTS) % 15

    def commands(part):
        acted = Shield(acting(action), EXACT, part, continuous, StepShare())(step.clone())
        return acted.get(ACTION_KEY)[:, :2]

    together = commands(Part(EXACT, episodes))
    for number, world in enumerate((light, heavy)):
        world = replace(world, vessel=replace(world.vessel, m=(*world.vessel.m, 400.0)))
        alone = commands(part_of(world))
        assert together[number::2].equal(alone[number::2])
        assert not together.equal(alone)


def test_episodes_with_a_world_of_their_own_stay_in_the_batch(monkeypatch):
    """Those that have ended would otherwise leave it, and the rows of the parameters be others."""
    monkeypatch.setattr(batches, "MIN_BATCH_SIZE", 1)
    world = WorldConfig(max_steps=3)
    episodes = episodes_from_scenarios(draw_scenarios(world, (Level(1, 0, 0, 20.0),), (3,), 0), world)
    episodes[0] = replace(episodes[0], goal=[[x + 0.5 for x in episodes[0].start[0]]])
    chosen = ScenarioSet("file", (), (Part(world, episodes),), 0)
    seen, _ = run_set(EvaluatedPolicy("straight"), chosen, world, ActingOptions(shield=StepShare()), CPU)
    assert seen.success.tolist() == [True, False, False]


UNEVEN_CASES = [
    (True, VesselConfig()),
    (True, VesselConfig(actuators=UNEVEN.actuators)),
    (False, UNEVEN),
    # Discrete actions may be faster than the rate of a continuous action of 1.
    (False, replace(UNEVEN, max_thrust_rate=400.0)),
]


@pytest.mark.heavy
@pytest.mark.parametrize(("continuous", "vessel"), UNEVEN_CASES)
def test_it_equals_the_shield_on_board(continuous, vessel):
    step, command = step_of()
    pairs = np.array([[a, b] for a in vessel.left_thrust_change for b in vessel.right_thrust_change])
    index = torch.arange(ENVS * ROBOTS).view(ENVS, ROBOTS) % len(pairs)
    world = replace(EXACT, vessel=vessel)
    part, action, count = part_of(world), command if continuous else index, StepShare()
    found = Shield(acting(action), world, part, continuous, count)(step).get(ACTION_KEY)
    board, replaced = BoatShield.from_contract(asdict(vessel), LIMITS, SECONDS, None if continuous else pairs), 0
    entries = [step[GROUP, "observation", name].numpy() for name in ("self_state", "objects_state", "objects_mask")]
    for e in range(ENVS):
        for r in range(2):
            rates = 1000.0 * command[e, r].numpy() if continuous else pairs[index[e, r]]
            rates, is_other = board(rates, *(entry[e, r][None] for entry in entries))
            new = 1000.0 * found[e, r].numpy() if continuous else pairs[found[e, r]]
            np.testing.assert_allclose(new, rates, rtol=0.0, atol=1e-9)
            replaced += is_other
    assert found[:, 2].equal(action[:, 2])
    assert count.value == replaced / (2 * ENVS) and 0 < replaced < 2 * ENVS


@pytest.mark.heavy
def test_evaluations_report_how_often_it_acts(monkeypatch):
    schedule, world = scoring.default_schedule_and_world([])
    short = replace(world, max_steps=30, dt=0.25, substeps=2)
    monkeypatch.setattr(scoring, "default_schedule_and_world", lambda _: (schedule, short))
    options = {"levels": [6], "episodes": 2}
    evaluation = evaluate_all({"straight": EvaluatedPolicy("straight")}, options | {"shield": True}, CPU)
    share = evaluation.results[0].shielded
    assert 0.0 < share < 0.8
    assert evaluation.setting["shield"] is True and evaluation.content()["shielded"] == share
    assert f"straight: the shield acted in {share:.1%} of the steps" in evaluation.markdown()
    assert evaluation.results[0].overall["collision_rate"] < 1.0
    without = evaluate_all({"straight": EvaluatedPolicy("straight")}, options, CPU)
    assert "shield" not in without.setting and "shielded" not in without.content()
    assert "shield" not in without.markdown()
