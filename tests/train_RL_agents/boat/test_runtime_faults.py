"""What makes the runtime on board stop: the watchdog."""

import math
import random
from dataclasses import replace

import numpy as np

from tests.train_RL_agents.boat.helpers import GOAL, OWN, ROWS
from train_RL_agents.boat import runtime
from train_RL_agents.boat.runtime import Settings, Tracks

BAD = (math.nan, math.inf, -math.inf)
FIELDS = ("x", "y", "forward_velocity", "port_velocity", "yaw_rate")
USUAL = {"action": np.array([24]), "seconds": 0.0, "error": ""}
"""What the network answers, how long it takes, and the error that it raises, if any."""


def changed(rows, row, column, value):
    rows = rows.copy()
    rows[row, column] = value
    return rows


def with_rows(make):
    """A fault of the tracks' objects."""
    return lambda rng, now, own, tracks, goal: (now, own, replace(tracks, objects=make(rng, tracks.objects)), goal)


def at(shift):
    """A fault of the time of a call."""

    def fault(rng, now, own, tracks, goal):
        later = now + shift(rng)
        return later, replace(own, stamp=later), replace(tracks, stamp=later), goal

    return fault


def lost(index):
    return lambda rng, now, *given: (now, *(None if n == index else each for n, each in enumerate(given)))


INPUTS = [
    (lost(0), "there is no odometry yet"),
    (lost(1), "there is no tracks yet"),
    (lost(2), "there is no goal yet"),
    (
        lambda rng, now, own, *rest: (now, replace(own, **{rng.choice((*FIELDS, "yaw")): rng.choice(BAD)}), *rest),
        "odometry: a va",
    ),
    (lambda rng, now, own, *rest: (now, replace(own, **{rng.choice(FIELDS): -1e6}), *rest), "1e+06 is not plausible"),
    (lambda rng, now, own, *rest: (now, replace(own, x="here"), *rest), "the decision failed: ValueError"),
    (lambda rng, now, own, *rest: (now, replace(own, stamp=rng.choice(BAD)), *rest), "the stamp of odom"),
    (lambda rng, now, own, *rest: (now, replace(own, stamp=now - rng.uniform(1.01, 50.0)), *rest), "odometry: "),
    (
        lambda rng, now, own, tracks, goal: (now, own, replace(tracks, stamp=now - rng.uniform(1.01, 50.0)), goal),
        "s old, more than 1 s",
    ),
    (
        lambda rng, now, own, tracks, goal: (now, own, replace(tracks, stamp=now + rng.uniform(0.11, 50.0)), goal),
        "s ahead of the clock, more than",
    ),
    (
        with_rows(lambda rng, rows: changed(rows, rng.randrange(len(rows)), rng.randrange(5), rng.choice(BAD))),
        "tracks: a value is not finite",
    ),
    (with_rows(lambda rng, rows: changed(rows, 0, 4, -rng.uniform(1e-3, 5.0))), "tracks have a negative radius"),
    (with_rows(lambda rng, rows: rng.choice([rows[:, :4], rows[0], np.zeros((2, 5, 1))])), "tracks are of the shape ["),
    (with_rows(lambda rng, rows: np.ones((rng.randrange(1001, 3000), 5))), "tracks are more than 1000"),
    (lambda rng, now, own, tracks, _: (now, own, tracks, (rng.choice(BAD), 0.0)), "the goal: a value is not finite"),
    (lambda rng, now, own, tracks, goal: (now, own, tracks, (*goal, 0.0)), "the goal is of the shape [3], not [2]"),
    (
        lambda rng, now, *rest: (rng.choice([*BAD, np.datetime64("2026-01-01"), "0", None]), *rest),
        "not a finite number of seconds",
    ),
    (at(lambda rng: rng.uniform(0.51, 9.0)), "s ago, more than 1 s"),
    (at(lambda rng: -rng.uniform(0.26, 20.0)), "s ago, less than 0.25 s"),  # called twice, or the clock was set back
]
"""Faults of the inputs of a call, and words of the sentences."""
NETWORKS = [
    (lambda rng: {"action": np.array(rng.choice([[25], [-1], [12.7], [[3]], [math.nan], [-math.inf]]))}, "the policy"),
    (lambda rng: {"error": "no session"}, "the decision failed: RuntimeError('no session')"),
    (lambda rng: {"seconds": rng.uniform(0.06, 3.0)}, "s, more than 0.05 s"),
]
"""Faults of the network."""


def test_every_fault_ends_in_a_stop_and_a_sentence(make_pilot, monkeypatch):
    rng, answer, times = random.Random(1), dict(USUAL), iter(())

    def network(inputs):
        if answer["error"]:
            raise RuntimeError(answer["error"])
        return answer["action"]

    monkeypatch.setattr(runtime, "perf_counter", lambda: next(times))
    pilot, now = make_pilot("DQN", Settings(), network), 0.0

    def call(*given):
        nonlocal times
        times = iter((0.0, answer["seconds"]))
        return pilot.command(*given)

    for fault, words in rng.sample(5 * (INPUTS + NETWORKS), 5 * len(INPUTS + NETWORKS)):
        answer.update(USUAL)
        for _ in range(2):
            command = call(now, replace(OWN, stamp=now), Tracks(now, ROWS), GOAL)
            assert command.stop_reason == "" and command.left_thrust > 0.0
            now += 0.5
        given = now, replace(OWN, stamp=now), Tracks(now, ROWS), GOAL
        if (fault, words) in NETWORKS:
            answer.update(fault(rng))
        else:
            given = fault(rng, *given)
        command = call(*given)
        assert words in command.stop_reason and "\n" not in command.stop_reason
        assert (command.left_thrust, command.right_thrust) == (0.0, 0.0)
        # Whatever the clock did, the next call comes a control step later.
        usable = isinstance(given[0], float) and math.isfinite(given[0])
        now = (given[0] if usable else now) + 0.5
