"""What makes the runtime on board stop: the watchdog."""

import math
import random
from dataclasses import replace

import numpy as np

from tests.train_RL_agents.boat.pilots import GOAL, OWN, ROWS
from train_RL_agents.boat import runtime
from train_RL_agents.boat.runtime import Settings, Tracks

BAD = (math.nan, math.inf, -math.inf)


class Faults:
    """What goes wrong with a call: ``draw`` gives its inputs, and a word of the sentence."""

    def __init__(self, seed):
        self.rng, self.action, self.seconds, self.error = random.Random(seed), np.array([24]), 0, ""

    def network(self, inputs):
        if self.error:
            raise RuntimeError(self.error)
        return self.action

    def draw(self, now, own, tracks, goal):
        kinds = [each for name, each in sorted(vars(Faults).items()) if name.startswith("fault_")]
        return self.rng.choice(kinds)(self, now, own, tracks, goal)

    def fault_missing(self, now, own, tracks, goal):
        lost = self.rng.randrange(3)
        given = [None if n == lost else each for n, each in enumerate((own, tracks, goal))]
        return (now, *given), f"there is no {('odometry', 'tracks', 'goal')[lost]} yet"

    def fault_odometry(self, now, own, tracks, goal):
        field = self.rng.choice(["x", "y", "yaw", "forward_velocity", "port_velocity", "yaw_rate"])
        return (now, replace(own, **{field: self.rng.choice(BAD)}), tracks, goal), "odometry: a va"

    def fault_tracks(self, now, own, tracks, goal):
        rows = tracks.objects.copy()
        rows[self.rng.randrange(len(rows)), self.rng.randrange(5)] = self.rng.choice(BAD)
        return (now, own, replace(tracks, objects=rows), goal), "tracks: a value is not finite"

    def fault_goal(self, now, own, tracks, goal):
        return (now, own, tracks, (self.rng.choice(BAD), 0.0)), "the goal: a value is not finite"

    def fault_clock(self, now, own, tracks, goal):
        bad = self.rng.choice([*BAD, np.datetime64("2026-01-01"), "0", None])
        return (bad, own, tracks, goal), "not a finite number of seconds"

    def fault_stamp(self, now, own, tracks, goal):
        return (now, replace(own, stamp=self.rng.choice(BAD)), tracks, goal), "the stamp of odom"

    def fault_goal_in_space(self, now, own, tracks, goal):
        return (now, own, tracks, (*goal, 0.0)), "the goal is of the shape [3], not [2]"

    def fault_stale_odometry(self, now, own, tracks, goal):
        old = now - self.rng.uniform(1.01, 50.0)
        return (now, replace(own, stamp=old), tracks, goal), "s old, more than 1 s"

    def fault_stale_tracks(self, now, own, tracks, goal):
        old = now - self.rng.uniform(1.01, 50.0)
        return (now, own, replace(tracks, stamp=old), goal), "s old, more than 1 s"

    def fault_ahead(self, now, own, tracks, goal):
        stamp = now + self.rng.uniform(0.11, 50.0)
        return (now, own, replace(tracks, stamp=stamp), goal), "s ahead of the clock, more than"

    def fault_far(self, now, own, tracks, goal):
        field = self.rng.choice(["x", "y", "forward_velocity", "port_velocity", "yaw_rate"])
        return (now, replace(own, **{field: -1e6}), tracks, goal), "odometry: 1e+06 is not plaus"

    def fault_shape(self, now, own, tracks, goal):
        rows = self.rng.choice([tracks.objects[:, :4], tracks.objects[0], np.zeros((2, 5, 1))])
        return (now, own, replace(tracks, objects=rows), goal), "tracks are of the shape ["

    def fault_text(self, now, own, tracks, goal):
        return (now, replace(own, x="here"), tracks, goal), "the decision failed: ValueError"

    def fault_many(self, now, own, tracks, goal):
        rows = np.ones((self.rng.randrange(1001, 3000), 5))
        return (now, own, replace(tracks, objects=rows), goal), "tracks are more than 1000"

    def fault_radius(self, now, own, tracks, goal):
        rows = tracks.objects.copy()
        rows[0, 4] = -self.rng.uniform(1e-3, 5.0)
        return (now, own, replace(tracks, objects=rows), goal), "tracks have a negative radius"

    def fault_late(self, now, own, tracks, goal):
        now += self.rng.uniform(0.51, 9.0)
        given = replace(own, stamp=now), replace(tracks, stamp=now)
        return (now, *given, goal), "s ago, more than 1 s"

    def fault_early(self, now, own, tracks, goal):
        # Called twice, or the clock was set back.
        now -= self.rng.uniform(0.26, 20.0)
        given = replace(own, stamp=now), replace(tracks, stamp=now)
        return (now, *given, goal), "s ago, less than 0.25 s"

    def fault_policy(self, now, own, tracks, goal):
        self.action = np.array(self.rng.choice([[25], [-1], [12.7], [[3]], [math.nan], [-math.inf]]))
        return (now, own, tracks, goal), "the policy"

    def fault_error(self, now, own, tracks, goal):
        self.error = "no session"
        return (now, own, tracks, goal), "the decision failed: RuntimeError('no session')"

    def fault_slow(self, now, own, tracks, goal):
        self.seconds = self.rng.uniform(0.06, 3.0)
        return (now, own, tracks, goal), "s, more than 0.05 s"


def test_two_hundred_faults_each_end_in_a_stop_and_a_sentence(make_pilot, monkeypatch):
    faults = Faults(seed=1)
    times = iter(())
    monkeypatch.setattr(runtime, "perf_counter", lambda: next(times))
    pilot, now, drawn = make_pilot("DQN", Settings(), faults.network), 0.0, set()

    def call(now, own, tracks, goal):
        nonlocal times
        times = iter((0.0, faults.seconds))
        return pilot.command(now, own, tracks, goal)

    for _ in range(200):
        good = [replace(OWN, stamp=now), Tracks(now, ROWS), GOAL]
        for _ in range(2):
            faults.action, faults.seconds, faults.error = np.array([24]), 0.0, ""
            command = call(now, *good)
            assert command.stop_reason == ""
            assert command.left_thrust > 0.0
            now += 0.5
            good = [replace(OWN, stamp=now), Tracks(now, ROWS), GOAL]
        given, words = faults.draw(now, *good)
        command = call(*given)
        assert words in command.stop_reason
        assert (command.left_thrust, command.right_thrust) == (0.0, 0.0)
        assert command.stop_reason.count("\n") == 0
        drawn.add(words)
        # Whatever the clock did, the next call comes a control step later.
        usable = isinstance(given[0], float) and math.isfinite(given[0])
        now = (given[0] if usable else now) + 0.5
    assert len(drawn) >= 18
