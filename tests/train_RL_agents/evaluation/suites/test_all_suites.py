"""Evaluation in all frozen suites: its summary, failures, and the file of its figures."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from marinenav_env import WorldConfig
from tests.train_RL_agents.evaluation.helpers import episodes, two_suites
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main
from train_RL_agents.evaluation.comparing import figures, scoring
from train_RL_agents.evaluation.comparing.figures import figures_text
from train_RL_agents.evaluation.comparing.tables import summary_table, worst_groups
from train_RL_agents.evaluation.judging.failures import EpisodeWatch
from train_RL_agents.evaluation.suites.frozen import FROZEN_SEED, FROZEN_SUITES, frozen_world


def test_the_summary_has_a_row_for_each_suite():
    table = summary_table(two_suites())
    assert [row[:3] for row in table.cells] == [
        ["currents", "20", "0.750 [0.531, 0.888]"],
        ["imazu", "20", "0.500 [0.299, 0.701]"],
    ]
    assert table.cells[1][-3:] == ["1 of 2", "0.75 [0.50, 0.90]", "0.125 [0.100, 0.250]"]


def test_the_groups_with_the_least_success_come_first():
    rows = worst_groups(two_suites(), 9)
    assert [(row["suite"], row["group"]) for row in rows] == [("imazu", "case 2"), ("currents", "all")]


def test_a_file_has_counts_and_intervals_of_every_group(monkeypatch, tmp_path):
    monkeypatch.setattr(figures, "git_revision", lambda: ("0123abc", ""))
    path = tmp_path / "figures.json"
    path.write_text(figures_text(two_suites()))
    content = json.loads(path.read_text())["policies"]["mine"]
    assert content["agent"] == "DQN" and content["sha256"] is None
    suite = content["suites"]["imazu"]
    assert suite["scenarios"] == "0123456789abcdef" * 2 and suite["astern"] == 0.75
    assert suite["situations_without_collision"] == [1, 2] and content["suites"]["currents"]["astern"] == 0.25
    group = suite["groups"]["case 2"]
    assert group["success"] == [0, 10, 0.0, 0.27753] and group["collision"] == [10, 10, 0.72247, 1.0]
    assert group["rules_kept"] == [0.75, 0.5, 0.9] and "delay" not in group
    assert suite["groups"]["overall"]["hours_per_broken_duty"] == [0.125, 0.1, 0.25]
    assert len([line for line in path.read_text().splitlines() if '"success"' in line]) == 5


def test_failures_are_those_of_the_worst_groups_with_their_tracks():
    watch, env = EpisodeWatch(), SimpleNamespace(config=WorldConfig())
    for step in range(4):
        rows = torch.tensor([0, 1, 2, 3]) if step < 2 else torch.tensor([1, 3])
        pose = torch.stack((rows * 10.0 + step, rows * 0.0, rows * 0.0), -1)[:, None].repeat(1, 2, 1)
        active = torch.ones(len(rows), 2, dtype=torch.bool)
        active[:, 1] = step < 2
        state = SimpleNamespace(pose=pose, active=active, velocity_ground=torch.full_like(pose, -1.0))
        now = SimpleNamespace(now=SimpleNamespace(state=state))
        watch(SimpleNamespace(rows=rows, before=now, after=now), env)
    chosen = SimpleNamespace(groups=("a", "b"), parts=[SimpleNamespace(scenarios=range(4))])
    found = watch.failures(episodes("sctc", 2), chosen)
    assert [(each.group, each.number, each.has_collision) for each in found] == [
        ("b", 1, True),
        ("a", 2, False),
        ("b", 3, True),
    ]
    assert watch.value == 1.0
    assert [track[:, 0].tolist() for track in found[0].tracks] == [[10.0, 12.0], [10.0]]


@pytest.mark.heavy
def test_frozen_suites_are_run_with_their_seed(monkeypatch, tmp_path, capsys):
    few = {name: FROZEN_SUITES[name] for name in ("currents", "imazu_ntnu_own")}
    monkeypatch.setattr(scoring, "FROZEN_SUITES", few)
    monkeypatch.setattr(
        scoring, "frozen_world", lambda own: replace(frozen_world(own), max_steps=70, dt=0.25, substeps=2)
    )
    monkeypatch.chdir(tmp_path)
    words = ["evaluate", "straight", "apf", "--suite", "all", "--episodes", "1", "-D", "cpu", "--json", "a.json"]
    assert main([*words, "--report", "a.html", "--csv", "a.csv", "--markdown", "a.md"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("currents: straight, success ") and "\nimazu_ntnu_own  straight " in shown
    content = json.loads((tmp_path / "a.json").read_text())
    for policy in content["policies"].values():
        assert policy["suites"].keys() == few.keys()
        assert {suite["seed"] for suite in policy["suites"].values()} == {FROZEN_SEED}
    groups = content["policies"]["straight"]["suites"]["imazu_ntnu_own"]["groups"]
    collisions, episodes, *_ = groups["overall"]["collision"]
    assert 11 < collisions <= episodes == 22
    assert (tmp_path / "a.html").read_text().count("<figure>") > 6
    assert (tmp_path / "a.csv").read_text().startswith("suite,group,policy,")
    assert "on imazu_ntnu_own, seed 20261" in (tmp_path / "a.md").read_text()


@pytest.mark.heavy
def test_a_report_of_levels_has_pictures_of_failures(tmp_path):
    path = tmp_path / "a.html"
    assert main(["evaluate", "straight", "--levels", "6", "--episodes", "3", "-D", "cpu", "--report", str(path)]) == 0
    assert "level 6, episode 0: collision" in path.read_text()


def test_options_that_frozen_suites_do_not_have_are_refused(capsys):
    sentence = refused(capsys, "evaluate", "apf", "--suite", "all", "--seed", "3")
    assert "argument --seed: not allowed with --suite all" in sentence
