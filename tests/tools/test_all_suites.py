"""The tables of all suites: the commands, and the page made of their files."""

import json
from pathlib import Path

import pytest

from tools import all_suites

FIGURES = {"success_rate": 0.5, "success_low": 0.25, "success_high": 0.75, "collision_rate": 0.4,
           "timeout_rate": 0.1, "avg_time": None, "avg_energy": 12_345.6,
           "robot_success_rate": 0.875}  # fmt: skip
NAMES = ["pretrained/dqn", "orca"]


def content(suite):
    policies = [{"name": name, "figures": {"a group": FIGURES, "overall": FIGURES},
                 "about": {"checkpoint": "/somewhere/policy.pt" if "/" in name else None}}
                for name in NAMES]  # fmt: skip
    if suite == "rules":
        for policy in policies:
            policy["conduct"] = {"head-on": {"compliance": 0.25}}
    return {"setting": {"seed": 7, "episodes": 8}, "policies": policies}


@pytest.fixture
def marinenav(monkeypatch):
    """Stands in for the command; it keeps what it was called with and writes what it would."""
    calls = []

    def run(words):
        calls.append(words)
        suite = words[words.index("--suite") + 1]
        if suite == "crowd":
            return 2
        Path(words[words.index("--json") + 1]).write_text(json.dumps(content(suite)))
        return 0

    monkeypatch.setattr(all_suites, "marinenav", run)
    monkeypatch.setattr(all_suites, "contenders", lambda: NAMES)
    monkeypatch.chdir(all_suites.ROOT)
    return calls


def test_all_policies_and_baselines_take_part():
    names = all_suites.contenders()
    assert {"pretrained/dqn", "pretrained/ac_iqn", "straight", "apf", "orca"} <= set(names)


def test_commands_have_a_seed_and_the_size_that_the_suite_allows():
    assert all_suites.command("paper", ["a"], 5) == ["evaluate", "a", "--suite", "paper"]
    assert all_suites.command("fresh", ["a"], None)[-2:] == ["--seed", "12345"]
    assert all_suites.command("noise", ["a"], 5)[-2:] == ["--episodes", "5"]
    assert all_suites.command("currents", ["a"], None)[-2:] == ["--episodes", "300"]
    assert all_suites.command("currents", ["a"], 5)[-2:] == ["--episodes", "5"]


def test_what_is_finished_is_not_done_again(marinenav, tmp_path):
    words = ["--suites", "paper", "rules", "--out", str(tmp_path)]
    assert all_suites.main(words) == 0
    assert len(marinenav) == 2
    assert all_suites.main(words) == 0
    assert len(marinenav) == 2
    assert all_suites.main([*words, "--episodes", "1"]) == 0
    assert len(marinenav) == 3  # the size of paper is fixed
    assert all_suites.main([*words, "--episodes", "1", "--again"]) == 0
    assert len(marinenav) == 5
    made = all_suites.read(tmp_path / "results" / "suite_rules.json")
    assert made["command"] == "marinenav evaluate pretrained/dqn orca --suite rules --episodes 1"
    paths = [policy["about"]["checkpoint"] for policy in made["policies"]]
    assert paths == ["pretrained/dqn/policy.pt", None]
    assert {file.suffix for file in (tmp_path / "results").iterdir()} == {".json"}


def test_page_has_a_table_of_all_and_one_of_each(marinenav, tmp_path):
    words = ["--suites", "rules", "paper", "currents", "--out", str(tmp_path)]
    assert all_suites.main(words) == 0
    lines = (tmp_path / "suites.md").read_text().splitlines()
    assert "|  | paper | currents | rules |" in lines
    assert f"| dqn |{3 * ' 0.500 (0.25 to 0.75) |'}" in lines
    assert lines.count("| dqn | 0.875 | 0.875 |") == 1
    assert "| orca | 0.50 | 0.400 | 0.100 | - | 12346 |" in lines
    assert [line for line in lines if line.startswith("## ")] == [
        "## paper", "## currents", "## rules"
    ]  # fmt: skip
    assert "| orca | 0.25 |" in lines


def test_policies_that_a_suite_lacks_are_shown_as_such():
    lines = all_suites.overview({"paper": {"policies": content("paper")["policies"][:1]},
                                 "rules": content("rules")}).splitlines()  # fmt: skip
    assert "| orca | - | 0.500 (0.25 to 0.75) |" in lines


def test_a_suite_that_fails_ends_it(marinenav, tmp_path):
    assert all_suites.main(["--suites", "crowd", "paper", "--out", str(tmp_path)]) == 2
    assert not (tmp_path / "suites.md").exists()
