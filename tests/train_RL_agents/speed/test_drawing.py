"""A benchmark as a picture."""

import sys

import pytest

from marinenav_env import ConfigError
from train_RL_agents.speed.drawing import check, draw, write

pytest.importorskip("matplotlib", reason="needs the extra plot")

FACTS = {"processor": "some", "threads": 2, "torch": "2.15", "agent": "DQN", "robots": 6}


def rate(mode, environments, median, **notes):
    return {
        "part": "loop" if notes else "world",
        "mode": mode,
        "unit": "env-steps/s",
        "environments": environments,
        "lowest": median - 10,
        "median": median,
        "highest": median + 10,
        "notes": notes,
    }


def test_a_panel_for_each_part_with_its_lines_or_bars(tmp_path):
    parts = ("world", "policy", "update", "insertion", "sampling", "rest")
    shares = {f"share {name}": 1 / len(parts) for name in parts}
    rows = [rate(mode, count, 100.0 * count) for mode in ("eager", "compiled") for count in (4, 2)]
    content = {"setting": FACTS, "rows": [*rows, rate("eager", 2, 500.0, **shares)]}
    world, loop = draw(content).axes
    assert [axes.get_title() for axes in (world, loop)] == ["world", "loop"]
    for line in world.lines:  # sorted by size
        assert (list(line.get_xdata()), list(line.get_ydata())) == ([2, 4], [200.0, 400.0])
    assert len(world.lines) == 2
    widths = [patch.get_width() for patch in loop.patches]
    assert widths == pytest.approx([1 / 6] * 6)
    write(tmp_path / "bench.png", content)
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    check(tmp_path / "fine.png")
    for path, message in (("bench.gif", "a file ending in"), ("none/bench.png", "in a folder")):
        with pytest.raises(ConfigError, match=message):
            check(tmp_path / path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="matplotlib is not installed"):
        check(tmp_path / "fine.png")
