"""A benchmark's tables in the terminal, growth in numbers and words, and its picture."""

import importlib.util
import io
import sys

import pytest
from rich.console import Console

from marinenav_env import ConfigError
from train_RL_agents.speed.report import (
    check_picture,
    draw_benchmark,
    growth_results,
    print_rates,
    setting_table,
    write_picture,
)

needs_matplotlib = pytest.mark.skipif(not importlib.util.find_spec("matplotlib"), reason="needs the extra plot")


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
    text = printed(lambda console: print_rates(console, [row("eager", shares), row("captured", {"updates/s": 7.0})]))
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


def test_growth_in_numbers_and_words():
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
    world, flat, steep = growth_results(rows)
    assert (world["per_environment"], world["gain"]) == ([10.0, 5.0], 5.0)
    assert (flat["replay"], flat["flat"]) == ([10, 100], True)
    assert (steep["slowest_to_fastest"], steep["flat"]) == (pytest.approx(1.25), False)
    assert flat["text"].endswith("1.14 times the fastest: flat within 20%")
    assert "per environment 10 to 5 env-steps/s" in world["text"].replace(".0", "")


# The picture

FACTS = {"processor": "some", "threads": 2, "torch": "2.15", "agent": "DQN", "robots": 6}


def picture_row(mode, environments, median, **notes):
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


@needs_matplotlib
def test_a_panel_for_each_part_with_its_lines_or_bars(tmp_path):
    parts = ("world", "policy", "update", "insertion", "sampling", "rest")
    shares = {f"share {name}": 1 / len(parts) for name in parts}
    rows = [picture_row(mode, count, 100.0 * count) for mode in ("eager", "compiled") for count in (4, 2)]
    content = {"setting": FACTS, "rows": [*rows, picture_row("eager", 2, 500.0, **shares)]}
    world, loop = draw_benchmark(content).axes
    assert [axes.get_title() for axes in (world, loop)] == ["world", "loop"]
    for line in world.lines:  # sorted by size
        assert (list(line.get_xdata()), list(line.get_ydata())) == ([2, 4], [200.0, 400.0])
    assert len(world.lines) == 2
    widths = [patch.get_width() for patch in loop.patches]
    assert widths == pytest.approx([1 / 6] * 6)
    write_picture(tmp_path / "bench.png", content)
    assert (tmp_path / "bench.png").read_bytes().startswith(b"\x89PNG")


@needs_matplotlib
def test_what_cannot_be_drawn_is_refused_before_anything_is_measured(tmp_path, monkeypatch):
    check_picture(tmp_path / "fine.png")
    for path, message in (("bench.gif", "a file ending in"), ("none/bench.png", "in a folder")):
        with pytest.raises(ConfigError, match=message):
            check_picture(tmp_path / path)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="matplotlib is not installed"):
        check_picture(tmp_path / "fine.png")
