import csv
import sys
from itertools import pairwise

import pytest

from tests.train_RL_agents.figures.test_curves import make_folder
from train_RL_agents.cli import main
from train_RL_agents.figures.plotting import COLOURS, draw_levels, styles


def test_groups_look_different_also_without_colour():
    looks = styles([str(number) for number in range(len(COLOURS))])
    plain = [(str(look["linestyle"]), look["marker"]) for look in looks.values()]
    assert len(set(plain)) == len(COLOURS)
    assert len({look["hatch"] for look in looks.values()}) == len(COLOURS)


def test_command_writes_pictures_and_tables(tmp_path, capsys):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    for name in ("IQN", "DQN"):
        make_folder(tmp_path / name / "training_1" / "seed_0", name)
    out = tmp_path / "out"
    argv = ["plot", str(tmp_path / "IQN"), str(tmp_path / "DQN"), "--out", str(out)]
    assert main(argv) == 0
    names = {f"{name}.{kind}" for name in ("curves", "levels", "iqm", "improvement", "profiles")
             for kind in ("png", "pdf", "csv")}  # fmt: skip
    assert {path.name for path in out.iterdir()} == names
    assert set(capsys.readouterr().out.split()) == {str(out / name) for name in names}
    assert (out / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "levels.pdf").read_bytes().startswith(b"%PDF")
    with (out / "levels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["group"] for row in rows} == {"DQN", "IQN"}


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_names_of_levels_do_not_overlap(groups):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    levels = ["head-on", "crossing from starboard", "crossing from port", "overtaking", "overall"]
    rows = [{"group": str(group), "level": level, "rate": 0.5, "low": 0.4, "high": 0.6}
            for group in range(groups) for level in levels]  # fmt: skip
    figure = draw_levels(rows)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_command_refuses_in_one_sentence(tmp_path, capsys, monkeypatch):
    argv = ["plot", str(tmp_path / "none"), "--out", str(tmp_path / "out")]
    assert main(argv) == 2
    assert "must be a run folder with evaluations.npz" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(argv) == 2
    assert capsys.readouterr().err == (
        "marinenav: error: matplotlib is not installed, and this needs it: "
        "pip install 'marinenav[plot]'\n"
    )
    assert not (tmp_path / "out").exists()
