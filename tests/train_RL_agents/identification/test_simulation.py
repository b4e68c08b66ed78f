"""The simulation that is fitted: the world's dynamics, with its derivatives."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.autograd import forward_ad

from marinenav_env import read_vessel
from marinenav_env.vessels import vessel_files
from tests.oracle import otter
from train_RL_agents.identification.coefficients import FITTABLE_COEFFICIENTS, choose_coefficients, coefficient_value
from train_RL_agents.identification.simulation import Simulator, interpolate_poses, num_substeps

OTTER = read_vessel("otter")
NAMES = [item.name for item in choose_coefficients(OTTER, True)]
VALUES = torch.tensor([[coefficient_value(OTTER, name) for name in NAMES]], dtype=torch.float64)


def run(values, initial, steps=20):
    shares = torch.tensor([0.6, 0.2], dtype=torch.float64).expand(len(values), steps, 2)
    return Simulator(OTTER, NAMES, 2).simulate_poses(
        values, initial, torch.full((len(values), 2), 0.3).double(), shares
    )


@pytest.mark.parametrize("name", ["published", *vessel_files()])
def test_the_presets_values_change_nothing(name):
    for position in (0.0, 0.4):
        vessel = read_vessel(name)
        vessel = replace(vessel, actuators=replace(vessel.actuators, position=position))
        values = torch.tensor([[coefficient_value(vessel, key) for key in FITTABLE_COEFFICIENTS]], dtype=torch.float64)
        start, held = torch.zeros(1, 6).double(), torch.tensor([0.6, 0.3]).double().expand(1, 20, 2)
        given = Simulator(vessel, FITTABLE_COEFFICIENTS, 2).simulate_poses(values, start, held[:, 0], held)
        left_out = Simulator(vessel, (), 2).simulate_poses(values[:, :0], start, held[:, 0], held)
        assert given.numpy() == pytest.approx(left_out.numpy(), abs=1e-9)


@pytest.mark.heavy
def test_tracks_are_those_of_the_source():
    """Of one boat per command, over 20 s from rest."""
    commands = np.array([[100.0, 100.0], [100.0, 30.0], [-40.0, -60.0]])
    shares = commands / np.where(commands < 0.0, -OTTER.min_thrust, OTTER.max_thrust)
    simulator = Simulator(OTTER, (), 5)
    count = len(commands)
    start = torch.zeros(count, 6).double()
    held = torch.from_numpy(shares)[:, None].expand(count, 200, 2)
    poses = simulator.simulate_poses(
        torch.zeros(count, 0).double(), start, torch.zeros(count, 2).double(), held
    ).numpy()
    for command, track in zip(commands, poses, strict=True):
        boat = otter.Otter(True)
        curve = np.where(command > 0.0, otter.AHEAD, otter.ASTERN)
        for _ in range(1000):
            boat.step(np.sign(command) * np.sqrt(np.abs(command) / curve), 0.02)
        path = np.linalg.norm(np.diff(track[:, :2], axis=0), axis=1).sum()
        assert np.hypot(*(track[-1, :2] - boat.eta[:2])) < 0.005 * path
        assert track[-1, 2] == pytest.approx(boat.eta[5], abs=0.05)


@pytest.mark.heavy
def test_differences_are_the_derivatives_of_automatic_differentiation():
    initial = torch.tensor([[1.0, 2.0, 0.3, 1.2, 0.1, 0.2]], dtype=torch.float64)
    for number in range(len(NAMES)):
        step = 1e-5 * max(1.0, abs(float(VALUES[0, number])))
        change = torch.zeros_like(VALUES)
        change[0, number] = step
        ends = run(torch.cat((VALUES + change, VALUES - change)), initial.expand(2, 6), 10)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(VALUES, change / step)
            tangent = forward_ad.unpack_dual(run(dual, initial, 10)).tangent
        difference = (ends[0] - ends[1]) / (2.0 * step)
        if tangent is not None:
            assert difference.numpy() == pytest.approx(tangent[0].numpy(), rel=1e-4, abs=1e-8), NAMES[number]


def test_yaw_is_not_wrapped_and_times_between_points_are_interpolated():
    poses = run(VALUES, torch.tensor([[0.0, 0.0, 6.2, 2.0, 0.0, 0.5]], dtype=torch.float64), 50).numpy()
    assert (np.abs(np.diff(poses[0, :, 2])) < 0.2).all() and poses[0, -1, 2] > 6.3
    between = interpolate_poses(poses, np.array([[0.25, 5.0, 99.0]]))
    assert between[0, 0] == pytest.approx(0.5 * (poses[0, 2] + poses[0, 3]))
    assert between[0, 1] == pytest.approx(poses[0, -1], abs=1e-6) and between[0, 2] == pytest.approx(poses[0, -1])


def test_actuators_have_followed_earlier_commands():
    simulator = Simulator(OTTER, ("lag",), 1)
    values = torch.tensor([[1.0], [0.0]], dtype=torch.float64)
    first = torch.zeros(2, 2).double()
    changes = torch.tensor([[[1.0, 0.5], [-0.4, 0.0]]] * 2, dtype=torch.float64)
    ago = torch.tensor([[2.0, 1.0]] * 2, dtype=torch.float64)
    state = simulator.actuator_states(values, first, changes, ago, torch.tensor([0.3, 0.3])).numpy()
    followed = 1.0 - np.exp([-2.0, -1.0])
    assert state[0] == pytest.approx([followed[0] - 0.4 * followed[1], 0.5 * followed[0]])
    assert state[1] == pytest.approx([0.6, 0.5])


def test_substeps_are_about_those_of_the_boats_world():
    assert num_substeps(OTTER) == 5 and num_substeps(read_vessel("published")) == 2


def test_a_lag_below_zero_is_that_of_ideal_actuators():
    values = VALUES.repeat(2, 1)
    values[:, NAMES.index("lag")] = torch.tensor([-1e-5, 0.0]).double()
    poses = run(values, torch.zeros(2, 6).double(), 10).numpy()
    assert np.isfinite(poses).all() and poses[0] == pytest.approx(poses[1])
