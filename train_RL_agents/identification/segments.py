"""Division of a boat's log (recorded commands and poses) into segments that can be simulated."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.simulation import TIME_STEP

Array = NDArray[np.float64]
SEGMENT_SECONDS = (5.0, 20.0)
"""Largest lengths of the segments in successive searches (s)."""
MAX_COMMAND_GAP, MAX_POSE_GAP = 2.0, 5.0
"""Longest times without a row of the log, and without a pose, within a segment (s)."""
SETTLING_SECONDS = 5.0
"""Time after the start of a log and after a gap of rows that is left out, since earlier commands are not known (s)."""
_MIN_LENGTH_SHARE, _MIN_POSES = 0.4, 2
"""Shortest segment, as a share of the longest, and smallest number of poses in it, as fewer say nothing of motion."""


@dataclass(frozen=True)
class Segments:
    """E segments of a log, each with N simulation steps and at most M measured poses."""

    log: BoatLog
    """Log of the boat."""
    start_times: Array
    """[E] times at which segments begin (s)."""
    num_steps: int
    """Number N of simulation steps."""
    pose_times: Array
    """[E, M] times of the measured poses since the start (s), 0 where there is none."""
    pose: Array
    """[E, M, 3] measured poses, x, y (m) and yaw (rad), NaN where there is none."""

    def mean_commands(self) -> Array:
        """Return the mean commands [E, N, 2] of the steps, as shares of the limits."""
        edges = np.append(self.log.time, self.log.time[-1] + 1e4)
        sums = np.cumsum(self.log.commands * np.diff(edges)[:, None], 0)
        grid = self.start_times[:, None] + np.arange(self.num_steps + 1) * TIME_STEP
        integral = [np.interp(grid, edges, np.append(0.0, column)) for column in sums.T]
        return np.asarray(np.diff(np.stack(integral, -1), axis=1) / TIME_STEP)


def divide_log(log: BoatLog, end: float, seconds: float) -> list[tuple[float, float]]:
    """Divide a log up to ``end`` (s) into segments of at most ``seconds``; return their first and last times (s).

    They lie between gaps. Segments without poses, such as those before a sensor has its first fix, are left out.
    """
    inside = log.time <= end
    rows, poses = log.time[inside], log.time[inside & np.isfinite(log.pose[:, 0])]
    if len(poses) < _MIN_POSES:
        return []
    unknown = [(low, high + SETTLING_SECONDS) for low, high in find_gaps(rows, MAX_COMMAND_GAP)]
    unknown.append((log.time[0], log.time[0] + SETTLING_SECONDS))
    found, last = [], poses[0]
    for low, high in sorted([*unknown, *find_gaps(poses, MAX_POSE_GAP), (poses[-1], poses[-1])]):
        if low - last >= _MIN_LENGTH_SHARE * seconds:
            edges = np.linspace(last, low, max(1, math.ceil((low - last) / seconds - 0.01)) + 1).tolist()
            found += [*itertools.pairwise(edges)]
        last = max(last, high)
    return [(low, high) for low, high in found if np.count_nonzero((poses >= low) & (poses <= high)) >= _MIN_POSES]


def find_gaps(times: Array, longest: float) -> list[tuple[float, float]]:
    """Return the first and last times of the gaps between consecutive times [T] that exceed ``longest`` (s)."""
    wide = np.flatnonzero(np.diff(times) > longest)
    return [(float(times[place]), float(times[place + 1])) for place in wide]


def cut_segments(log: BoatLog, parts: Sequence[tuple[float, float]], seconds: float) -> Segments:
    """Return segments of a log, from and to the times in ``parts`` (s), whose simulations last ``seconds``."""
    present = np.isfinite(log.pose[:, 0])
    rows = [np.flatnonzero((log.time >= begin) & (log.time <= end) & present) for begin, end in parts]
    stamp = np.zeros((len(parts), max(map(len, rows))))
    pose = np.full((*stamp.shape, 3), np.nan)
    for number, chosen in enumerate(rows):
        stamp[number, : len(chosen)] = log.time[chosen] - parts[number][0]
        pose[number, : len(chosen)] = log.pose[chosen]
    return Segments(log, np.array(parts)[:, 0], math.ceil(seconds / TIME_STEP - 1e-6), stamp, pose)


def guess_initial_states(segments: Segments, yaw_offset: float) -> Array:
    """Return initial states [E, 6] of segments from polynomials fitted to their first poses.

    They are x, y (m), yaw (rad), surge, sway (m/s) and yaw rate (rad/s). The offset of the measured yaw is in radians.
    """
    states = []
    for stamp, pose in zip(segments.pose_times, segments.pose, strict=True):
        present = np.flatnonzero(np.isfinite(pose[:, 0]))
        rows = present[stamp[present] <= 4.0]
        rows = rows if len(rows) >= 6 else present[:6]
        degree = 2 if len(rows) >= 4 else 1 if len(rows) >= 2 else 0
        curve = np.polyfit(stamp[rows], pose[rows], degree)[::-1]
        x, y, yaw = curve[0] - (0.0, 0.0, yaw_offset)
        vx, vy, r = curve[1] if degree else (0.0, 0.0, 0.0)
        cos, sin = np.cos(yaw), np.sin(yaw)
        states.append([x, y, yaw, cos * vx + sin * vy, cos * vy - sin * vx, r])
    return np.array(states)
