"""How long a run still takes."""

import pytest

from train_RL_agents.utils.time_left import TimeLeftEstimator, clock_text


def test_it_follows_from_the_measured_rate_and_the_evaluations_to_come():
    left = TimeLeftEstimator(1_000_000, 300_000)
    assert left.remaining_seconds(0) is None
    left.add_log_entry(20_000, 1.0)  # before learning
    assert left.remaining_seconds(20_000) == pytest.approx(49.0)
    left.add_log_entry(20_000, 4.0)
    assert left.remaining_seconds(40_000) == pytest.approx(960_000 / 5_000)
    left.add_evaluation(10.0, 1)
    # At 300,000, 600,000, 900,000 and the end.
    assert left.remaining_seconds(40_000) == pytest.approx(960_000 / 5_000 + 40.0)
    assert left.remaining_seconds(900_000) == pytest.approx(100_000 / 5_000 + 10.0)
    assert left.remaining_seconds(1_000_000) == pytest.approx(0.0)


def test_the_last_evaluation_is_counted_once():
    left = TimeLeftEstimator(600_000, 300_000)
    left.add_log_entry(10, 1.0)
    left.add_evaluation(1.0, 1)
    assert left.remaining_seconds(300_000) == pytest.approx(30_000.0 + 1.0)
    assert left.remaining_seconds(600_000) == 0.0


def test_it_is_steady_when_single_entries_are_not():
    left = TimeLeftEstimator(10_000_000)
    left.add_log_entry(20_000, 0.5)
    for number in range(30):
        left.add_log_entry(20_000, 2.0 if number % 10 else 4.0)
    found = left.remaining_seconds(0)
    left.add_log_entry(20_000, 4.0)
    assert left.remaining_seconds(0) == pytest.approx(found, rel=0.05)


def test_evaluations_take_what_the_latest_ones_took():
    left, paused, found = TimeLeftEstimator(100), 0.0, []
    assert left.mean_evaluation_seconds == 0.0
    for count, seconds in enumerate((9.0, 2.0, 4.0, 3.0, 3.0, 3.0, 7.0), 1):
        paused += seconds
        left.add_evaluation(paused, count)
        found.append(left.mean_evaluation_seconds)
    # The first one takes longer; it counts until there is another.
    assert found == pytest.approx([9.0, 2.0, 3.0, 3.0, 3.0, 3.0, 4.0])


def test_evaluations_before_a_run_was_resumed_count_by_their_mean():
    left = TimeLeftEstimator(100)
    left.add_evaluation(30.0, 10)
    assert left.mean_evaluation_seconds == pytest.approx(3.0)
    left.add_evaluation(35.0, 11)
    assert left.mean_evaluation_seconds == pytest.approx(4.0)
    left.add_evaluation(20.0, 8)  # it went back to a saved state
    assert left.mean_evaluation_seconds == pytest.approx(2.5)
    left.add_evaluation(24.0, 8)  # to that before, from which it took longer
    assert left.mean_evaluation_seconds == pytest.approx(3.0)


def test_durations_are_short():
    assert [clock_text(each) for each in (0.4, 59.6, 3599.0, 3600.0, 36_061.0)] == [
        "0:00",
        "1:00",
        "59:59",
        "1:00:00",
        "10:01:01",
    ]
