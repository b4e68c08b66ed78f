"""Parts of a log over which a boat's motion is predicted."""

import numpy as np

from tests.train_RL_agents.identification.logs import log_of
from train_RL_agents.identification.prediction import prediction_windows


def windows(log):
    return [tuple(window) for window in prediction_windows(log, 30.0, (5.0, 20.0)).tolist()]


def test_predictions_end_where_the_commands_are_not_known():
    whole = [(start, min(start + 20.0, 100.0)) for start in np.arange(30.0, 96.0, 5.0)]
    assert windows(log_of(seconds=100.1)) == whole
    # A prediction also starts 20 s after the actuators have settled, and not within the gap.
    assert windows(log_of(lambda time: not 51.0 < time < 60.0, seconds=100.1)) == [
        *((start, min(start + 20.0, 51.0)) for start in (30.0, 35.0, 40.0, 45.0)),
        *((start, 100.0) for start in (85.0, 90.0, 95.0)),
    ]


def test_predictions_start_where_poses_are_known():
    starts = [start for start, _ in windows(log_of(has_pose=lambda time: not 51.0 < time < 60.0, seconds=100.1))]
    assert starts == [30.0, 35.0, 40.0, 45.0, 50.0, 55.0, 75.0, 80.0, 85.0, 90.0, 95.0]
