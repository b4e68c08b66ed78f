"""Inputs of the runtime on board as numpy has them: scalars of any precision, lists, no tracks."""

import numpy as np
import pytest

from tests.train_RL_agents.boat.pilots import GOAL, OWN
from train_RL_agents.boat.runtime import Odometry, Tracks


@pytest.mark.parametrize("number", [int, np.float64, np.float32, np.int64, np.asarray])
def test_numbers_of_numpy_are_those_of_python(make_pilot, number):
    def network(inputs):
        seen.append(inputs)
        return np.array([24])

    seen, rows = [], np.array([[15, 25, 1, 0, 2], [18, 20, 0, 0, 1]])
    own, now = Odometry(*map(number, (2, 10, 20, 1, 2, 0, 0))), number(2)
    for given, there in (
        (rows, GOAL),
        (rows.tolist(), list(GOAL)),
        (np.float32(rows), np.array(GOAL)),
        (np.asfortranarray(rows), np.float32(GOAL)),
        (np.repeat(rows, 2, 0)[::2], GOAL),
    ):
        pilot = make_pilot(network=network)
        for later in (0.0, 0.5):
            assert pilot.command(now + later, own, Tracks(now, given), there).stop_reason == ""
    for first, second in zip(seen[2::2], seen[3::2], strict=True):
        for name in first:
            assert first[name].dtype == np.float64
            np.testing.assert_array_equal(first[name], seen[0][name])
            np.testing.assert_array_equal(second[name], seen[1][name])


def test_there_may_be_no_tracks(make_pilot):
    for rows in ([], (), np.zeros(0), np.zeros((0, 5)), np.zeros((0, 4)), [[]]):
        pilot = make_pilot()
        assert pilot.command(0.0, OWN, Tracks(0.0, rows), GOAL).stop_reason == ""
        inputs = pilot.inputs(OWN, Tracks(0.0, rows), GOAL)
        assert not inputs["objects_mask"].any() and not inputs["objects_state"].any()
