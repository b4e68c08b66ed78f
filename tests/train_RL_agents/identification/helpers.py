"""Logs of boats that slow implementations of others sail, with noise, jitter and missing samples; a made-up result."""

import math
from dataclasses import replace

import numpy as np

from marinenav_env import read_vessel
from marinenav_env.vessels import read_vessel_file
from tests.oracle import otter
from tests.oracle.dynamics import VesselParams, control_step
from train_RL_agents.identification.coefficients import choose_coefficients, plan_manoeuvres, timed_commands
from train_RL_agents.identification.fit import Estimate, Fit, HorizonError, Prediction, Verdict
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.report import Identification

HEADER = "time,left,right,x,y,yaw"


def with_coefficients(vessel, values):
    """A copy of a boat in which the coefficients named in ``values`` have new values."""
    actuators = {name: value for name, value in values.items() if hasattr(vessel.actuators, name)}
    others = {name: value for name, value in values.items() if name not in actuators}
    return replace(vessel, **others, actuators=replace(vessel.actuators, **actuators))


class Otter:
    """The Otter by its source's equations; commands are thrusts (N)."""

    dt = 0.02

    def __init__(self):
        self.boat = otter.Otter(True)

    @property
    def pose(self):
        return self.boat.eta[[0, 1, 5]]

    def step(self, thrust):
        thrust = np.asarray(thrust)
        curve = np.where(thrust > 0.0, otter.AHEAD, otter.ASTERN)
        self.boat.step(np.sign(thrust) * np.sqrt(np.abs(thrust) / curve), self.dt)


class Published:
    """The vessel of the published world by the scalar oracle."""

    dt = 0.05

    def __init__(self):
        self.parameters, self.state, self.turned = VesselParams(dt=self.dt, substeps=1), [0.0] * 11, 0.0

    @property
    def pose(self):
        return np.array([*self.state[:2], self.turned])

    def step(self, thrust):
        rates = tuple((wanted - now) / self.dt for wanted, now in zip(thrust, self.state[9:], strict=True))
        before = self.state[2]
        self.state = control_step(self.state, self.parameters, rates, (), 1.0)
        self.turned += (self.state[2] - before + math.pi) % (2 * math.pi) - math.pi


BOATS = {"otter": Otter, "published": Published}


def thrusts(vessel, seconds, generator):
    """Thrusts (N) of the recommended manoeuvres and then of random ones, as rows of time, left and right."""
    rows = [*timed_commands(plan_manoeuvres(vessel))]
    while rows[-1][0] < seconds:
        rows.append([rows[-1][0] + generator.uniform(3.0, 12.0), *generator.uniform(-0.4, 1.0, 2)])
    rows = np.array(rows)
    limits = np.where(rows[:, 1:] < 0.0, -vessel.min_thrust, vessel.max_thrust)
    return np.column_stack((rows[:, 0], rows[:, 1:] * limits))


def sail(name, seconds=600.0, seed=0, late=0.0, rate=math.inf, offset=0.0):
    """Rows of a log at 5 Hz, and the true poses at its times, [T, 6] and [T, 3].

    Commands are late by one to three rows in a share ``late`` of the rows, thrusts follow them at most at ``rate`` N/s,
    and ``offset`` degrees are added to the yaw.
    """
    generator, boat, vessel = np.random.default_rng(seed), BOATS[name](), read_vessel(name)
    commands = thrusts(vessel, seconds, generator)
    every, rows, truth, actual = round(0.2 / boat.dt), [], [], np.zeros(2)
    for step in range(round(seconds / boat.dt)):
        time = step * boat.dt
        if step % every == 0:
            held = commands[np.searchsorted(commands[:, 0], time + 1e-9) - 1, 1:]
            noise = generator.normal(size=3) * (0.1, 0.1, math.radians(1.0))
            pose = boat.pose + noise + (0.0, 0.0, math.radians(offset))
            pose[2] = (pose[2] + math.pi) % (2 * math.pi) - math.pi
            pose = np.full(3, np.nan) if generator.random() < 0.03 else pose
            rows.append([time + generator.uniform(-0.01, 0.01), *held, *pose])
            truth.append(boat.pose.copy())
        actual = actual + np.clip(held - actual, -rate * boat.dt, rate * boat.dt)
        boat.step(held if math.isinf(rate) else actual)
    rows, truth = np.array(rows), np.array(truth)
    for row in np.flatnonzero(generator.random(len(rows)) < late) if late else ():
        rows[row, 1:3] = rows[max(row - generator.integers(1, 4), 0), 1:3]
    # Some rows are lost, and once all of several seconds.
    is_there = generator.random(len(rows)) > 0.01
    is_there[round(0.2 * len(rows)) : round(0.2 * len(rows)) + 35] = False
    return rows[is_there], truth[is_there]


def log_of(has_row=lambda time: True, has_pose=lambda time: True, seconds=60.0, commands=((0.0, 0.0, 0.0),)):
    """A log at 5 Hz of a boat that rests, with the rows and the poses for which two functions of the time are true.

    Rows of ``commands`` are a time (s), and both commands from then on.
    """
    time = np.array([time for time in np.round(np.arange(0.0, seconds, 0.2), 1) if has_row(time)])
    changes, pose = np.array(commands), np.zeros((len(time), 3))
    pose[[not has_pose(time) for time in time]] = np.nan
    held = changes[np.searchsorted(changes[:, 0], time + 1e-6, side="right") - 1, 1:]
    return BoatLog(time, held, pose, True)


def text_of(rows, header=HEADER):
    """The text of a log."""
    lines = (",".join("" if math.isnan(value) else f"{value:.5f}" for value in row) for row in rows)
    return "\n".join([header, *lines]) + "\n"


def simple_rows(seconds=80.0, hz=5.0):
    """Rows of a boat that follows its thrusts at once and has no noise."""
    rows, x, y, yaw, speed, turn, dt = [], 0.0, 0.0, 0.0, 0.0, 0.0, 1.0 / hz
    for number in range(round(seconds * hz)):
        time = number * dt
        left, right = ((80.0, 20.0), (60.0, 60.0), (20.0, 80.0), (40.0, 40.0))[int(time // 8) % 4]
        rows.append([time, left, right, x, y, yaw])
        speed += dt * (0.013 * (left + right) - speed)
        turn += dt * (0.008 * (left - right) - turn)
        yaw += dt * turn
        x, y = x + dt * speed * math.cos(yaw), y + dt * speed * math.sin(yaw)
    return np.array(rows)


def rows_in_waves(seconds=120.0, hz=5.0, gain=0.02):
    """Rows of a boat that keeps its courses against waves which turn it more than its thrusts can."""
    rows, x, y, yaw, turn, dt = [], 0.0, 0.0, 0.0, 0.0, 1.0 / hz
    for number in range(round(seconds * hz)):
        time = number * dt
        course = (0.0, 0.8)[int(time // 20) % 2]
        side = 25.0 * math.tanh(course - yaw - 3.0 * turn)
        rows.append([time, 50.0 + side, 50.0 - side, x, y, yaw])
        wave = 50.0 * (math.sin(1.5 * time) + math.sin(1.9 * time + 1.0))
        turn += dt * (gain * (2.0 * side + wave) - turn)
        yaw += dt * turn
        x, y = x + dt * 1.3 * math.cos(yaw), y + dt * 1.3 * math.sin(yaw)
    return np.array(rows)


def identification(name, is_in_newtons=True, predicted=True):
    """An identification whose numbers are half as large again, but for one that stays and one that is tied."""
    preset = read_vessel_file(name)
    coefficients = choose_coefficients(preset.vessel, is_in_newtons)
    verdicts = [Verdict.PRESET_KEPT, Verdict.JOINTLY_DETERMINED, *[Verdict.DETERMINED] * (len(coefficients) - 2)]
    estimates = tuple(
        Estimate(item, value, value - 0.1, value + 0.1, verdict)
        for item, verdict in zip(coefficients, verdicts, strict=True)
        for value in [item.preset if verdict == Verdict.PRESET_KEPT else 1.5 * item.preset]
    )
    fit = Fit(estimates, np.array([[0.1, -0.2, 0.05], [0.01, 0.01, 0.02]]), (0.1, 0.02))
    time = np.arange(0.0, 100.0, 0.2)
    log = BoatLog(time, np.zeros((500, 2)), np.zeros((500, 3)), is_in_newtons, ("2 rows were <lost>",))
    windows = 3 if predicted else 0
    poses = np.cumsum(np.full((windows, 201, 3), 0.1), 1)
    errors = tuple(HorizonError(seconds, 0.2, 1.0, 20.0) for seconds in (5.0, 20.0)) if predicted else ()
    prediction = Prediction(75.0 + np.arange(windows), poses, errors)
    return Identification(log, "a <log>.csv", preset, fit, prediction, prediction)
