"""marinenav study."""

import json
import sys

import pytest

from tests.train_RL_agents.experiments.test_study import ROOM
from tests.train_RL_agents.tiny_runs import TINY, refused
from train_RL_agents.commands.cli import main
from train_RL_agents.experiments.study_report import PAGE_NAME, TABLE_NAME


@pytest.mark.slow
def test_a_study_from_the_command_line(tmp_path, capfd):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    (tmp_path / "tiny.json").write_text(json.dumps(TINY | {"total_timesteps": 80}))
    file, out = tmp_path / "mine.json", tmp_path / "out"
    content = {
        "agents": [str(tmp_path / "tiny.json")],
        "seeds": [0, 1],
        "common": ROOM,
        "suites": {"fresh": {"episodes": 1, "seed": 0}},
    }
    file.write_text(json.dumps(content))
    argv = ["study", str(file), "--out", str(out), "--jobs", "2"]
    assert main(argv) == 0
    assert "2 runs, 2 of them to be trained" in capfd.readouterr().out
    first = (out / TABLE_NAME).read_text()
    assert main(argv) == 0
    assert capfd.readouterr().out.splitlines() == [
        f"{out}: 2 runs, 0 of them to be trained",
        str(out / PAGE_NAME),
        str(out / TABLE_NAME),
    ]
    assert (out / TABLE_NAME).read_text() == first


def study(tmp_path, *words, **content):
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"agents": [str(tmp_path / "tiny.json")], "common": ROOM} | content))
    return ["study", str(file), "--out", str(tmp_path / "out"), *words]


class FakeRunner:
    """Trains nothing; a signal asks it to stop, or a run fails."""

    created, stopped, status = [], False, 0

    def __init__(self, runs, count, quiet):
        self.created.append((runs, count, quiet))

    def run(self):
        pass

    def print_failures(self, advice):
        return self.status


@pytest.mark.parametrize(("stopped", "status"), [(True, 130), (False, 1), (False, 0)])
def test_the_report_is_written_unless_it_is_stopped(tmp_path, monkeypatch, capsys, stopped, status):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    runner = type("Runner", (FakeRunner,), {"created": [], "stopped": stopped, "status": status})
    monkeypatch.setattr("train_RL_agents.experiments.runner.Runner", runner)
    monkeypatch.setattr("train_RL_agents.experiments.study.evaluate_runs", lambda *given: {})
    monkeypatch.setattr("train_RL_agents.experiments.study_report.write_report", lambda *given: given[1:3])
    assert main(study(tmp_path, "--jobs", "3", "--quiet")) == status
    ((runs, count, quiet),) = runner.created
    assert (len(runs), count, quiet) == (1, 3, True)
    out = tmp_path / "out"
    written = [] if stopped else ["mine", str(out)]
    first = f"{out}: 1 runs, 1 of them to be trained"
    assert capsys.readouterr().out.splitlines() == [first, *written]


def test_what_cannot_be_done_is_refused_before_anything_is_trained(tmp_path, monkeypatch, capsys):
    said = refused(capsys, *study(tmp_path, "--jobs", "0"))
    assert said.startswith("argument --jobs: must be at least 1, not 0")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "pip install 'marinenav[plot]'" in refused(capsys, *study(tmp_path))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("suite", ["paper", "vessels", "weather"])
def test_a_suite_without_room_is_refused_before_anything_is_trained(tmp_path, capsys, suite):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    said = refused(capsys, *study(tmp_path, common={}, suites={suite: {"seed": 0}}))
    assert "level" in said and "the diagonal of the map" in said
    assert not (tmp_path / "out").exists()
