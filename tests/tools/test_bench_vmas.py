"""The comparison with VMAS, against a stand-in for it."""

import json
import sys

import pytest

from tools import bench_vmas

VMAS = """
import types


class Env:
    def __init__(self, num_envs, n_agents):
        self.num_envs, self.agents = num_envs, [None] * n_agents

    def reset(self):
        print("noise of a library")

    def step(self, actions):
        assert len(actions) == len(self.agents)
        assert all(action.shape == (self.num_envs, 2) for action in actions)


def make_env(name, num_envs, device, continuous_actions, n_agents, seed):
    assert name == "navigation"
    return Env(num_envs, n_agents)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """A Python that finds a module called vmas, which does nothing."""
    (tmp_path / "vmas.py").write_text(VMAS)
    about = tmp_path / "vmas-0.0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: vmas\nVersion: 0.0.1\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_both_are_measured_in_turn(stand_in, tmp_path, capsys):
    out = tmp_path / "vmas.json"
    bench_vmas.main(["--vmas-python", str(stand_in), "--sizes", "2", "4", "--agents", "3",
                     "--obstacles", "1", "--seconds", "0.01", "--repeats", "2", "--threads", "1",
                     "--no-compile", "--json", str(out)])  # fmt: skip
    content = json.loads(out.read_text())
    found = [(row["mode"], row["environments"]) for row in content["rows"]]
    assert found == [("ours", 2), ("vmas", 2), ("ours", 4), ("vmas", 4)]
    ours, theirs = content["best"]
    assert (ours["mode"], theirs["mode"]) == ("ours", "vmas")
    assert len(ours["runs"]) == len(theirs["runs"]) == 2
    ratio = content["ratio"]
    assert 0 < ratio["lowest"] <= ratio["median"] <= ratio["highest"]
    assert content["setting"]["vmas"] == "0.0.1"
    assert "ours to VMAS: " in capsys.readouterr().out


def test_ratio_is_of_runs_that_followed_one_another():
    found = bench_vmas.ratio({"runs": [4.0, 9.0, 8.0]}, {"runs": [2.0, 3.0, 1.0]})
    assert found == {"median": 3.0, "lowest": 2.0, "highest": 8.0}


@pytest.mark.parametrize("python", [[], ["--vmas-python", "absent"]])
def test_without_vmas_it_says_what_it_needs(python):
    with pytest.raises(SystemExit, match="--vmas-python must be the Python of an environment"):
        bench_vmas.main(python)


def test_a_python_without_vmas_is_told():
    with pytest.raises(SystemExit, match="is vmas installed there"):
        bench_vmas.main(["--vmas-python", sys.executable, "--threads", "1"])
