"""Growth in figures and words."""

import pytest

from train_RL_agents.benchmark.summary import growth


def row(part, mode, median, **sizes):
    return {"part": part, "mode": mode, "median": median, "ms_per_step": 1e3 / median} | sizes


def test_growth_in_figures_and_words():
    rows = [
        row("world", "eager", 100.0, environments=10),
        row("world", "eager", 500.0, environments=100),
        row("collect", "eager", 1.0, environments=10),
        row("growth", "eager", 50.0, replay=100, batch=4),
        row("growth", "eager", 44.0, replay=10, batch=4),
        row("growth", "compiled", 50.0, replay=10),
        row("growth", "compiled", 40.0, replay=100),
        row("world", "compiled", 300.0, environments=10),  # one size: no growth
    ]
    world, flat, steep = growth(rows)
    assert (world["per_environment"], world["gain"]) == ([10.0, 5.0], 5.0)
    assert (flat["replay"], flat["flat"]) == ([10, 100], True)
    assert (steep["slowest_to_fastest"], steep["flat"]) == (pytest.approx(1.25), False)
    assert flat["text"].endswith("1.14 times the fastest: flat within 20%")
    assert "per environment 10 to 5 env-steps/s" in world["text"].replace(".0", "")
