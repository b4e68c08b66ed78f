"""The script that measures two checkouts in turn."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.compare_speed import measure_alternating, ratio_text

ROOT = Path(__file__).resolve().parents[2]


def sides(calls, **seconds):
    """A measure that takes so many seconds a step, and notes who was called."""

    def of(side, each):
        return lambda steps: (calls.append((side, steps)), steps * each)[1]

    return {side: of(side, each) for side, each in seconds.items()}


def test_the_first_of_two_runs_alternates_and_a_faster_side_is_above_1():
    calls = []
    assert measure_alternating(sides(calls, old=3.0, new=2.0), 20.0, 2) == [1.5, 1.5]
    assert calls[:2] == [("old", 1), ("new", 1)]
    assert calls[2:6] == [("old", 1), ("new", 1), ("new", 1), ("old", 1)]


def test_both_sides_make_as_many_steps_until_a_run_is_long_enough():
    calls = []
    measure_alternating(sides(calls, old=0.01, new=0.02), 1.6, 1)
    assert [steps for side, steps in calls if side == "old"] == [1, 2, 4, 8, *[16] * 9]
    assert sorted(steps for _, steps in calls)[1::2] == [steps for side, steps in calls if side == "old"]


def test_a_summary_has_the_median_and_the_range():
    assert ratio_text([0.9, 1.0, 1.1]).startswith("new/old 1.000 +- 0.107  (0.900 to 1.100, 3 pairs)")


@pytest.mark.slow
def test_a_checkout_is_as_fast_as_itself():
    words = ". . --parts world --agents PPO --pairs 2 --seconds 0.2 --settings trainer.num_envs=16"
    command = [sys.executable, "tools/compare_speed.py", *words.split(), "execution.compile=false"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert 0.5 < float(done.stdout.partition("new/old ")[2].split()[0]) < 2.0
