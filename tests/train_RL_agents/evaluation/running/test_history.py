"""The record of evaluations, as a run is told of them."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import Curriculum, MarineNavEnv
from marinenav_env.config import RewardConfig
from marinenav_env.support.validation import replace_settings
from tests.train_RL_agents.tiny_runs import CPU, TINY
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.reading import from_dict
from train_RL_agents.evaluation.running.episodes import make_evaluation_env
from train_RL_agents.evaluation.running.history import WorldEvaluations
from train_RL_agents.run.checkpoint import load_policy
from train_RL_agents.utils.rows import STORED_NAMES

CONFIG = from_dict(TINY | {"trainer": TINY["trainer"] | {"reward_scale": 0.5}})


class Run:
    """Notes what it is told."""

    config = CONFIG

    def __init__(self, path):
        self.checkpoints, self.calls = path, []
        self.writer = self

    def __getattr__(self, name):
        def note(*given):
            self.calls.append((name, *given))
            return name == "add_policy"

        return note

    def all(self, name):
        """What it was told in calls of a method."""
        return [given for called, *given in self.calls if called == name]


@pytest.fixture
def run(tmp_path):
    return Run(tmp_path)


@pytest.fixture
def history(run):
    return WorldEvaluations(run, CPU)


@pytest.fixture(scope="module")
def agent():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return make_agent(CONFIG, CONFIG.world.vessel.num_actions, CPU)


@pytest.mark.heavy
def test_a_compiled_world_runs_the_fixed_set(history, agent, tmp_path):
    env = MarineNavEnv(CONFIG.world, 4, scenarios=Curriculum(CONFIG.training_schedule.levels), continuous=False, seed=0)
    steps = []
    step = env.world.step
    env.world.step = lambda *given: steps.append(len(given[0].now)) or step(*given)
    run = Run(tmp_path)
    run.config = replace_settings(CONFIG, {"execution.compile": True})
    batched = WorldEvaluations(run, CPU, env)
    for each in (history, batched):
        each.evaluate(agent)
    assert set(steps) == {4}
    torch.testing.assert_close(*(each.episodes[0].state_dict() for each in (history, batched)))


def test_other_rewards_than_those_of_the_training_have_compiled_code_too(history, agent, tmp_path, monkeypatch):
    world = replace(CONFIG.world, reward=RewardConfig(give_way_penalty=-1.0))
    levels = Curriculum(CONFIG.training_schedule.levels)
    training = MarineNavEnv(world, 2, scenarios=levels, continuous=False, seed=0)
    created, stepped = [], []

    def make(scenarios, world, compile_step=False, **options):
        env = make_evaluation_env(scenarios, world, **options)
        step = env.world.step
        env.world.step = lambda *given: stepped.append(compile_step) or step(*given)
        created.append((compile_step, env.num_envs))
        return env

    run = Run(tmp_path)
    run.config = replace_settings(CONFIG, {"execution.compile": True})
    monkeypatch.setattr("train_RL_agents.evaluation.running.history.make_evaluation_env", make)
    own = WorldEvaluations(run, CPU, training)
    for each in (history, own):
        each.evaluate(agent)
    assert created == [(False, 3), (False, 3), (True, 3)] and True in stepped
    torch.testing.assert_close(*(each.episodes[0].state_dict() for each in (history, own)))


def test_a_record_has_metrics_arrays_and_the_policy(history, run, agent):
    for env_steps in (80, 160):
        history.evaluate(agent)
        overall, best = history.record(agent, env_steps, {"wall_time": 1.5})
    assert best  # as the run says
    table = history.episodes[1].table()
    assert overall == table["overall"] and overall["avg_time"] is None
    levels = {f"success_rate_level_{number}": table[f"level {number}"]["success_rate"] for number in (1, 2)}
    row = {"env_steps": 160, "wall_time": 1.5, **overall, **levels}
    assert [each["env_steps"] for each in history.rows] == [80, 160] and history.rows[1] == row
    rows, arrays = run.all("write_evaluations")[1]
    assert rows is history.rows and arrays["timesteps"] == [80, 160]
    for column in STORED_NAMES.keys() - {"grounding"}:
        expected = [getattr(each, column).tolist() for each in history.episodes]
        assert arrays[STORED_NAMES[column]].tolist() == expected, column
    scalars, at = run.all("log")[1]
    assert at == 160 and scalars["Result/1_success_rate"] == overall["success_rate"]
    assert scalars["eval/success_rate_level_2"] == levels["success_rate_level_2"]
    assert scalars["eval/episodes"] == 3
    assert run.all("add_policy")[1] == ["policy_000000000160.pt", 160, overall]
    loaded = load_policy(run.checkpoints / "policy_000000000160.pt")
    assert loaded.env_steps == 160 and loaded.metrics == overall and loaded.config == CONFIG


@pytest.mark.parametrize(("agents", "created"), [((0, 0), 1), ((0, 1, 1, 0), 3)])
def test_on_a_gpu_an_agent_is_evaluated_by_one_captured_step(history, agent, monkeypatch, agents, created):
    evaluations, used = [], []
    history.evaluate(agent)
    (episodes,) = history.episodes

    def evaluation_of(policy, env, seed, compiled, **options):
        assert compiled is None
        number = len(evaluations)
        evaluations.append((seed, options))
        return SimpleNamespace(run=lambda progress: used.append(number) or episodes)

    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    monkeypatch.setattr("train_RL_agents.evaluation.running.history.EpisodeRunner", evaluation_of)
    kinds = [make_agent(CONFIG, 25, CPU) for _ in range(2)]
    for each in agents:
        history.evaluate(kinds[each])
    assert len(evaluations) == created == used[-1] + 1
    assert evaluations[0] == (CONFIG.eval_schedule.seed, {"execution": CONFIG.execution})
