"""A benchmark's tables in the terminal, and growth in figures and words."""

import io

import pytest
from rich.console import Console

from train_RL_agents.speed.report import growth, setting_table, show


def row(mode, notes):
    return {
        "part": "loop",
        "mode": mode,
        "unit": "env-steps/s",
        "batch": 512,
        "median": 12345.6,
        "lowest": 98.76,
        "highest": 20000.0,
        "ms_per_step": 1.234,
        "compile_seconds": 4.56,
        "notes": notes,
    }


def printed(call):
    stream = io.StringIO()
    call(Console(file=stream, width=200, highlight=False))
    return stream.getvalue()


def test_rates_have_three_digits_and_shares_a_table_of_their_own():
    shares = {"updates/s": 12.345, "share world": 0.5, "share outside": 0.125}
    text = printed(lambda console: show(console, [row("eager", shares), row("captured", {"updates/s": 7.0})]))
    for word in ("12,346", "98.8 to 20,000", "1.23", "4.6", "12.3", "512", "50.0%", "12.5%"):
        assert word in text
    # Within a CUDA graph nothing is told apart.
    assert text.count("captured") == 1
    assert text.count("eager") == 2


def test_the_setting_is_printed_by_name():
    text = printed(lambda console: console.print(setting_table({"threads": 2, "torch": "2.15"})))
    assert [line.split() for line in text.splitlines()] == [["threads", "2"], ["torch", "2.15"]]


def rate(part, mode, median, **sizes):
    return {"part": part, "mode": mode, "median": median, "ms_per_step": 1e3 / median} | sizes


def test_growth_in_figures_and_words():
    rows = [
        rate("world", "eager", 100.0, environments=10),
        rate("world", "eager", 500.0, environments=100),
        rate("collect", "eager", 1.0, environments=10),
        rate("growth", "eager", 50.0, replay=100, batch=4),
        rate("growth", "eager", 44.0, replay=10, batch=4),
        rate("growth", "compiled", 50.0, replay=10),
        rate("growth", "compiled", 40.0, replay=100),
        rate("world", "compiled", 300.0, environments=10),  # one size: no growth
    ]
    world, flat, steep = growth(rows)
    assert (world["per_environment"], world["gain"]) == ([10.0, 5.0], 5.0)
    assert (flat["replay"], flat["flat"]) == ([10, 100], True)
    assert (steep["slowest_to_fastest"], steep["flat"]) == (pytest.approx(1.25), False)
    assert flat["text"].endswith("1.14 times the fastest: flat within 20%")
    assert "per environment 10 to 5 env-steps/s" in world["text"].replace(".0", "")
