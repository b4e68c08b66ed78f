"""Tracks of the Otter of 60 s against an independent implementation of its source's equations."""

import math

import numpy as np
import pytest
import torch

from marinenav_env import WorldConfig, read_vessel
from marinenav_env.physics.actuators import move, steady_actuator
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.stepping.world import initial_state
from tests.marinenav_env.helpers import CPU
from tests.oracle import otter as oracle

DT, SUBSTEPS, SECONDS = 0.02, 5, 60.0
AHEAD, ASTERN = 0.5 * 24.4 * 9.81, -0.5 * 13.6 * 9.81


def zigzag(time):
    return (100.0, 40.0) if time % 20.0 < 10.0 else (40.0, 100.0)


def stop_and_go(time):
    return (AHEAD, AHEAD) if time < 25.0 else (ASTERN, ASTERN) if time < 35.0 else (60.0, -30.0)


def random_changes(time, values=np.random.default_rng(3).uniform(ASTERN, AHEAD, (12, 2))):
    return tuple(values[int(time // 5.0)])


MANOEUVRES = {
    "straight": lambda time: (AHEAD, AHEAD),
    "circle": lambda time: (AHEAD, 20.0),
    "turning on the spot": lambda time: (50.0, -50.0),
    "zig-zag": zigzag,
    "stop and go": stop_and_go,
    "random": random_changes,
}


def sailed(thrusts):
    """Positions and headings [T, 3] of the simulator's vessel, after every 0.1 s."""
    world = WorldConfig(vessel=read_vessel("otter"))
    parameters, _ = build_parameters([world], 1, CPU, torch.float64)
    scenario = blank_scenarios(1, 1, 0, 0, CPU, torch.float64)
    scenario.robot_mask[:] = True
    state = initial_state(scenario, parameters.rules.core_radius)
    state.actuator = steady_actuator(scenario.thrust, scenario, parameters.vessel, parameters.extras)
    track, turned = [], 0.0
    for step in range(round(SECONDS / (DT * SUBSTEPS))):
        wanted = torch.tensor([[thrusts(step * DT * SUBSTEPS)]], dtype=torch.float64)
        rates = (wanted - state.thrust) / (DT * SUBSTEPS)
        before = float(state.pose[0, 0, 2])
        moved = move(state, rates, scenario, parameters, DT, SUBSTEPS)
        state.pose, state.velocity_water, state.velocity_ground, state.thrust, state.actuator = moved
        turned += math.remainder(float(state.pose[0, 0, 2]) - before, 2.0 * math.pi)
        track.append([*state.pose[0, 0, :2].tolist(), turned])
    return np.array(track)


def expected(thrusts, planar):
    """The same of the source's equations."""
    vessel, track = oracle.Otter(planar), []
    for step in range(round(SECONDS / (DT * SUBSTEPS))):
        wanted = np.array(thrusts(step * DT * SUBSTEPS))
        curve = np.where(wanted > 0.0, oracle.AHEAD, oracle.ASTERN)
        for _ in range(SUBSTEPS):
            vessel.step(np.sign(wanted) * np.sqrt(np.abs(wanted) / curve), DT)
        track.append([vessel.eta[0], vessel.eta[1], vessel.eta[5]])
    return np.array(track)


def difference(thrusts, planar):
    """Largest distance of both tracks, as a share of the path, and the largest difference of the headings (rad)."""
    ours, theirs = sailed(thrusts), expected(thrusts, planar)
    path = np.hypot(*np.diff(theirs[:, :2], axis=0).T).sum()
    apart = np.hypot(*(ours - theirs)[:, :2].T).max()
    return apart / max(path, 2.0), np.abs(ours - theirs)[:, 2].max()


@pytest.mark.parametrize("name", MANOEUVRES)
def test_tracks_are_those_of_the_source_in_the_plane(name):
    share, heading = difference(MANOEUVRES[name], planar=True)
    print(name, share, heading)
    assert share < 0.01
    assert heading < math.radians(3.0)


@pytest.mark.parametrize("name", MANOEUVRES)
def test_tracks_in_six_degrees_of_freedom(name):
    share, heading = difference(MANOEUVRES[name], planar=False)
    print(name, share, heading)
    assert share < 0.1
