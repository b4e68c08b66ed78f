"""The simulation that is fitted: the world's dynamics, with its derivatives."""

from dataclasses import replace

import numpy as np
import pytest

from marinenav_env import read_vessel
from marinenav_env.vessels import vessel_files
from tests.train_RL_agents.identification.helpers import log_of
from train_RL_agents.identification.coefficients import FITTABLE_COEFFICIENTS, choose_coefficients, coefficient_value
from train_RL_agents.identification.simulation import Simulator, interpolate_poses

OTTER = read_vessel("otter")
NAMES = [item.name for item in choose_coefficients(OTTER, True)]
VALUES = np.array([[coefficient_value(OTTER, name) for name in NAMES]])


def run(values, initial, steps=20):
    shares = np.tile([0.6, 0.2], (len(values), steps, 1))
    return Simulator(OTTER, NAMES).simulate_poses(values, initial, np.full((len(values), 2), 0.3), shares)


@pytest.mark.parametrize("name", ["published", *vessel_files()])
def test_the_presets_values_change_nothing(name):
    for position in (0.0, 0.4):
        vessel = read_vessel(name)
        vessel = replace(vessel, actuators=replace(vessel.actuators, position=position))
        values = np.array([[coefficient_value(vessel, key) for key in FITTABLE_COEFFICIENTS]])
        start, held = np.zeros((1, 6)), np.tile([0.6, 0.3], (1, 20, 1))
        given = Simulator(vessel, FITTABLE_COEFFICIENTS).simulate_poses(values, start, held[:, 0], held)
        left_out = Simulator(vessel, ()).simulate_poses(values[:, :0], start, held[:, 0], held)
        assert given == pytest.approx(left_out, abs=1e-9)


def test_yaw_is_not_wrapped_and_times_between_points_are_interpolated(recwarn):
    poses = run(VALUES, np.array([[0.0, 0.0, 6.2, 2.0, 0.0, 0.5]]), 50)
    assert (np.abs(np.diff(poses[0, :, 2])) < 0.2).all() and poses[0, -1, 2] > 6.3
    lost = run(VALUES, np.array([[0.0, 0.0, np.inf, 2.0, 0.0, 0.5]]))
    assert np.isnan(lost[0, 1:, 2]).all() and not recwarn.list
    between = interpolate_poses(poses, np.array([[0.25, 5.0, 99.0]]))
    assert between[0, 0] == pytest.approx(0.5 * (poses[0, 2] + poses[0, 3]))
    assert between[0, 1] == pytest.approx(poses[0, -1], abs=1e-6) and between[0, 2] == pytest.approx(poses[0, -1])


def test_actuators_have_followed_earlier_commands():
    log = log_of(commands=[(0.0, 0.25, 0.25), (38.0, 1.0, 0.25), (39.0, 0.49, 0.25)])
    states = Simulator(OTTER, ("lag",)).actuator_states(log, np.array([37.9, 40.0]), np.array([[1.0], [0.0]]))
    followed = 1.0 - np.exp([-2.0, -1.0])
    # The share of the full shaft speed is the root of that of the thrust.
    assert states[0, 1] == pytest.approx([0.5 + 0.5 * followed[0] - 0.3 * followed[1], 0.5])
    assert states[:, 0] == pytest.approx(0.5) and states[1, 1] == pytest.approx([0.7, 0.5])


def test_a_rudder_turns_at_its_rate():
    ship = read_vessel("cybership2")
    ship = replace(ship, actuators=replace(ship.actuators, angle_rate=0.25, angle_limit=0.5))
    log = log_of(commands=[(0.0, 0.5, 0.0), (20.0, 0.5, 1.0), (30.0, 0.5, -1.0)])
    times = np.array([19.9, 21.0, 22.1, 25.0, 33.0, 40.0])
    angles = Simulator(ship, ()).actuator_states(log, times, np.ones((1, 0)))[0, :, 1]
    assert angles == pytest.approx([0.0, 0.25, 0.5, 0.5, -0.25, -0.5])


def test_substeps_are_about_those_of_the_boats_world():
    assert [Simulator(read_vessel(name), ()).num_substeps for name in ("otter", "published")] == [5, 2]


def test_a_lag_below_zero_is_that_of_ideal_actuators():
    values = np.repeat(VALUES, 2, 0)
    values[:, NAMES.index("lag")] = -1e-5, 0.0
    poses = run(values, np.zeros((2, 6)), 10)
    assert np.isfinite(poses).all() and poses[0] == pytest.approx(poses[1])
