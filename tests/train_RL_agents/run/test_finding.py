"""Runs by what a user calls them."""

import shutil
from pathlib import Path

import pytest

from marinenav_env import ConfigError
from tests.train_RL_agents.exporting.helpers import write_policy
from tests.train_RL_agents.tiny_runs import SMALL, refused
from train_RL_agents import load
from train_RL_agents.agents import AGENTS
from train_RL_agents.commands.cli import main
from train_RL_agents.config.reading import from_dict
from train_RL_agents.experiments.seeds import sized_config
from train_RL_agents.run.finding import find_runs_below, resolve_path, single_run
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.shipped import shipped_paths


@pytest.fixture
def three_runs(tmp_path, monkeypatch):
    """Three runs with a policy each, the newest of them runs/b/seed_0, in the present folder."""
    monkeypatch.chdir(tmp_path)
    config = from_dict(SMALL | {"seed": [0, 1]})
    for age, (parent, seed) in enumerate((("a", 0), ("b", 0), ("a", 1))):
        run = RunFolder.create(config, seed, parent=Path("runs") / parent)
        write_policy(run.checkpoints / "policy_1.pt", SMALL["agent_type"], 10 + age, **SMALL)
        run.add_policy("policy_1.pt", 10 + age, {"success_rate": 0.5})
    # An older run that was gone on with.
    RunFolder.open("runs/b/seed_0").add_policy("policy_1.pt", 11, {"success_rate": 0.5})
    return Path("runs")


@pytest.mark.parametrize("name", ["latest", "runs/latest", "./latest", "runs/b/latest", "runs/b"])
def test_the_newest_run_is_meant(three_runs, name):
    assert single_run(Path(name)) == Path("runs/b/seed_0")
    assert load(name).loaded.env_steps == 11


def test_runs_are_found_in_folders_of_training_folders(three_runs):
    assert [str(run) for run in find_runs_below(three_runs)] == ["runs/b/seed_0", "runs/a/seed_1", "runs/a/seed_0"]
    message = r"a single run, one of \['a/seed_0', 'a/seed_1', 'b/seed_0'\] in it, or runs/latest"
    with pytest.raises(ConfigError, match=message):
        single_run(three_runs)
    with pytest.raises(ConfigError, match=r"one of \['seed_0', 'seed_1'\] in it, or runs/a/latest"):
        load("runs/a")


def test_a_copied_run_is_as_old_as_it_says(three_runs):
    """Copies have the time at which they were copied."""
    shutil.copytree("runs/a/seed_0", "runs/c/seed_0", copy_function=shutil.copyfile)
    assert resolve_path(Path("latest")) == Path("runs/b/seed_0")


def test_a_folder_with_one_run_is_looked_into(three_runs):
    Path("runs/a").rename("elsewhere")
    assert single_run(three_runs) == Path("runs/b/seed_0")
    assert load("runs").loaded.path == load("latest").loaded.path


def test_there_may_be_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert refused(capsys, "evaluate", "latest").startswith("latest: there is no run in runs")
    assert refused(capsys, "info", "x/latest").startswith("x/latest: there is no run in x")
    Path("latest").touch()
    assert resolve_path(Path("latest")) == Path("latest")


def test_the_newest_run_that_has_what_is_needed_is_meant(three_runs, capsys):
    failed = RunFolder.create(from_dict(SMALL), 0, parent=three_runs / "failed").path
    assert resolve_path(Path("latest")) == failed
    assert load("latest").loaded.env_steps == 11
    sized = sized_config(None, ["load_model=latest", "agent_type=DQN", "execution.device=cpu"])
    assert sized.config.load_model == "runs/b/seed_0"
    sentence = refused(capsys, "plot", "latest", "--out", "x")
    assert sentence == f"latest: no run in runs has an evaluation yet; the newest is {failed}"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        *(
            (line, "; did you mean iqn or ac_iqn?")
            for line in ("evaluate iqnn", "export iqnn --out x", "evaluate no/iqnn")
        ),
        ("evaluate runs/x", "runs/x: there is no such run folder or policy file"),
        ("evaluate /nowhere/at/all", "/nowhere/at/all: there is no such run folder or policy file"),
        ("train --resume policy.pt", "is a policy, not a run; load_model=policy.pt starts a new run from its weights"),
    ],
)
def test_what_is_not_found_is_said_with_what_is_alike(three_runs, capsys, line, said):
    Path("policy.pt").touch()
    assert refused(capsys, *line.split()).endswith(said)


@pytest.mark.usefixtures("no_plugins")
def test_a_folder_without_a_policy_says_why(three_runs, capsys):
    run = RunFolder.create(from_dict(SMALL), 0, parent=three_runs / "new").path
    sentence = refused(capsys, "evaluate", str(run))
    assert sentence.startswith(f"{run}: has no policy yet")
    assert sentence.endswith(f"go on with: marinenav train --resume {run}")


def test_shipped_names_are_meant_too():
    assert resolve_path(Path("iqn")) == shipped_paths("pretrained")["iqn"]
    assert {name.lower().replace("-", "_") for name in AGENTS} <= shipped_paths("pretrained").keys()


def test_info_lists_all_runs_of_a_folder(three_runs, capsys):
    assert main(["info", "runs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    found = [line.partition(":")[0] for line in lines if "run, " in line]
    assert found == ["runs/a/seed_0", "runs/a/seed_1", "runs/b/seed_0"]
