"""Segments that a log is divided into."""

import numpy as np

from tests.train_RL_agents.identification.helpers import log_of
from train_RL_agents.identification.shooting import divide_log
from train_RL_agents.identification.simulation import mean_commands


def test_a_whole_log_is_divided_evenly_after_five_seconds():
    assert np.allclose(np.diff(divide_log(log_of(), 45.0, 20.0)), 20.0)
    assert np.allclose(divide_log(log_of(), 45.0, 5.0), [(begin, begin + 5.0) for begin in range(5, 45, 5)])


def test_segments_have_poses():
    late = divide_log(log_of(has_pose=lambda time: time > 29.9), 45.0, 5.0)
    assert np.allclose(late, [(30.0, 35.0), (35.0, 40.0), (40.0, 45.0)])
    early = log_of(lambda time: not 40.1 < time < 42.9, lambda time: time < 15.1)
    assert np.allclose(divide_log(early, 60.0, 5.0), [(5.0, 10.0), (10.0, 15.0)])
    # The poses are missing for a part of each of the times between two gaps.
    between = log_of(lambda time: not (10.1 < time < 12.9 or 20.1 < time < 22.3), lambda time: not 17.5 < time < 22.3)
    assert all(not 10.1 < begin < 22.3 for begin, _ in divide_log(between, 60.0, 5.0))


def test_commands_are_averaged_over_the_steps():
    log = log_of()
    log.commands[:] = np.where(log.time < 20.0, 0.0, 0.8)[:, None]
    commands = mean_commands(log, np.array([19.55]), 15)
    assert np.allclose(commands[0], np.array([[0.0] * 4 + [0.4] + [0.8] * 10] * 2).T)
