"""A study's file, and the runs and evaluations that it lacks."""

import json
from dataclasses import replace

import pytest

from marinenav_env import ConfigError
from tests.refusals import refusal
from tests.train_RL_agents.tiny_runs import CPU, TINY, train
from train_RL_agents.experiments.seeds import resumed_runs
from train_RL_agents.experiments.study import (
    Suite,
    env_steps_done,
    evaluate_runs,
    read_study,
    run_folders,
    unfinished_runs,
)
from train_RL_agents.run.run_folder import RunFolder

ROOM = {"world.scenario.width": 55.0, "world.scenario.height": 55.0}
"""For the published levels."""


@pytest.fixture
def file(tmp_path):
    """A study of a tiny agent with two settings and two seeds."""
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    content = {
        "agents": [str(tmp_path / "tiny.json")],
        "seeds": [0, 1],
        "settings": {"usual": {}, "short": {"trainer.gamma": 0.5}},
        "common": {"total_timesteps": 80, **ROOM},
        "suites": {"fresh": {"episodes": 1, "seed": 3}},
    }
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(content))
    return path


def change(file, **values):
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_groups_are_agents_by_settings(file):
    study = read_study(file)
    gammas = {name: config.trainer.gamma for name, config in study.groups.items()}
    assert gammas == {"tiny, usual": 0.99, "tiny, short": 0.5}
    assert {config.total_timesteps for config in study.groups.values()} == {80}
    assert (study.seeds, study.evaluated_policy) == ((0, 1), "latest")
    assert study.suites == (Suite("fresh", 1, 3),)


def test_configurations_that_are_shipped_have_names(file):
    change(file, agents=["iqn", "AC-IQN"], settings={"": {}})
    groups = read_study(file).groups
    assert {name: config.agent_type for name, config in groups.items()} == {"iqn": "IQN", "AC-IQN": "AC-IQN"}


def test_all_are_evaluated_alike_and_trained_as_configured(file):
    penalties = {"world.reward.astern_penalty": -2.0, "world.sensor.duties": True, "agent.memory.kind": "frames"}
    change(file, agents=["iqn", "ppo"], settings={"usual": {}, "strict": penalties})
    iqn, strict, ppo, _ = read_study(file).groups.values()
    assert iqn.eval_schedule == strict.eval_schedule == ppo.eval_schedule
    assert sum(ppo.eval_schedule.num_episodes) == 60
    assert iqn.world.reward == strict.world.reward == ppo.world.reward
    assert strict.training.reward.astern_penalty == -2.0
    assert iqn.training.reward.astern_penalty == 0.0 and ppo.training.reward.collision_penalty == -100.0


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"agent": ["iqn"]}, "agent"),
        ({"agents": ["nothing"]}, "a JSON file or"),
        ({"seeds": [1, 1]}, "different whole numbers"),
        ({"settings": {"a": 1}}, "settings.a"),
        ({"settings": {"a": {"eval_schedule.seed": 1}}}, "settings.a='eval_schedule': must be stated in common"),
        ({"common": {"trainer.wrong": 1}}, "there is no such setting"),
        ({"suites": {}}, "one or more"),
        ({"suites": {"fresh": {}}}, "given a seed"),
        ({"suites": {"paper": {"size": 1}}}, "episodes, seed or neither"),
        ({"suites": {"rules": {"episodes": 0}}}, "suites.rules.episodes=0: must be at least 1"),
        ({"settings": {"a": {}, "b": {"world.substeps": 1}}}, "b='world.substeps': must be that of"),
        ({"which": "first"}, "latest or best"),
        ({"settings": {"a b": {}, "a_b": {}}}, "names"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(file, values, said):
    change(file, **values)
    assert said in refusal(read_study, file)


def test_environments_of_others_are_refused(file):
    (file.parent / "tiny.json").write_text(json.dumps({"agent_type": "DQN"}))
    change(file, common={"env.name": "gymnasium:CartPole-v1"})
    with pytest.raises(ConfigError, match="must be marinenav for studies"):
        read_study(file)


@pytest.mark.usefixtures("surroundings")
def test_only_what_is_missing_is_trained_and_evaluated(file, tmp_path, monkeypatch):
    study, out = read_study(file), tmp_path / "out"
    runs = {run.name: run for run in unfinished_runs(study, out, ["marinenav"])}
    assert list(runs) == [f"tiny, {name}, seed {seed}" for name in ("usual", "short") for seed in (0, 1)]
    done = run_folders(study, out)["tiny, short", 1]
    assert runs["tiny, short, seed 1"].folder.path == done
    assert evaluate_runs(study, out, CPU) == {"fresh": {}}
    train(RunFolder.open(done))
    assert env_steps_done(done) == 80
    assert "tiny, short, seed 1" not in [run.name for run in unfinished_runs(study, out, ["marinenav"])]
    found = evaluate_runs(study, out, CPU)
    ((key, content),) = found["fresh"].items()
    assert key == ("tiny, short", 1)
    assert len(content["success"]) == len(content["group"]) == 6
    monkeypatch.setattr("train_RL_agents.experiments.study.run_set", None)  # not again
    assert evaluate_runs(study, out, CPU) == found
    (cache,) = (out / "evaluations").iterdir()
    cache.write_text(json.dumps(content | {"scenarios": "0" * 32}))  # of a study whose first group had another world
    with pytest.raises(TypeError, match="not callable"):
        evaluate_runs(study, out, CPU)
    assert [run.overrides for run in unfinished_runs(study, out, ["marinenav"])] == [[]] * 3
    changes = {"total_timesteps": 160, "eval_freq": 40, "loggers": ("csv",), "monitor": False}
    other = {name: replace(each, **changes) for name, each in study.groups.items()}
    runs = {run.name: run for run in unfinished_runs(replace(study, groups=other), out, ["marinenav"])}
    (resumed,) = resumed_runs(done, runs["tiny, short, seed 1"].overrides, quiet=True)
    assert {key: getattr(resumed.folder.config, key) for key in changes} == changes
    shorter = {name: replace(each, total_timesteps=72) for name, each in study.groups.items()}
    with pytest.raises(ConfigError, match=r"total_timesteps=72: must be at least 80, as .* another --out"):
        unfinished_runs(replace(study, groups=shorter), out, ["marinenav"])


@pytest.mark.parametrize("key", ["agent.hidden_sizes", "trainer.learning_rate"])
def test_a_run_with_other_settings_is_refused(file, tmp_path, key):
    out = tmp_path / "out"
    unfinished_runs(read_study(file), out, ["marinenav"])
    values = {"agent.hidden_sizes": [8], "trainer.learning_rate": 0.5}
    change(file, common={"total_timesteps": 80, **ROOM, key: values[key]})
    with pytest.raises(ConfigError, match=rf"{key}.*another --out"):
        unfinished_runs(read_study(file), out, ["marinenav"])


def test_runs_that_will_not_fit_together_are_refused_before_there_is_a_folder(file, tmp_path, monkeypatch):
    monkeypatch.setattr("train_RL_agents.experiments.memory_plan.free_host_memory", lambda: 10**7)
    with pytest.raises(ConfigError, match="to fit"):
        unfinished_runs(read_study(file), tmp_path / "out", ["marinenav"], 2)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("surroundings")
def test_a_run_that_is_made_again_is_evaluated_again(file, tmp_path):
    change(file, seeds=[0], settings={"": {}})
    study, out = read_study(file), tmp_path / "out"
    (path,) = run_folders(study, out).values()
    unfinished_runs(study, out, ["marinenav"])
    train(RunFolder.open(path))
    before = evaluate_runs(study, out, CPU)
    path.rename(tmp_path / "moved")
    change(file, common={"total_timesteps": 80, **ROOM, "trainer.gamma": 0.5})
    study = read_study(file)
    unfinished_runs(study, out, ["marinenav"])
    train(RunFolder.open(path))
    ((_, old),), ((_, new),) = (before["fresh"].items(), evaluate_runs(study, out, CPU)["fresh"].items())
    assert old["policy"] == new["policy"]
    assert old["sha256"] != new["sha256"]
