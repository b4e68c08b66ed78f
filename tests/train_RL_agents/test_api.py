"""The Python API: the same training and the same metrics as the commands."""

import json
import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from marinenav_env import ConfigError, MarineNavEnv, WorldConfig
from tests.refusals import refusal
from tests.train_RL_agents.exporting.helpers import make_policy
from tests.train_RL_agents.tiny_runs import ROOT, TINY, small_pool, usual_signals
from train_RL_agents import api, compare, load, train
from train_RL_agents.commands.cli import main
from train_RL_agents.config.overrides import flatten

SET = {"levels": [1], "episodes": 2, "seed": 5}


@pytest.fixture
def settings(tmp_path, surroundings):
    return {**TINY, "save_dir": tmp_path, "quiet": True}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run that has ended."""
    with small_pool(), usual_signals():
        return train(**TINY, save_dir=tmp_path_factory.mktemp("runs"), quiet=True)


def test_training_returns_what_it_reached(run):
    assert run.finished
    assert [each["env_steps"] for each in run.evaluations] == [80, 160]
    assert run.best in run.evaluations
    assert repr(run).startswith(f"<TrainedRun {run.folder}: finished, 2 evaluations, best success")
    policy = run.load()
    assert policy.config.agent_type == "DQN"
    assert (policy.name, run.load("latest").name) == (str(run.folder), f"{run.folder} (latest)")  # to be compared
    assert policy.loaded.metrics["success_rate"] == run.best["success_rate"]


def test_a_callback_stops_a_run_which_can_be_resumed(settings):
    run = train(**settings | {"total_timesteps": 80}, callbacks=[lambda trainer: trainer.stop()])
    assert (run.finished, run.evaluations, run.best) == (False, [], {})
    again = train(resume=run.folder, quiet=True)
    assert (again.finished, again.best["env_steps"]) == (True, 80)
    assert again.folder == run.folder


def test_the_documented_trace_names_the_phases(settings, tmp_path, monkeypatch):
    (code,) = re.findall(r"```python\n(# trace\.py\n.*?)```", (ROOT / "docs/performance.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("train_RL_agents.train", lambda agent, callbacks, **_: train(callbacks=callbacks, **settings))
    exec(code.replace("wait=100", "wait=2").replace("active=20", "active=3"), {})
    (path,) = Path("trace").iterdir()
    names = [event["name"] for event in json.loads(path.read_text())["traceEvents"] if event.get("ph") == "X"]
    assert {name: names.count(name) for name in ("collect", "insert", "update")} == {
        "collect": 3,
        "insert": 3,
        "update": 3,
    }


def test_the_documented_search_prunes_trials_and_ends_with_the_best_settings(settings, tmp_path, monkeypatch, capsys):
    optuna = pytest.importorskip("optuna", reason="needs the extra dev")
    (code,) = re.findall(r"```python\n(# search\.py\n.*?)```", (ROOT / "docs/plot_and_tune.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 1)
    runs = []

    def train_briefly(*, callbacks, **options):
        proposed = {key: options[key] for key in ("trainer.learning_rate", "trainer.n_steps")}
        short = {"trainer.learning_starts": 40, "total_timesteps": 80, "eval_freq": 40}
        runs.append(train(callbacks=callbacks, **flatten(settings) | proposed | short))
        return runs[-1]

    monkeypatch.setattr(api, "train", train_briefly)
    names = {}
    exec(code.replace("n_trials=20", "n_trials=3"), names)
    assert [trial.state.name for trial in names["study"].trials] == ["COMPLETE", "PRUNED", "COMPLETE"]
    assert [run.finished for run in runs] == [True, False, True]
    best = names["study"].best_trial
    rate = runs[best.number].load("latest").config.trainer.learning_rate
    assert f"trainer.learning_rate={rate} trainer.n_steps=" in capsys.readouterr().out
    assert best.value == runs[best.number].evaluations[-1]["success_rate"]


def test_metrics_are_those_of_the_command(tmp_path):
    evaluation = load("dqn").evaluate(**SET)
    path = tmp_path / "out.json"
    words = ["--levels", "1", "--episodes", "2", "--seed", "5", "-D", "cpu", "--json", str(path)]
    assert main(["evaluate", "dqn", *words]) == 0
    assert evaluation.metrics == json.loads(path.read_text())["figures"]
    assert evaluation.overall["episodes"] == 2


def test_comparisons_print_as_tables():
    found = compare("straight", load("ppo"), **SET)
    assert [each.name for each in found.results] == ["straight", "ppo"]
    assert "than the first" in str(found)
    assert re.fullmatch(r"<Evaluation on levels, seed 5: straight, success [^;]+; ppo, success [^;]+>", repr(found))
    shown = found._repr_html_()
    assert "than the first" in shown and "<td>ppo</td>" in shown
    first = found.results[0]
    assert repr(first).startswith("<Result of straight, success ")
    assert shown.count("<table>") == first._repr_html_().count("<table>") == 1
    assert {row["policy"] for row in found.rows} == {"straight", "ppo"}


def test_a_policy_that_takes_no_risk_level_refuses_one():
    policy = load("dqn")
    for ask in (lambda: policy.evaluate(**SET, risk=0.5), lambda: policy.act({}, risk=0.5)):
        with pytest.raises(ConfigError, match=r"risk=0.5: must be left out: dqn takes no risk"):
            ask()
    found = compare("iqn", **SET, risk=0.25)
    assert found.results[0].overall != load("iqn").evaluate(**SET).overall
    assert "risk 0.25" in str(found)


@pytest.mark.parametrize("name", ["iqn", "sac"])
def test_a_policy_acts_in_gymnasium_for_one_robot_or_many(name):
    policy = load(name)
    env = gymnasium.make("MarineNav-v0", config=policy.config.world, continuous=policy.continuous)
    seen, _ = env.reset(seed=3)
    action = policy.act(seen)
    assert env.action_space.contains(action.astype(env.action_space.dtype))
    both = policy.act({key: np.stack([each, each]) for key, each in seen.items()})
    assert np.allclose(both[0], action, atol=1e-6)
    env.step(action)


def test_act_remembers_since_the_reset():
    loaded = make_policy("PPO", **{"agent.memory.kind": "gru", "agent.actions": "gaussian"})
    policy = api.Policy("recurrent", loaded)
    env = MarineNavEnv(policy.config.world, num_envs=2, continuous=True, seed=1)
    rollout = env.rollout(4, policy.module, break_when_any_done=False)
    seen, expected = rollout["robots", "observation"], rollout["robots", "action"].numpy()
    active = rollout["robots", "mask"].numpy()

    def difference(step, rows=slice(None), **options):
        found = policy.act({name: each[rows, step].numpy() for name, each in seen.items()}, **options)
        return np.abs(found - expected[rows, step])[active[rows, step]].max()

    for _ in range(2):
        policy.reset()
        assert max(map(difference, range(4))) < 1e-6
    assert difference(0) > 1e-5
    assert difference(0, is_init=np.ones((2, 1), bool)) < 1e-6
    assert refusal(lambda: difference(0, is_init=[True, False])).startswith("is_init=(2,): must be of shape (2, ")
    assert max(difference(step, row, robot=f"robot_{row}") for step in range(3) for row in range(2)) < 1e-6


def test_act_refuses_what_is_not_an_observation():
    policy, seen = load("dqn"), {"self_state": np.zeros(7)}
    with pytest.raises(ConfigError, match="with the entries objects_"):
        policy.act(seen)
    seen |= {"objects_state": np.zeros((5, 4)), "objects_mask": np.zeros(5)}
    with pytest.raises(ConfigError, match=r"objects_state.*must be of shape \(8, 5\)"):
        policy.act(seen)


@pytest.mark.parametrize(("name", "value"), [("dqn", np.nan), ("ppo", np.inf)])
def test_act_refuses_observations_that_are_not_finite(name, value):
    policy = load(name)
    seen = {key: np.zeros(each.shape) for key, each in policy.loaded.agent.spec.entries.items()}
    assert policy.act(seen).shape == ((2,) if policy.continuous else ())
    for key in ("self_state", "objects_state"):
        wrong = {**seen, key: seen[key].copy()}
        wrong[key].flat[1] = value
        with pytest.raises(ConfigError, match=rf"^observation\['{key}'\]=.*: must be finite, at most"):
            policy.act(wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (lambda: load("dqn").evaluate(episodes="3"), "episodes='3': must be a whole number"),
        (lambda: load("dqn").evaluate(episodes=0), "episodes=0: must be at least 1"),
        (lambda: load("dqn").evaluate(levels="easy"), "levels='easy': must be a list of whole numbers"),
        (lambda: load("iqn").act({}, 0.0), "risk=0.0: must be in (0, 1]"),
        (lambda: load("iqn").act({}, "adaptive"), "risk='adaptive': must be in (0, 1]"),
        (lambda: compare("straight", "straight"), "policies='straight': must be given once"),
        (lambda: compare("straight", suite="rules", levels=[1]), "levels and suite='...': must be given one at a time"),
        (lambda: compare("straight", episode=3), "episode=3: must be left out; there are levels, suite"),
        (lambda: compare("straight", seed=1, fresh=True), "fresh and seed='...': must be given one at a time"),
        (lambda: compare("straight", risk=0.5, stochastic=True), "risk and stochastic='...': must be given one at"),
        (lambda: train(agent="X"), "agent_type='X': must be one of"),
        (lambda: train("PPO", agent={"memry": 1}), "agent.memry=1: there is no such setting"),
        (lambda: train(batch_size=3), "batch_size=3: there is no such setting; the closest: trainer.batch_s"),
        (lambda: train(seed=[0, 1]), "seed=(0, 1): must be one number"),
        (lambda: train(config="nope"), "config='nope': must be a JSON file or one of a2c"),
        (lambda: train(resume="run", config="dqn"), "config='dqn': must be left out with resume: a run has its own"),
        (lambda: train(world=WorldConfig()), "world=WorldConfig("),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence_and_leaves_nothing(wrong, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refusal(wrong).startswith(sentence)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("surroundings")
def test_a_run_and_a_configuration_belong_to_their_agents(run, tmp_path):
    with pytest.raises(ConfigError, match="must be left out: PPO has no such setting, only"):
        train("PPO", config="dqn", save_dir=tmp_path, quiet=True)
    sentence = f"agent_type='PPO': must be left out, or DQN: {run.folder} is a run of that agent"
    with pytest.raises(ConfigError, match=re.escape(sentence)):
        train("PPO", resume=run.folder, quiet=True)
    assert train("dqn", resume=run.folder, quiet=True).finished
