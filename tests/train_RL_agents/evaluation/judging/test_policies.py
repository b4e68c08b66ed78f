from dataclasses import replace

import pytest
import torch
from tensordict import TensorDict

from marinenav_env import GROUP, ConfigError, Level, WorldConfig
from marinenav_env.scenarios.episode import episodes_from_scenarios
from tests.train_RL_agents.exporting.helpers import make_policy
from train_RL_agents.evaluation.judging import policies
from train_RL_agents.evaluation.judging.policies import (
    ActingOptions,
    EvaluatedPolicy,
    common_world,
    find_evaluated,
    run_set,
    steering_policy,
)
from train_RL_agents.evaluation.running.episodes import draw_scenarios
from train_RL_agents.evaluation.running.estimates import returns_scale, with_estimates, with_risk
from train_RL_agents.evaluation.running.others import ACTION_KEY, control_robot_0
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.policy_wrapper import QUANTILES_KEY, RISK_KEY, SCORES_KEY

CPU, STRAIGHT = torch.device("cpu"), EvaluatedPolicy("straight")
WORLD = WorldConfig(max_steps=6)


def evaluated(name, **settings):
    return EvaluatedPolicy.from_loaded(make_policy(name, **settings))


@pytest.mark.parametrize(("name", "agent"), [("ppo", "PPO"), ("blind:ppo", "PPO"), ("orca", "orca")])
def test_others_of_a_suite_are_shipped_whatever_the_working_directory_holds(tmp_path, monkeypatch, name, agent):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ppo").mkdir()
    (tmp_path / "orca").mkdir()
    part = replace(two_parts().parts[0], only_own=True, others=name)
    found, acting = steering_policy(part, ActingOptions(), CPU), ActingOptions(others=STRAIGHT)
    assert found.name == agent and found.is_blind == name.startswith("blind:")
    assert steering_policy(part, acting, CPU) == STRAIGHT
    assert steering_policy(replace(part, others=""), ActingOptions(), CPU) is None
    assert steering_policy(replace(part, only_own=False), acting, CPU) is None


def test_discrete_actions_that_no_continuous_one_equals_are_refused_beside_other_policies():
    """They would be slowed down to max_thrust_rate without a word."""
    vessel = replace(WORLD.vessel, left_thrust_change=(0.0, 1500.0, -1000.0, 500.0, 1000.0))
    world = replace(WORLD, vessel=vessel)
    part = replace(two_parts().parts[0], world=world, only_own=True, others="straight")
    with pytest.raises(ConfigError, match=r"left_thrust_change=.*: must be at most 1000 N/s \(max_thrust_rate\)"):
        run_set(evaluated("DQN"), ScenarioSet("one", ("a",), (part,), 0), world, ActingOptions(), CPU)


def two_parts(world=WORLD):
    first, second = (draw_scenarios(WORLD, (Level(robots, 0, robots, 20.0),), (2,), robots) for robots in (3, 2))
    second.level = torch.ones_like(second.level)
    return ScenarioSet("two", ("a", "b"), (Part(world, first), Part(world, second)), 0)


def test_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_evaluated("apf", "best", CPU) == EvaluatedPolicy("apf")
    with pytest.raises(ConfigError, match=r"^nobody: neither a checkpoint nor a baseline \(str"):
        find_evaluated("nobody", "best", CPU)
    # A folder comes before a baseline.
    (tmp_path / "apf").mkdir()
    with pytest.raises(ConfigError, match="must be a policy file or a run folder"):
        find_evaluated("apf", "best", CPU)
    assert EvaluatedPolicy("apf").about()["agent_type"] == EvaluatedPolicy("apf").label == "apf"
    dqn = evaluated("DQN")
    assert (dqn.about()["env_steps"], dqn.label) == (7, "DQN after 7 env-steps")


def test_files_that_do_not_fit_a_policy_are_refused():
    episodes = episodes_from_scenarios(draw_scenarios(WORLD, (Level(2, 0, 0, 20.0),), (1,), 0), WORLD, 0)

    def run(found, **vessel_or_sensor):
        episode = replace(episodes[0], world=replace(episodes[0].world, **vessel_or_sensor))
        given = ScenarioSet("file", (), (Part(WORLD, [episode]),), 0)
        return run_set(found, given, WORLD, ActingOptions(), CPU)

    few = replace(WORLD.vessel, left_thrust_change=(0.0, 500.0))
    many = replace(WORLD.sensor, max_objects=8)
    with pytest.raises(ConfigError, match="thrust commands=10: must be 25 pairs, which the policy"):
        run(evaluated("DQN"), vessel=few)
    with pytest.raises(ConfigError, match="max_obj_num=8: must be at most 5"):
        run(evaluated("DDPG"), sensor=many)
    fewer = replace(WORLD.sensor, max_objects=3)
    for found, changed in (
        (EvaluatedPolicy("apf"), {"sensor": many, "vessel": few}),
        (evaluated("DDPG"), {"vessel": few}),
        (evaluated("DQN"), {"sensor": fewer}),
    ):
        assert len(run(found, **changed)[0].success) == 1


def test_worlds_must_be_alike():
    here, other = evaluated("DQN"), evaluated("DQN", **{"world.sensor.range": 10})
    assert common_world([EvaluatedPolicy("apf")]) == WorldConfig()
    assert common_world([EvaluatedPolicy("apf"), here]) == here.trained.config.world
    rewarded = evaluated("DQN", **{"world.reward.goal_reward": 20})
    with pytest.warns(UserWarning, match=r"^policy\.pt: is evaluated with world\.reward of policy\.pt, not its own"):
        assert common_world([here, rewarded]) == here.trained.config.world
    with pytest.raises(ConfigError, match=r"world\.sensor is not that of policy\.pt"):
        common_world([here, other])


@pytest.mark.heavy
def test_policies_that_observe_other_entries_meet_the_same_scenarios():
    others = {"world.sensor.max_objects": 2}, {"world.sensor.duties": True}, {"agent.memory.kind": "frames"}
    several = [evaluated("DQN", **settings) for settings in ({}, *others)]
    chosen = two_parts(replace(common_world(several), max_steps=6))
    together = [run_set(each, chosen, common_world(several), ActingOptions(), CPU)[0] for each in several]
    for each, seen in zip(several, together, strict=True):
        own = two_parts(replace(each.trained.config.world, max_steps=6))
        alone, _ = run_set(each, own, each.trained.config.world, ActingOptions(), CPU)
        assert torch.equal(seen.returns, alone.returns)


def test_parts_are_run_in_order():
    chosen = two_parts()
    joined, nothing = run_set(STRAIGHT, chosen, WORLD, ActingOptions(), CPU)
    assert nothing is None
    assert joined.level.tolist() == [0, 0, 1, 1]
    assert joined.robots.tolist() == [3, 3, 2, 2]
    again, recording = run_set(STRAIGHT, chosen, WORLD, ActingOptions(), CPU, "straight")
    assert torch.equal(again.returns, joined.returns)
    assert recording.groups == ("a", "a", "b", "b")
    assert recording.robot_mask.sum(-1).tolist() == [3, 3, 2, 2]
    assert recording.obstacle_mask.sum(-1).tolist() == [3, 3, 2, 2]


def test_episodes_without_names_of_groups_are_one_group():
    part = two_parts().parts[1]
    file = Part(WORLD, episodes_from_scenarios(part.scenarios, WORLD, 0))
    for names, each, expected in ((("a", "b"), part, "b"), ((), part, "all"), (("a", "b"), file, "all")):
        chosen = ScenarioSet("one", names, (each,), 0)
        _, recording = run_set(STRAIGHT, chosen, WORLD, ActingOptions(), CPU, "straight")
        assert recording.groups == (expected, expected)


@pytest.mark.heavy
@pytest.mark.parametrize(("agent_type", "count"), [("AC-IQN", 16), ("IQN", 16), ("DQN", None)])
def test_estimates_are_recorded_where_they_are_known(agent_type, count):
    loaded = make_policy(agent_type)
    _, recording = run_set(
        EvaluatedPolicy.from_loaded(loaded), two_parts(), WORLD, ActingOptions(estimates=True), CPU, "x"
    )
    if count is None:
        assert recording.quantiles is None
    else:
        assert recording.quantiles.shape[:3] == recording.reward.shape
        assert recording.quantiles.shape[-1] >= 8
        acted = recording.active[:-1]
        assert recording.quantiles[acted].any(-1).all()
        assert not recording.quantiles[~acted].any()
    assert recording.reward_scale == loaded.config.trainer.reward_scale
    assert recording.scores.shape == (*recording.reward.shape, 25)
    if not loaded.agent.continuous:
        best = recording.scores.argmax(-1)
        rows = torch.arange(len(recording.steps))[:, None]
        acted, pairs = recording.active[:-1], recording.commands[rows, best]
        assert torch.equal(pairs[acted], recording.actions[acted])


def of_robots(**entries):
    """A step of three robots of one world."""
    return TensorDict({GROUP: TensorDict(entries, [1, 3])}, [1])


def test_vessels_that_are_not_steered_hold_their_thrust():
    vessel = replace(
        WORLD.vessel, left_thrust_change=(-500.0, 1000.0, 0.0), right_thrust_change=(10.0, -1000.0, 500.0, 0.5)
    )
    indices = control_robot_0(lambda step: step, vessel)(of_robots(action=torch.tensor([[5, 6, 7]])))
    # The least change is the third to the left and the last of four to the right.
    assert indices.get(ACTION_KEY).tolist() == [[5, 11, 11]]
    rates = control_robot_0(lambda step: step, None)(of_robots(action=torch.ones(1, 3, 2)))
    assert rates.get(ACTION_KEY).tolist() == [[[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]]


def test_the_risk_is_given():
    step = of_robots(observation=TensorDict({}, [1, 3]), mask=torch.ones(1, 3, dtype=torch.bool))
    assert with_risk(lambda step: step, 0.25)(step).get(RISK_KEY)[0].tolist() == [0.25] * 3


class Knowing:
    """Knows two quantiles of the return of continuous actions."""

    continuous = scores_are_returns = True
    memory_size = 0

    def return_quantiles(self, seen, action):
        return action.sum(-1, keepdim=True) + torch.tensor([-1.0, 3.0])


def estimated(agent):
    """The estimates of an agent, beside its actions."""
    loaded = replace(make_policy("DDPG", **{"trainer.reward_scale": 0.5}), agent=agent)
    step = of_robots(observation=TensorDict({}, [1, 3]), action=torch.full((1, 3, 2), 0.25))
    return with_estimates(lambda step: step, loaded, WORLD)(step)


def test_every_pair_of_commands_has_the_mean_of_its_return_quantiles():
    acted = estimated(Knowing())
    assert acted.get(QUANTILES_KEY).tolist() == [[[-0.5, 3.5]] * 3]
    # Pair 7 is a change of -500 and -1,000 N/s, in units of 1,000 N/s.
    assert acted.get(SCORES_KEY).shape == (1, 3, 25)
    assert acted.get(SCORES_KEY)[..., 7].tolist() == [[(-1.5 + 1.0) / 0.5] * 3]


def test_only_policies_without_chance_may_leave_a_batch(monkeypatch):
    given, run = [], policies.evaluation.run_episodes

    def noted(*args, **options):
        given.append(options["drop_ended"])
        return run(*args, **options)

    monkeypatch.setattr(policies.evaluation, "run_episodes", noted)
    for stochastic in (False, True):
        run_set(STRAIGHT, two_parts(), WORLD, ActingOptions(stochastic=stochastic), CPU)
    assert given == [True, True, False, False]


def test_logits_are_not_unscaled():
    assert returns_scale(make_policy("PPO")) == 1.0
    assert returns_scale(make_policy("SAC")) == make_policy("SAC").config.trainer.reward_scale
