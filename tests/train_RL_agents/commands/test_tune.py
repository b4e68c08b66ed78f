"""marinenav tune with a trainer that takes no time."""

import json
import sys

import pytest

from tests.train_RL_agents.tiny_runs import TINY
from tests.train_RL_agents.trials import FakeRunner, write_space
from train_RL_agents.cli import main
from train_RL_agents.experiments.search import BEST_CONFIG_NAME, STORAGE_NAME


def command(tmp_path, *words):
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    return [
        "tune",
        "--space",
        str(write_space(tmp_path)),
        "--study",
        str(tmp_path / "study"),
        "-C",
        str(tmp_path / "config.json"),
        *words,
    ]


def test_command_runs_the_trials_that_are_missing(tmp_path, monkeypatch, capsys):
    pytest.importorskip("optuna", reason="needs the extra tune")
    runners = []
    monkeypatch.setattr(
        "train_RL_agents.experiments.runner.Runner",
        lambda *arguments: runners.append(FakeRunner(*arguments)) or runners[-1],
    )
    argv = command(tmp_path, "--trials")
    assert main([*argv, "2", "trainer.tau=0.5"]) == 0
    assert main([*argv, "3", "trainer.tau=0.5"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == ["trial 0", "trial 1", "best", "trial 2", "best"]
    configs = [config for runner in runners for config in runner.made]
    assert {config.trainer.tau for config in configs} == {0.5}
    assert not any(config.save_replay for config in configs)
    assert (tmp_path / "study" / STORAGE_NAME).is_file()
    assert main([*argv, "0"]) == 2
    assert main([*argv, "3"]) == 2
    assert "of the same config" in capsys.readouterr().err


@pytest.mark.slow
def test_trials_in_processes_of_their_own_are_pruned_and_the_best_is_kept(tmp_path, monkeypatch, capfd):
    optuna = pytest.importorskip("optuna", reason="needs the extra tune")
    monkeypatch.setattr(optuna.Trial, "should_prune", lambda trial: trial.number == 0)
    assert main(command(tmp_path, "--trials", "3", "--jobs", "2", "--quiet")) == 0
    printed = sorted(capfd.readouterr().out.splitlines())
    assert [line.split(" success")[0] for line in printed] == [
        printed[0].split(" success")[0],
        "trial 0: pruned at",
        "trial 1:",
        "trial 2:",
    ]
    assert printed[0].startswith("best: trial ")
    assert (tmp_path / "study" / BEST_CONFIG_NAME).is_file()


def test_without_optuna_it_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    argv = ["tune", "--space", str(write_space(tmp_path)), "--study", str(tmp_path / "study")]
    assert main(argv) == 2
    assert capsys.readouterr().err == (
        "marinenav: error: optuna is not installed, and this needs it: pip install 'marinenav[tune]'\n"
    )
