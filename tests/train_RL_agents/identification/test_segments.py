"""Segments that a log is divided into."""

import numpy as np

from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.segments import cut_segments, divide_log


def log_of(has_row=lambda time: True, has_pose=lambda time: True):
    """A log of 60 s at 5 Hz with the rows and the poses for which two functions of the time are true."""
    time = np.array([time for time in np.arange(0.0, 60.0, 0.2) if has_row(time)])
    pose = np.zeros((len(time), 3))
    pose[[not has_pose(time) for time in time]] = np.nan
    return BoatLog(time, np.zeros((len(time), 2)), pose, True)


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


def test_segments_begin_with_the_angle_that_a_turning_rudder_has_reached():
    targets = np.zeros((300, 2))
    targets[100:150, 1], targets[150:, 1] = 0.5, -0.5
    parts = [(begin, begin + 5.0) for begin in (19.9, 21.0, 22.1, 25.0, 33.0, 40.0)]
    angles = cut_segments(log_of(), parts, targets, 0.25, 5.0).initial_angles
    assert np.allclose(angles, [0.0, 0.25, 0.5, 0.5, -0.25, -0.5])
