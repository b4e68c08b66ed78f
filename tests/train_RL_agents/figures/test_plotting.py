from itertools import pairwise

import pytest

from train_RL_agents.figures.plotting import draw_levels, write_figures


@pytest.mark.parametrize("groups", [1, 6])
def test_names_of_levels_do_not_overlap(groups):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    levels = ["head-on", "crossing from starboard", "crossing from port", "overtaking", "overall"]
    rows = [
        {"group": str(group), "level": level, "rate": 0.5, "low": 0.4, "high": 0.6}
        for group in range(groups)
        for level in levels
    ]
    figure = draw_levels(rows)
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in figure.axes[0].get_xticklabels()]
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


@pytest.mark.parametrize("name", ["$\\frac$", "cost$"])
def test_names_are_no_formulas(tmp_path, name):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    row = {"level": "level 1", "successes": 1, "episodes": 2, "rate": 0.5, "low": 0.4, "high": 0.6}
    (table, *pictures) = write_figures(tmp_path, {"levels": [{"group": name, **row}]})
    assert name in table.read_text() and all(path.stat().st_size for path in pictures)
