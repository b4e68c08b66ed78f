"""Logs of boats that slow implementations of others sail, with noise, jitter and missing samples."""

import math

import numpy as np

from marinenav_env import read_vessel
from tests.oracle import otter
from tests.oracle.dynamics import VesselParams, control_step
from train_RL_agents.identification.manoeuvres import plan_manoeuvres, timed_commands

HEADER = "time,left,right,x,y,yaw"


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


def sail(name, seconds=600.0, seed=0, position=0.1, yaw=1.0, jitter=0.01, missing=0.03):
    """Rows of a log at 5 Hz, and the true poses at its times, [T, 6] and [T, 3]."""
    generator, boat, vessel = np.random.default_rng(seed), BOATS[name](), read_vessel(name)
    commands = thrusts(vessel, seconds, generator)
    every, rows, truth, held = round(0.2 / boat.dt), [], [], (0.0, 0.0)
    for step in range(round(seconds / boat.dt)):
        time = step * boat.dt
        if step % every == 0:
            held = commands[np.searchsorted(commands[:, 0], time + 1e-9) - 1, 1:]
            noise = generator.normal(size=3) * (position, position, math.radians(yaw))
            pose = boat.pose + noise
            pose[2] = (pose[2] + math.pi) % (2 * math.pi) - math.pi
            pose = np.full(3, np.nan) if generator.random() < missing else pose
            rows.append([time + generator.uniform(-jitter, jitter), *held, *pose])
            truth.append(boat.pose.copy())
        boat.step(held)
    rows, truth = np.array(rows), np.array(truth)
    # Some rows are lost, and once all of several seconds.
    kept = generator.random(len(rows)) > 0.01
    kept[round(0.2 * len(rows)) : round(0.2 * len(rows)) + 35] = False
    return rows[kept], truth[kept]


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
