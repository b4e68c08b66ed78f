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
    words = f"--sizes 2 --agents 3 --obstacles 1 --seconds 0.01 --repeats 1 --threads 1 --no-compile --json {out}"
    bench_vmas.main(["--vmas-python", str(stand_in), *words.split()])
    content = json.loads(out.read_text())
    found = [[row[name]["environments"] for name in ("ours", "vmas")] for row in content["rows"]]
    assert found == [[2, 2]]
    ours, theirs = (content["best"][name]["runs"] for name in ("ours", "vmas"))
    assert len(ours) == len(theirs) == 1
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    assert content["ratio"]["highest"] == max(ratios)
    assert content["ratio"]["lowest"] == min(ratios)
    assert content["setting"]["vmas"] == "0.0.1"
    assert "ours to VMAS: " in capsys.readouterr().out


def test_spread_of_runs():
    found = bench_vmas.median_and_range([2.0, 3.0, 8.0])
    assert found == {"median": 3.0, "lowest": 2.0, "highest": 8.0}


@pytest.mark.parametrize("python", ["absent", sys.executable])
def test_without_vmas_it_says_what_it_needs(python):
    with pytest.raises(SystemExit, match="--vmas-python must be the Python of an environment"):
        bench_vmas.main(["--vmas-python", python, "--threads", "1"])
