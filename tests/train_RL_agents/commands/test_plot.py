"""marinenav plot."""

import csv
import sys

import pytest

from tests.train_RL_agents.figures.helpers import make_folder
from tests.train_RL_agents.tiny_runs import refused
from train_RL_agents.commands.cli import main


def test_command_writes_pictures_and_tables(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    for name in ("IQN", "DQN"):
        make_folder(tmp_path / name / "training_1" / "seed_0", name)
    out = tmp_path / "out"
    argv = ["plot", str(tmp_path / "IQN"), str(tmp_path / "DQN"), "--out", str(out)]
    assert main(argv) == 0
    names = {f"{name}.{kind}" for name in ("curves", "levels", "iqm") for kind in ("png", "pdf", "csv")}
    assert {path.name for path in out.iterdir()} == names
    assert set(capsys.readouterr().out.split()) == {str(out / name) for name in names}
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "levels.pdf").read_bytes().startswith(b"%PDF")
    with (out / "levels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["group"] for row in rows} == {"DQN", "IQN"}


def test_command_refuses_in_one_sentence(tmp_path, capsys, monkeypatch):
    argv = ["plot", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
    assert "must be a run folder with evaluations.npz" in refused(capsys, *argv)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    said = "matplotlib is not installed, and this needs it: pip install 'marinenav[plot]'"
    assert refused(capsys, *argv) == said
    assert not (tmp_path / "out").exists()
