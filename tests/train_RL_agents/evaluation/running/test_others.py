"""Who steers the vessels that the evaluated policy does not."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tensordict import TensorDict

from marinenav_env import GROUP, ConfigError, WorldConfig, observation_entries
from marinenav_env.config import SensorConfig
from tests.train_RL_agents.evaluation.judging.test_policies import CPU, evaluated, two_parts
from train_RL_agents.config.schema import EvalSchedule
from train_RL_agents.evaluation.comparing import scoring
from train_RL_agents.evaluation.comparing.scoring import evaluate_built_in
from train_RL_agents.evaluation.judging.policies import (
    ActingOptions,
    EvaluatedPolicy,
    combine_with_others,
    find_evaluated,
    run_set,
)
from train_RL_agents.evaluation.running.others import (
    ACTION_KEY,
    MASK_KEY,
    MEMORIES,
    with_object_slots,
    with_others,
    without_objects,
)
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.policy_wrapper import MEMORY_KEY

WORLD = WorldConfig(max_steps=6)


def step(robots=3, slots=5):
    observation = {
        "self_state": torch.ones(2, robots, 7),
        "objects_state": torch.arange(2.0 * robots * slots * 5).view(2, robots, slots, 5) + 1.0,
        "objects_mask": torch.ones(2, robots, slots, dtype=torch.bool),
    }
    group = {"observation": TensorDict(observation, [2, robots]), "mask": torch.tensor([[True] + [False] * 2] * 2)}
    return TensorDict({GROUP: TensorDict(group, [2, robots])}, [2])


def constant(value, seen=None):
    def act(given):
        if seen is not None:
            seen.append(given)
        return given.set(ACTION_KEY, torch.full((*given.get(MASK_KEY).shape, 2), value))

    return act


def test_the_first_vessel_is_steered_by_one_policy_and_the_others_by_another():
    own, other = [], []
    given = step()
    acted = with_others(constant(0.25, own), constant(-0.5, other))(given)
    assert acted.get(ACTION_KEY)[:, 0].eq(0.25).all() and acted.get(ACTION_KEY)[:, 1:].eq(-0.5).all()
    # Vessels that are not controlled are masked in the environment, but not for who steers them.
    assert other[0].get(MASK_KEY).all() and own[0].get(MASK_KEY).sum() == 2
    assert given.get(MASK_KEY).sum() == 2


def counting(by):
    """A policy whose memory and command grow at every step."""

    def act(given):
        blank = torch.zeros(*given.get(MASK_KEY).shape, 1)
        memory = given.get(MEMORY_KEY, blank) + by
        return given.set(MEMORY_KEY, memory).set(ACTION_KEY, memory.expand(*memory.shape[:-1], 2).clone())

    return act


def test_each_policy_has_a_memory_of_its_own():
    policy, given = with_others(counting(0.25), with_object_slots(counting(-0.5), 2)), step()
    for _ in range(3):
        acted = policy(given)
        given = step()
        for name in MEMORIES:
            given.set((GROUP, name), acted.get((GROUP, name)))
    assert acted.get(ACTION_KEY)[:, 0].eq(0.75).all() and acted.get(ACTION_KEY)[:, 1:].eq(-1.5).all()


def test_a_blind_policy_observes_no_objects():
    seen, given = [], step()
    given.get((GROUP, "observation")).set("duties", torch.ones(2, 3, 5, 12))
    without_objects(constant(0.0, seen))(given)
    observed = seen[0].get((GROUP, "observation"))
    assert not observed["objects_mask"].any() and not observed["objects_state"].any() and observed["self_state"].all()
    assert not observed["duties"].any() and given[GROUP, "observation", "duties"].all()
    assert find_evaluated("blind:orca", "best", CPU) == EvaluatedPolicy("orca", is_blind=True)
    assert find_evaluated("blind:orca", "best", CPU).label == "blind:orca"
    with pytest.raises(ConfigError, match=r"^orka: neither a checkpoint nor a baseline"):
        find_evaluated("blind:orka", "best", CPU)


def test_a_policy_that_observes_more_than_objects_cannot_be_blind():
    scanning = replace(WORLD, sensor=replace(WORLD.sensor, scan_beams=8))
    trained = SimpleNamespace(agent=SimpleNamespace(spec=SimpleNamespace(entries=observation_entries(scanning))))
    with pytest.raises(ConfigError, match=r"^policy='blind:DQN': must be one that observes objects only as such"):
        EvaluatedPolicy("DQN", trained, is_blind=True).make_policy(scanning, ActingOptions())
    with_duties = replace(evaluated("DQN", **{"world.sensor.duties": True}), is_blind=True)
    assert callable(with_duties.make_policy(WORLD, ActingOptions()))
    # What the world offers to others does not matter.
    assert callable(EvaluatedPolicy("orca", is_blind=True).make_policy(scanning, ActingOptions()))


@pytest.mark.heavy
def test_a_blind_policy_steers_as_if_it_were_alone():
    chosen = two_parts()
    steered = (find_evaluated(name, "best", CPU) for name in ("straight", "blind:apf"))
    straight, blind = (run_set(each, chosen, WORLD, ActingOptions(), CPU, "x")[1] for each in steered)
    assert straight.actions.shape == blind.actions.shape
    assert not torch.equal(straight.actions, blind.actions)
    seeing = run_set(find_evaluated("apf", "best", CPU), chosen, WORLD, ActingOptions(), CPU, "x")[1]
    alone = [replace(part, scenarios=part.scenarios.clone()) for part in chosen.parts]
    for part in alone:
        part.scenarios.robot_mask[:, 1:] = False
        part.scenarios.obstacle_mask[:] = False
    single = run_set(
        find_evaluated("apf", "best", CPU), replace(chosen, parts=tuple(alone)), WORLD, ActingOptions(), CPU, "x"
    )[1]
    torch.testing.assert_close(blind.actions[:, :, 0], single.actions[:, :, 0])
    assert not torch.allclose(seeing.actions[:, :, 0], single.actions[:, :, 0])


@pytest.mark.heavy
@pytest.mark.parametrize("own", ["straight", "DQN", "PPO"])
def test_both_policies_do_what_they_would_do(own):
    """Whether they have commands or indices, and other numbers of slots."""
    policy = EvaluatedPolicy(own) if own == "straight" else evaluated(own)
    other = evaluated("DQN", **{"world.sensor.max_objects": 2})
    chosen = replace(make_scenario_set("imazu_own", WORLD, 1, 0))
    chosen = replace(chosen, parts=chosen.parts[:1])
    _, both = run_set(policy, chosen, WORLD, ActingOptions(others=other), CPU, "x")
    _, alone = run_set(policy, chosen, WORLD, ActingOptions(), CPU, "x")
    torch.testing.assert_close(both.actions[0, :, 0], alone.actions[0, :, 0])
    assert not alone.actions[:, :, 1:].any()
    everyone = replace(chosen, parts=tuple(replace(part, only_own=False) for part in chosen.parts))
    narrow = replace(WORLD, sensor=SensorConfig(max_objects=2))
    _, same = run_set(other, everyone, narrow, ActingOptions(), CPU, "x")
    torch.testing.assert_close(both.actions[0, :, 1:], same.actions[0, :, 1:])


def test_what_is_refused():
    scanning = evaluated("PPO", **{"world.sensor.scan_beams": 8})
    with pytest.raises(ConfigError, match=r"--others='PPO': must be a policy that observes self_state"):
        combine_with_others(lambda given: given, scanning, WORLD)
    with pytest.raises(ConfigError, match=r"--others='\.\.\.': must be left out but for suites"):
        evaluate_built_in(
            {"a": EvaluatedPolicy("straight")},
            {"suite": "rules", "episodes": 1, "others": EvaluatedPolicy("orca")},
            CPU,
        )


@pytest.mark.heavy
def test_who_steers_the_others_is_reported(monkeypatch):
    monkeypatch.setattr(scoring, "default_schedule_and_world", lambda _: (EvalSchedule(), WORLD))
    choice = {"suite": "imazu_own", "episodes": 1, "others": EvaluatedPolicy("apf", is_blind=True)}
    evaluation = evaluate_built_in({"straight": EvaluatedPolicy("straight")}, choice, CPU)
    assert evaluation.setting["others"] == "blind:apf"
    assert evaluation.heading == "straight, on imazu_own, seed 0, others blind:apf"
