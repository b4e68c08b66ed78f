"""Parts of a log over which a boat's motion is predicted."""

import numpy as np

from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.prediction import prediction_windows


def log_without(rows=(0.0, 0.0), poses=(0.0, 0.0)):
    """A log of 100 s at 5 Hz without the rows, and without the poses, between two times."""
    time = np.round(np.arange(0.0, 100.1, 0.2), 1)
    time = time[(time <= rows[0]) | (time >= rows[1])]
    pose = np.zeros((len(time), 3))
    pose[(time > poses[0]) & (time < poses[1])] = np.nan
    return BoatLog(time, np.zeros((len(time), 2)), pose, True)


def windows(log):
    return [tuple(window) for window in prediction_windows(log, 30.0, (5.0, 20.0)).tolist()]


def test_predictions_end_where_the_commands_are_not_known():
    whole = [(start, min(start + 20.0, 100.0)) for start in np.arange(30.0, 96.0, 5.0)]
    assert windows(log_without()) == whole
    # A prediction also starts 20 s after the actuators have settled, and not within the gap.
    assert windows(log_without(rows=(51.0, 60.0))) == [
        *((start, min(start + 20.0, 51.0)) for start in (30.0, 35.0, 40.0, 45.0)),
        *((start, 100.0) for start in (85.0, 90.0, 95.0)),
    ]


def test_predictions_start_where_poses_are_known():
    starts = [start for start, _ in windows(log_without(poses=(51.0, 60.0)))]
    assert starts == [30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 75.0, 80.0, 85.0, 90.0, 95.0]
