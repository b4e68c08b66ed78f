"""marinenav falsify: files, tables, interruptions and refusals."""

import json
import re
import signal
from functools import partial

import pytest
import torch

from marinenav_env import WorldConfig
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main
from train_RL_agents.evaluation.comparing import selection
from train_RL_agents.evaluation.judging import avoidance
from train_RL_agents.evaluation.suites import passing_encounters
from train_RL_agents.experiments import failures
from train_RL_agents.experiments.searches import Trials

FEW = ("--episodes", "72", "--vessels", "2", "--behaviours", "keep")


@pytest.fixture(autouse=True)
def short(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(selection, "WorldConfig", partial(WorldConfig, dt=0.25, substeps=2))
    monkeypatch.setattr(passing_encounters, "INITIAL_DISTANCES", (21.0, 24.0))
    monkeypatch.setattr(passing_encounters, "MAX_STEPS", 30)
    monkeypatch.setattr(avoidance, "DENSE_LIST", avoidance.DENSE_LIST[::41])
    monkeypatch.setattr(failures, "POPULATION_SIZE", 36)


def harmless(evaluated, requested, *given):
    """Outcomes of a policy that never collides."""
    no = torch.zeros(len(requested.num_others), dtype=torch.bool)
    return Trials(5.0 + requested.unit[:, 0, 0], no, no, no, torch.zeros_like(requested.num_others), no, no)


def test_failures_are_written_and_fail_again(tmp_path, capsys):
    assert main(["falsify", "straight", *FEW, "--out", "new/found"]) == 0
    said = capsys.readouterr().out
    assert "Failures of straight among 1 other" in said
    content = json.loads((tmp_path / "new/found/falsify.json").read_text())
    assert content["methods"].keys() == {"cross-entropy", "random"}
    fitted, random = content["methods"].values()
    assert fitted["episodes"] == random["episodes"] == 72 and fitted["failures"] > random["failures"] > 0
    assert content["scenarios"]["written"] == len(content["encounters"]) > 3
    words = ["evaluate", "straight", "--scenarios", "new/found/failures.json", "--strict", "--seed", "0"]
    assert main([*words, "--json", "again.json"]) == 0
    overall = json.loads((tmp_path / "again.json").read_text())["figures"]["overall"]
    assert overall["collision_rate"] == 1.0 and overall["episodes"] == content["scenarios"]["written"]
    page = (tmp_path / "new/found/failures.html").read_text()
    assert page.count('"title": ') == content["scenarios"]["written"]
    capsys.readouterr()
    assert "must be a folder without failures.json" in refused(capsys, "falsify", "straight", "--out", "new/found")


def test_a_policy_that_never_fails_is_said_to(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(failures, "run_encounters", harmless)
    assert main(["falsify", "orca", "--episodes", "400", "--out", "none"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"orca: no failure in 800 episodes \(95%: fewer than 9\.\d+ of 1,000\)", said)
    assert [path.name for path in (tmp_path / "none").iterdir()] == ["falsify.json"]


def test_what_was_found_is_kept_when_it_is_stopped(monkeypatch, tmp_path, capsys):
    def stop(*given):
        signal.raise_signal(signal.SIGINT)
        return harmless(*given)

    monkeypatch.setattr(failures, "run_encounters", stop)
    assert main(["falsify", "orca", "--out", "none"]) == 130
    assert "stopped; what was found until then is kept" in capsys.readouterr().out
    methods = json.loads((tmp_path / "none/falsify.json").read_text())["methods"]
    assert {name: metrics["episodes"] for name, metrics in methods.items()} == {"cross-entropy": 36}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["straight", "--vessels", "9"], "--vessels=9: must be from 2 to 6"),
        (["straight", "--behaviours", "sink"], "--behaviours='sink': must be one or more of keep"),
        (["straight", "--episodes", "0"], "must be from 1 to 100,000, not 0"),
        (["straight", "--seed", "-1"], "--seed=-1: must be from 0 to"),
        (["straight", "--method", "luck"], "invalid choice: 'luck'"),
        (["strait"], "neither a checkpoint nor a baseline"),
    ],
)
def test_what_cannot_be_searched_is_refused(words, sentence, capsys):
    assert sentence in refused(capsys, "falsify", *words, "--out", "x")
