"""Recordings against worlds that are played alone, one episode at a time."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from marinenav_env import GROUP, ConfigError, MarineNavEnv
from marinenav_env.config import ActuatorConfig, ColregsConfig, ScenarioConfig, VesselConfig
from marinenav_env.levels import Level
from tests.refusals import refusal
from tests.train_RL_agents.evaluation.helpers import EPISODES, WORLD, to_the_goal
from train_RL_agents.evaluation.running import episodes as episodes_module
from train_RL_agents.evaluation.running.episodes import draw_scenarios, run_episodes
from train_RL_agents.evaluation.running.recording import TENSORS, concatenate, load, record, save
from train_RL_agents.policy_wrapper import QUANTILES_KEY, SCORES_KEY

CPU = torch.device("cpu")
GROUPS = [f"group {index}" for index in range(len(EPISODES))]
OUTCOMES = ["success", "collision", "collision", "timeout", "success", "timeout", "success"]


def recorded(episodes, policy=to_the_goal, **world):
    options = {"name": "to the goal", "groups": GROUPS[: len(episodes)], "continuous": True, "device": CPU}
    return record(policy, episodes, replace(WORLD, **world), **options)


@pytest.fixture(scope="module")
def whole():
    return recorded(EPISODES)


def same(one, other):
    for name in TENSORS:
        actual, expected = getattr(one, name), getattr(other, name)
        assert (actual is None and expected is None) or torch.equal(actual, expected), name
    for name in ("dt", "policy", "groups", "rules", "seed", "reward_scale"):
        assert getattr(one, name) == getattr(other, name), name


def test_recording_changes_no_metric(whole):
    plain = run_episodes(to_the_goal, EPISODES, WORLD, continuous=True, device=CPU)
    for name, value in plain.state_dict().items():
        assert torch.equal(value, whole[0].state_dict()[name]), name


def test_drawn_scenarios_have_the_map_of_the_world():
    world = replace(WORLD, max_steps=1, scenario=ScenarioConfig(width=70.0, height=60.0))
    drawn = draw_scenarios(world, (Level(2, 0, 0, 20.0),), (2,), 0)
    recording = recorded(drawn, max_steps=1, scenario=world.scenario)[1]
    assert recording.map_size.tolist() == [[70.0, 60.0]] * 2


def test_a_recording_says_how_vessels_are_steered(tmp_path):
    steered = ActuatorConfig(steering=("thrusters", "rudder"), angle_limit=0.5, position=(0.0, -2.0))
    world = replace(WORLD, max_steps=1, vessel=VesselConfig(max_thrust=700.0, actuators=steered))
    drawn = draw_scenarios(world, (Level(2, 0, 0, 20.0),), (1,), 0)
    _, recording = recorded(drawn, max_steps=1, vessel=world.vessel)
    assert recording.steering[0].tolist() == [[700.0, 0.0, -2.5], [700.0, 0.5, -2.0]]
    save(recording, tmp_path / "file")
    same(load(tmp_path / "file"), recording)


def test_a_batch_that_shrinks_is_recorded_alike(whole, monkeypatch):
    monkeypatch.setattr(episodes_module, "MIN_BATCH_SIZE", 1)
    shrunk = recorded(EPISODES)[1]
    for name in TENSORS:
        actual, expected = getattr(shrunk, name), getattr(whole[1], name)
        if expected is not None:
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


def test_outcomes_and_lengths(whole):
    episodes, recording = whole
    assert recording.outcomes == OUTCOMES and recording.colregs[:, 6].any()
    assert episodes.success.tolist() == [each == "success" for each in OUTCOMES]
    assert episodes.collision.tolist() == [each == "collision" for each in OUTCOMES]
    assert recording.dt == 0.5
    assert recording.steps.max() == WORLD.max_steps == recording.actions.shape[0]
    # Time, energy and return of the report are sums over what is recorded.
    under_way = recording.active[:-1].sum((0, 2)) * 0.5
    assert under_way.tolist() == pytest.approx((episodes.time * episodes.robots).tolist())
    spent = (recording.thrust[1:].abs().sum(-1) * recording.active[:-1]).sum((0, 2)) * 0.5
    assert spent.tolist() == pytest.approx((episodes.energy * episodes.robots).tolist(), rel=1e-5)
    discount = 0.99 ** torch.arange(len(recording.reward))
    returns = (discount[:, None] * recording.reward.sum(-1)).sum(0)
    assert returns.tolist() == pytest.approx((episodes.returns * episodes.robots).tolist(), rel=1e-4)


@pytest.mark.parametrize("index", range(len(EPISODES)))
def test_every_step_is_that_of_the_world(whole, index):
    recording = whole[1]
    robots, steps = len(EPISODES[index].start), int(recording.steps[index])
    env = MarineNavEnv(WORLD, scenarios=[EPISODES[index]], seed=0)
    step = env.reset()
    for number in range(steps):
        part = {
            name: getattr(recording, name)[number, index, :robots]
            for name in ("self_state", "poses", "thrust", "velocities", "active", "actions")
        }
        own = step[GROUP, "observation", "self_state"][0]
        assert torch.allclose(part["self_state"], own, atol=1e-4)
        assert torch.allclose(part["poses"], env.state.pose[0], atol=1e-4)
        assert torch.allclose(part["velocities"], env.state.velocity_ground[0], atol=1e-5)
        assert torch.allclose(part["thrust"], env.state.thrust[0], atol=1e-2)
        assert torch.equal(part["active"], env.state.active[0])
        acted = to_the_goal(step)
        command = 1000.0 * acted[GROUP, "action"][0] * env.state.active[0, :, None]
        assert torch.allclose(part["actions"], command, atol=1e-1)
        step = env.step(acted)["next"]
        for name in ("collided", "arrived", "colregs"):
            actual = getattr(recording, name)[number, index, :robots]
            assert torch.equal(actual, getattr(env.outcome, name)[0]), name
        reward = recording.reward[number, index, :robots]
        assert torch.allclose(reward, step[GROUP, "reward"][0, :, 0], atol=1e-4)
        phi = recording.phi[number, index, :robots]
        assert torch.allclose(phi, env.outcome.phi[0], atol=1e-4)
        step = step.exclude((GROUP, "reward"))
    over = env.state.collided.any() or not env.state.active.any()
    assert over == (OUTCOMES[index] != "timeout")


def test_after_its_end_an_episode_stands_still(whole):
    recording = whole[1]
    for index, steps in enumerate(recording.steps.tolist()):
        assert (recording.poses[steps:, index] == recording.poses[steps, index]).all()
        assert (recording.thrust[steps:, index] == recording.thrust[steps, index]).all()
        assert not recording.active[steps:, index].any()
        for name in ("self_state", "objects_mask", "actions", "reward", "collided", "phi"):
            assert not getattr(recording, name)[steps:, index].any(), name


def test_things(whole):
    recording = whole[1]
    assert recording.robot_mask.sum(-1).tolist() == [len(each.start) for each in EPISODES]
    assert recording.obstacle_mask.sum(-1).tolist() == [0, 0, 1, 0, 0, 0, 0]
    assert recording.obstacle_position[2, 0].tolist() == [22.0, 25.0]
    assert recording.map_size.tolist() == [[55.0, 55.0]] * len(EPISODES)
    assert recording.goals[1, 2].tolist() == [30.0, 40.0]
    assert recording.vessel_length[0, 0] == 5.0
    assert recording.sensor_range[0, 0] == 20.0
    assert recording.groups == tuple(GROUPS)


def test_cores_are_those_of_the_scenarios():
    cores = [[40.0, 41.0, -3.0], [10.0, 45.0, 0.75]]
    episodes = [replace(EPISODES[4], cores=cores), replace(EPISODES[4], cores=cores[1:])]
    recording = recorded(episodes, max_steps=1)[1]
    assert recording.core_mask.tolist() == [[True, True], [True, False]]
    assert recording.core_circulation.tolist() == [[-3.0, 0.75], [0.75, 0.0]]
    assert recording.core_position[0].tolist() == [each[:2] for each in cores]
    assert recording.core_radius.tolist() == [[0.5, 0.5]] * 2


def test_quantiles_and_scores_of_the_pairs_of_thrust_changes(tmp_path):
    def scoring(step):
        shape = step[GROUP, "mask"].shape
        acted = to_the_goal(step).set(QUANTILES_KEY, torch.arange(3.0).expand(*shape, 3))
        return acted.set(SCORES_KEY, torch.ones(*shape, 25))

    recording = replace(recorded(EPISODES[:2], scoring)[1], reward_scale=0.1)
    assert recording.quantiles.shape == (*recording.reward.shape, 3)
    assert recording.quantiles[0, 0, 0].tolist() == [0.0, 1.0, 2.0]
    assert recording.scores.shape == (*recording.reward.shape, 25)
    assert torch.equal(recording.scores.any(-1), recording.active[:-1])
    assert recording.commands.shape == (2, 25, 2)
    assert recording.commands[1, 7].tolist() == [-500.0, -1000.0]
    assert recording.weights.tolist() == [pytest.approx([-0.1, -0.1])] * 2
    save(concatenate([recording, recording]), tmp_path / "a.npz")
    assert load(tmp_path / "a.npz").commands.shape == (4, 25, 2)
    assert load(tmp_path / "a.npz").reward_scale == 0.1


def test_the_shortest_recording_is_one_step_of_one_episode(tmp_path):
    recording = recorded(EPISODES[4:5], max_steps=1)[1]
    assert (recording.steps.tolist(), recording.seed) == ([1], 0)
    save(recording, tmp_path / "a.npz")
    same(load(tmp_path / "a.npz"), recording)


def test_a_recording_without_episodes_is_refused(whole, tmp_path):
    tensors = {name: getattr(whole[1], name) for name in TENSORS}
    none = {
        name: each.narrow(each.shape.index(len(EPISODES)), 0, 0) for name, each in tensors.items() if each is not None
    }
    save(replace(whole[1], **none, groups=()), tmp_path / "a.npz")
    with pytest.raises(ConfigError, match="steps are out of range"):
        load(tmp_path / "a.npz")


def test_a_recording_holds_the_rules_of_its_world(tmp_path):
    rules = ColregsConfig(crossing_x=(-5.0, 8.0), clearance=2.0)
    recording = recorded(EPISODES[:1], colregs=rules, max_steps=2)[1]
    assert recording.rules == rules
    save(concatenate([recording, recording]), tmp_path / "a.npz")
    assert load(str(tmp_path / "a.npz")).rules == rules


def changed(path, **changes):
    """Write other arrays into a file; of a text, other values of ``about``."""
    with np.load(path) as file:
        arrays = dict(file)
    about = json.loads(str(arrays["about"])) | changes.pop("about", {})
    np.savez(path, **(arrays | changes | {"about": np.array(json.dumps(about))}))


@pytest.mark.parametrize(
    "changes",
    [
        {"poses": np.zeros((3, 7, 3, 3), np.float32)},
        {"poses": np.array("text")},
        {"active": np.zeros((41, 7, 3), np.float32)},
        {"steps": np.full(7, 10**9)},
        {"steps": np.zeros(7, np.int64)},
        {"unknown": np.zeros(3)},
        {"about": {"dt": -1.0}},
        {"about": {"dt": None}},
        {"about": {"groups": ["one"]}},
        {"about": {"groups": 7}},
        {"about": {"policy": 7}},
        {"about": {"seed": "zero"}},
        {"about": {"reward_scale": 0.0}},
        *({"about": {"rules": rules}} for rules in (7, {"unknown": 1}, {"clearance": -1.0}, {"crossing_x": [1.0]})),
        {"goals": np.full((7, 3, 2), np.nan, np.float32)},
        {"weights": np.zeros((7, 3), np.float32)},
    ],
    ids=str,
)
def test_what_does_not_fit_together_is_refused(whole, tmp_path, changes):
    path = tmp_path / "a.npz"
    save(whole[1], path)
    changed(path, **changes)
    message = refusal(load, path)
    assert str(path) in message and len(message) < 400


def test_other_files_are_refused(whole, tmp_path):
    path = tmp_path / "a.npz"
    with pytest.raises(ConfigError, match="No such file or directory"):
        load(path)
    for content in (b"", b"text", b"PK\x03\x04"):
        path.write_bytes(content)
        with pytest.raises(ConfigError, match="not a recording"):
            load(path)
    np.savez(path, poses=np.zeros(3))
    with pytest.raises(ConfigError, match="not a recording"):
        load(path)
    np.savez(path, about=np.array(json.dumps({"format": "other"})))
    with pytest.raises(ConfigError, match="'other': must be a marinenav recording"):
        load(path)
    np.savez(path, about=np.array(json.dumps({"format": "marinenav recording", "version": 3})))
    with pytest.raises(ConfigError, match="version=3: must be 4; record it again"):
        load(path)
    save(whole[1], path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ConfigError, match="not a recording"):
        load(path)


def test_behaviours_are_recorded_where_there_are_some(tmp_path):
    level = Level(3, 0, 0, 0.0, encounter=True, unruly=0.7)
    scenarios = draw_scenarios(WORLD, (level,), (4,), 0)
    _, with_some = recorded(scenarios)
    _, without = recorded(draw_scenarios(WORLD, (Level(2, 0, 0, 20.0),), (2,), 0))
    expected = torch.where(scenarios.scripted, scenarios.behaviour, -1)
    assert torch.equal(with_some.behaviour, expected) and without.behaviour is None and without.onset is None
    torch.testing.assert_close(with_some.onset, scenarios.onset.float())
    both = concatenate([without, with_some])
    assert both.behaviour.tolist() == [[-1, -1, 0]] * 2 + expected.tolist() and not both.robot_mask[:2, 2].any()
    save(both, tmp_path / "both.npz")
    same(load(tmp_path / "both.npz"), both)
