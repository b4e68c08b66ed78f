from itertools import pairwise

import pytest

from train_RL_agents.figures.plotting import draw_levels


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
