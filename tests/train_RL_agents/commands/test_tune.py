"""marinenav tune with a trainer that takes no time."""

import json
import os
import sys

from tests.train_RL_agents.tiny_runs import TINY
from tests.train_RL_agents.trials import write_space
from train_RL_agents.cli import main
from train_RL_agents.experiments.search import STORAGE


def test_command_runs_the_trials_that_are_missing(tmp_path, fake, capsys):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    argv = [
        "tune",
        "--space",
        str(write_space(tmp_path)),
        "--study",
        str(tmp_path / "study"),
        "-C",
        str(tmp_path / "config.json"),
        "--quiet",
        "--trials",
    ]
    assert main([*argv, "2", "trainer.tau=0.5"]) == 0
    assert main([*argv, "3", "trainer.tau=0.5"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == ["trial 0", "trial 1", "best", "trial 2", "best"]
    assert {run.config.trainer.tau for run in fake.made} == {0.5}
    assert not any(run.config.save_replay for run in fake.made)
    assert (tmp_path / "study" / STORAGE).is_file()
    assert main([*argv, "0"]) == 2
    assert main([*argv, "3"]) == 2
    assert "of the same config" in capsys.readouterr().err


def test_a_job_whose_command_was_killed_begins_no_other_trial(tmp_path, fake, monkeypatch):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    parents = iter([7, 7])
    monkeypatch.setattr(os, "getppid", lambda: next(parents, 1))
    argv = [
        "tune",
        "--space",
        str(write_space(tmp_path)),
        "--study",
        str(tmp_path / "study"),
        "-C",
        str(tmp_path / "config.json"),
        "--quiet",
        "--job",
    ]
    assert main(argv) == 130
    assert len(fake.made) == 1


def test_without_optuna_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    argv = ["tune", "--space", str(write_space(tmp_path)), "--study", str(tmp_path / "study")]
    assert main(argv) == 2
    assert capsys.readouterr().err == (
        "marinenav: error: optuna is not installed, and this needs it: pip install 'marinenav[tune]'\n"
    )
