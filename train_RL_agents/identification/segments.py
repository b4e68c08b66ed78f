"""Division of a boat's log (recorded commands and poses) into segments that can be simulated.

Commands are averaged over the time steps of the simulation, 0.1 s; the actuators' states at each start are included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.simulation import TIME_STEP

Array = NDArray[np.float64]
SEGMENT_SECONDS = (5.0, 10.0, 20.0)
"""Largest lengths of the segments in successive searches (s)."""
_MIN_LENGTH_SHARE = 0.4
"""Shortest segment, as a share of the longest."""
_MIN_POSES = 2
"""Smallest number of measured poses in a segment, since fewer say nothing about the motion."""
MAX_COMMAND_GAP = 2.0
"""Longest time without a row of the log within a segment (s)."""
MAX_POSE_GAP = 5.0
"""Longest time without a pose within a segment (s)."""
SETTLING_SECONDS = 5.0
"""Time after the start of a log and after a gap of rows that is left out, since earlier commands are not known (s)."""
_MEMORY_SECONDS = 20.0
"""Time before a segment in which commands count for the actuators' states (s)."""


@dataclass(frozen=True)
class Segments:
    """E segments of a log, each with N simulation steps and at most M measured poses.

    The states of the actuators are two setpoints (N).
    """

    start_times: Array
    """[E] times at which segments begin (s)."""
    mean_commands: Array
    """[E, N, 2] mean commands of the steps, as shares of the limits."""
    pose_times: Array
    """[E, M] times of the measured poses since the start (s), 0 where there is none."""
    pose: Array
    """[E, M, 3] measured poses, x, y (m) and yaw (rad), NaN where there is none."""
    initial_targets: Array
    """[E, 2] steady states of the actuators under the earliest command of the 20 s before the start."""
    target_changes: Array
    """[E, C, 2] changes of the steady states between that command and the start, at most C, filled up with 0."""
    change_ages: Array
    """[E, C] times from these changes to the start (s)."""
    initial_angles: Array
    """[E] angles of the azimuth thruster or rudder at the start (rad); without meaning for other boats."""


def divide_log(log: BoatLog, end: float, seconds: float) -> list[tuple[float, float]]:
    """Divide a log up to ``end`` (s) into segments of at most ``seconds``; return their first and last times (s).

    They lie between gaps. Segments without poses, such as those before a sensor has its first fix, are left out.
    """
    inside = log.time <= end
    rows, poses = log.time[inside], log.time[inside & np.isfinite(log.pose[:, 0])]
    if len(poses) < 2:
        return []
    unknown = [(low, high + SETTLING_SECONDS) for low, high in find_gaps(rows, MAX_COMMAND_GAP)]
    unknown.append((log.time[0], log.time[0] + SETTLING_SECONDS))
    edges = sorted([(poses[0], poses[0]), *unknown, *find_gaps(poses, MAX_POSE_GAP), (poses[-1], poses[-1])])
    parts: list[tuple[float, float]] = []
    last = edges[0][0]
    for low, high in edges:
        if low > last:
            parts.append((float(last), float(low)))
        last = max(last, high)
    found = []
    for low, high in parts:
        count = max(1, math.ceil((high - low) / seconds - 0.01))
        if high - low >= _MIN_LENGTH_SHARE * seconds:
            length = (high - low) / count
            found += [(low + number * length, low + (number + 1) * length) for number in range(count)]
    return [(low, high) for low, high in found if np.count_nonzero((poses >= low) & (poses <= high)) >= _MIN_POSES]


def find_gaps(times: Array, longest: float) -> list[tuple[float, float]]:
    """Return the first and last times of the gaps between consecutive times [T] that exceed ``longest`` (s)."""
    wide = np.flatnonzero(np.diff(times) > longest)
    return [(float(times[place]), float(times[place + 1])) for place in wide]


def cut_segments(
    log: BoatLog, parts: Sequence[tuple[float, float]], targets: Array, angle_rate: float, seconds: float
) -> Segments:
    """Return segments cut out of a log.

    Args:
        log: log of the boat.
        parts: first and last time of each segment (s).
        targets: [T, 2] steady states of the actuators under the command of each sample of the log.
        angle_rate: largest rate of the angle of the azimuth thruster or rudder (rad/s).
        seconds: length of the simulation of every segment (s), from its first time on.
    """
    angles = _follow_angles(log.time, targets[:, 1], angle_rate)
    initial_angles: list[float] = []
    grid = np.arange(round(seconds / TIME_STEP) + 1) * TIME_STEP
    # The integral of the commands, whose differences are the means of the steps.
    steps = np.diff(log.time, append=log.time[-1] + 1e4)
    integral = np.concatenate((np.zeros((1, 2)), np.cumsum(log.commands * steps[:, None], 0)))
    edges = np.append(log.time, log.time[-1] + 1e4)
    rows = []
    for begin, end in parts:
        sums = np.column_stack([np.interp(begin + grid, edges, column) for column in integral.T])
        chosen = (log.time >= begin) & (log.time <= end) & np.isfinite(log.pose[:, 0])
        earlier = np.flatnonzero((log.time <= begin) & (log.time > begin - _MEMORY_SECONDS))
        origin, latest = (int(earlier[0]), int(earlier[-1])) if len(earlier) else (0, 0)
        turn = angle_rate * max(begin - log.time[latest], 0.0)
        initial_angles.append(angles[latest] + np.clip(targets[latest, 1] - angles[latest], -turn, turn))
        following = earlier[1:] if len(earlier) else earlier
        moved = targets[following] - targets[following - 1]
        kept = following[(moved != 0.0).any(1)]
        rows.append(
            (
                np.diff(sums, axis=0) / TIME_STEP,
                log.time[chosen] - begin,
                log.pose[chosen],
                targets[origin],
                targets[kept] - targets[kept - 1],
                begin - log.time[kept],
            )
        )
    filling = (0.0, 0.0, np.nan, 0.0, 0.0, 0.0)
    starts, stacked = np.array([begin for begin, _ in parts]), map(_stack_padded, zip(*rows, strict=True), filling)
    return Segments(starts, *(*stacked, np.array(initial_angles)))


def _follow_angles(times: Array, targets: Array, rate: float) -> Array:
    """Return angles [T] (rad) at times [T] (s) that turn to targets [T], each held until the next time, at a rate."""
    angles = targets.copy()
    for row, most in enumerate(rate * np.diff(times)):
        angles[row + 1] = angles[row] + np.clip(targets[row] - angles[row], -most, most)
    return angles


def _stack_padded(rows: Sequence[Array], filling: float) -> Array:
    """Stack arrays along a new first axis, with shorter ones filled up with ``filling`` at their end."""
    longest = max(len(row) for row in rows)
    stacked = np.full((len(rows), longest, *rows[0].shape[1:]), filling)
    for number, row in enumerate(rows):
        stacked[number, : len(row)] = row
    return stacked


def guess_initial_states(segments: Segments) -> Array:
    """Return initial states [E, 6] of segments from polynomials fitted to their first poses.

    They are x, y (m), yaw (rad), surge, sway (m/s) and yaw rate (rad/s).
    """
    states = []
    for stamp, pose in zip(segments.pose_times, segments.pose, strict=True):
        present = np.flatnonzero(np.isfinite(pose[:, 0]))
        rows = present[stamp[present] <= 4.0]
        rows = rows if len(rows) >= 6 else present[:6]
        degree = 2 if len(rows) >= 4 else 1 if len(rows) >= 2 else 0
        curve = np.polyfit(stamp[rows], pose[rows], degree)[::-1]
        x, y, yaw = curve[0]
        vx, vy, r = curve[1] if degree else (0.0, 0.0, 0.0)
        cos, sin = np.cos(yaw), np.sin(yaw)
        states.append([x, y, yaw, cos * vx + sin * vy, cos * vy - sin * vx, r])
    return np.array(states)
