"""Multiple shooting: a log in segments, each with an initial state of its own, fitted by least squares.

Unknowns that all segments share are the coefficients, a constant current and the offset of the yaw. The states are
eliminated from the linearised problem, segment by segment, so that SciPy sees the shared unknowns alone (variable
projection). The loss of residuals of positions and yaw is Huber's function. Derivatives are differences of the world's
own functions; all of them are one batch of simulations, which takes about as long as a single one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from scipy.optimize import least_squares
from torch.nn.utils.rnn import pad_sequence

from train_RL_agents.identification.coefficients import Array, Coefficient
from train_RL_agents.identification.log import BoatLog, smoothed_motion
from train_RL_agents.identification.simulation import TIME_STEP, Simulator, interpolate_poses, mean_commands

SEGMENT_SECONDS = (5.0, 20.0)
"""Largest lengths of the segments in successive searches (s)."""
_MAX_COMMAND_GAP, _MAX_POSE_GAP = 2.0, 5.0
"""Longest times without a row of the log, and without a pose, within a segment (s)."""
_SETTLING_SECONDS = 5.0
"""Time after the start of a log and after a gap of rows that is left out, since earlier commands are not known (s)."""
_MIN_LENGTH_SHARE, _MIN_POSES = 0.4, 2
"""Shortest segment, as a share of the longest, and smallest number of poses in it, as fewer say nothing of motion."""
START_INTERVAL = 5.0
"""Time between the starts of two predictions (s)."""
RUN_UP_SECONDS = 20.0
"""Time before a prediction from which its initial state is estimated (s)."""
FIRST_NOISE = np.array([0.1, 0.1, np.radians(1.0)])
"""Standard deviations of measured x, y (m) and yaw (rad) that are assumed first."""
HUBER_THRESHOLD = 2.0
"""Size of a residual, in standard deviations, above which Huber's loss is linear."""
_DIFFERENCE, _STATE_DIFFERENCES = 1e-6, np.array([1e-4, 1e-4, 1e-5, 1e-5, 1e-5, 1e-5])
"""Differences by a scaled coefficient, and by the states (m, rad, m/s, rad/s)."""
_MAX_ERROR = 1e4
"""Residual of simulations that diverge, in standard deviations."""
_MAX_EVALUATIONS, _STATE_STEPS = 40, 4
"""Largest number of evaluations of a search, and number of steps of a search for states alone."""


# The log in segments ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Segments:
    """E segments of a log, each with N simulation steps and at most M measured poses."""

    log: BoatLog
    start_times: Array
    """[E] times at which segments begin (s)."""
    num_steps: int
    pose_times: Array
    """[E, M] times of the measured poses since the start (s), 0 where there is none."""
    pose: Array
    """[E, M, 3] measured poses, x, y (m) and yaw (rad), NaN where there is none."""


def divide_log(log: BoatLog, end: float, seconds: float) -> list[tuple[float, float]]:
    """Divide a log up to ``end`` (s) into segments of at most ``seconds``; return their first and last times (s).

    They lie between gaps. Segments without poses, such as those before a sensor has its first fix, are left out.
    """
    inside = log.time <= end
    rows, poses = log.time[inside], log.time[inside & np.isfinite(log.pose[:, 0])]
    if len(poses) < _MIN_POSES:
        return []
    unknown = [(low, high + _SETTLING_SECONDS) for low, high in _find_gaps(rows, _MAX_COMMAND_GAP)]
    unknown.append((log.time[0], log.time[0] + _SETTLING_SECONDS))
    found, last = [], poses[0]
    for low, high in sorted([*unknown, *_find_gaps(poses, _MAX_POSE_GAP), (poses[-1], poses[-1])]):
        if low - last >= _MIN_LENGTH_SHARE * seconds:
            edges = np.linspace(last, low, max(1, math.ceil((low - last) / seconds - 0.01)) + 1).tolist()
            found += [*itertools.pairwise(edges)]
        last = max(last, high)
    return [(low, high) for low, high in found if np.count_nonzero((poses >= low) & (poses <= high)) >= _MIN_POSES]


def _find_gaps(times: Array, longest: float) -> list[tuple[float, float]]:
    """Return the first and last times of the gaps between consecutive times [T] that exceed ``longest`` (s)."""
    wide = np.flatnonzero(np.diff(times) > longest)
    return [(float(times[place]), float(times[place + 1])) for place in wide]


def cut_segments(log: BoatLog, parts: Sequence[tuple[float, float]] | Array) -> Segments:
    """Return segments of a log, from and to the times in ``parts`` (s), simulated for as long as the longest."""
    measured = np.column_stack((log.time, log.pose))[np.isfinite(log.pose[:, 0])]
    inside = [measured[(measured[:, 0] >= begin) & (measured[:, 0] <= end)] for begin, end in parts]
    samples = pad_sequence([torch.from_numpy(each) for each in inside], True, math.nan).numpy()
    begins, ends = np.transpose(parts)
    pose_times = np.nan_to_num(samples[..., 0] - begins[:, None])
    return Segments(log, begins, math.ceil((ends - begins).max() / TIME_STEP - 1e-6), pose_times, samples[..., 1:])


def guess_initial_states(segments: Segments, yaw_offset: float) -> Array:
    """Return initial states [E, 6] of segments from the smoothed motion of the log.

    They are x, y (m), yaw (rad), surge, sway (m/s) and yaw rate (rad/s). The offset of the measured yaw is in radians.
    """
    grid, motion = smoothed_motion(segments.log)
    x, y, yaw, vx, vy, r = (np.interp(segments.start_times, grid, values) for values in motion)
    yaw = yaw - yaw_offset
    cos, sin = np.cos(yaw), np.sin(yaw)
    return np.column_stack((x, y, yaw, cos * vx + sin * vy, cos * vy - sin * vx, r))


def prediction_windows(log: BoatLog, begin: float, horizons: Sequence[float]) -> Array:
    """Return the windows [W, 2] of a log, from a time on, in which a boat is predicted: their starts and ends (s).

    A prediction ends at the largest of the ascending horizons (s), or earlier where the commands are not known any
    more. It reaches at least the smallest horizon, and has poses and commands in the run-up before it.
    """
    poses, windows = log.time[np.isfinite(log.pose[:, 0])], []
    gaps = _find_gaps(log.time, _MAX_COMMAND_GAP)
    for start in np.arange(max(begin, RUN_UP_SECONDS), log.duration - horizons[0] + 1e-9, START_INTERVAL):
        run_up = start - RUN_UP_SECONDS
        inside = poses[(poses >= run_up) & (poses <= start)]
        if len(inside) < 10 or inside[0] > start - 0.5 * RUN_UP_SECONDS:
            continue
        # Commands are known until the first gap of rows after which the actuators have not settled in the run-up.
        end = min(start + horizons[-1], log.duration, *(low for low, high in gaps if high + _SETTLING_SECONDS > run_up))
        if np.diff(inside, append=start).max() <= _MAX_POSE_GAP and end >= start + horizons[0] - 1e-9:
            windows.append((start, end))
    return np.reshape(windows, (-1, 2))


# Residuals and their derivatives ------------------------------------------------------------------


NUISANCE = (
    Coefficient("north", 0.0, 0.5, -math.inf, math.inf, 0.0),
    Coefficient("east", 0.0, 0.5, -math.inf, math.inf, 0.0),
    Coefficient("yaw_offset", 0.0, 0.2, -math.pi, math.pi, 0.0),
)
"""Velocities of the water to the north and to the east (m/s) and the difference of the measured yaw from that of the
hull (rad), fitted beside the coefficients, with the standard deviations of their priors as scales."""


@dataclass(frozen=True)
class Linearised:
    """Residuals of E segments and their derivatives by Q shared unknowns at a point, with the states eliminated."""

    shared: Array
    """[Q] coefficients divided by their scales."""
    residuals: Array
    """[E, 3 M] differences from measured x, y and yaw, in turn, in standard deviations, 0 where nothing is measured."""
    slopes: Array
    """[E, 3 M, Q] derivatives of these residuals, with the states following the shared unknowns."""
    states: Array
    """[E, 6] states of least loss: x, y (m), yaw (rad), surge, sway (m/s, through the water), yaw rate (rad/s)."""
    state_slopes: Array
    """[E, 6, Q] derivatives of these states by the shared unknowns."""

    def states_at(self, shared: Array) -> Array:
        """Return the initial states [E, 6] of least loss for other shared unknowns [Q], to first order."""
        return self.states + self.state_slopes @ (shared - self.shared)


@dataclass(frozen=True)
class ShootingProblem:
    """Least-squares problem of fitting a boat to segments of a log."""

    simulator: Simulator
    coefficients: Sequence[Coefficient]
    """Q coefficients: K of the simulator, and NUISANCE."""
    segments: Segments
    noise: Array
    """[3] standard deviations of measured x, y (m) and yaw (rad)."""

    @cached_property
    def scales(self) -> Array:
        """Return the scales [Q] of the coefficients, by which shared unknowns are divided."""
        return np.array([item.scale for item in self.coefficients])

    def scaled(self, field: str) -> Array:
        """Return a field [Q] of the coefficients as a value of the shared unknowns, whose prior has deviations of 1."""
        return np.array([getattr(item, field) for item in self.coefficients]) / self.scales

    def simulate(self, shared: Array, states: Array) -> Array:
        """Return simulated poses [V, E, N + 1, 3] for V shared unknowns [V, Q] and initial states [V, E, 6]."""
        segments, count = self.segments, states.shape[1]
        values, drift = np.split(shared * self.scales, [-len(NUISANCE)], -1)
        actuators = self.simulator.actuator_states(segments.log, segments.start_times, values)
        commands = mean_commands(segments.log, segments.start_times, segments.num_steps)
        commands = np.repeat(commands[None], len(shared), 0)
        given = (np.repeat(values[:, None], count, 1), states, actuators, commands)
        poses = self.simulator.simulate_poses(*(array.reshape(-1, *array.shape[2:]) for array in given))
        times = np.arange(segments.num_steps + 1)[:, None] * TIME_STEP
        away = np.concatenate((times * drift[:, None, None, :2], 0.0 * times + drift[:, None, None, 2:]), -1)
        return poses.reshape(len(shared), count, -1, 3) + away

    def linearise(self, shared: Array, states: Array, damping: float = 1.0) -> Linearised:
        """Return the linearised problem at shared unknowns [Q] and initial states [E, 6].

        Steps of the states are damped, little for intervals that take no state as known.
        """
        segments, count = self.segments, len(shared)
        steps = np.append(np.full(count, _DIFFERENCE), _STATE_DIFFERENCES)
        points, starts = np.repeat(shared[None], 1 + len(steps), 0), np.repeat(states[None], 1 + len(steps), 0)
        points[1 : 1 + count] += np.diag(steps[:count])
        starts[1 + count :] += np.diag(_STATE_DIFFERENCES)[:, None]
        poses = interpolate_poses(self.simulate(points, starts), np.repeat(segments.pose_times[None], len(points), 0))
        errors = np.where(np.isfinite(segments.pose), (poses - segments.pose) / self.noise, 0.0)
        errors = np.nan_to_num(errors, nan=_MAX_ERROR).clip(-_MAX_ERROR, _MAX_ERROR).reshape(*starts.shape[:2], -1)
        slopes = np.moveaxis((errors[1:] - errors[0]) / steps[:, None, None], 0, -1)
        by_shared, by_state = np.split(slopes, [count], -1)
        # Steps of states that say little of the motion, such as a turn that dies down at once, are damped.
        precision = np.diag(damping * self.simulator.state_scale**-2)
        weighted = (by_state * huber_loss(errors[0] ** 2)[1][..., None]).mT
        inverse = np.linalg.inv(weighted @ by_state + precision) @ weighted
        step, following = -(inverse @ errors[0][..., None])[..., 0], -(inverse @ by_shared)
        residuals = errors[0] + (by_state @ step[..., None])[..., 0]
        return Linearised(shared, residuals, by_shared + by_state @ following, states + step, following)

    def solve(self, shared: Array, states: Array, kept: Sequence[int], tolerance: float) -> Linearised:
        """Return the problem linearised at the least loss near a start: shared unknowns [Q] and initial states [E, 6].

        Coefficients with the indices ``kept`` do not change. The search ends below a relative step of ``tolerance``,
        or below a tenth of it as a relative decrease of the loss.
        """
        low, high, presets = map(self.scaled, ("low", "high", "preset"))
        shared = shared.clip(low, high)
        columns = np.delete(np.arange(len(shared)), kept)
        latest: list[Linearised] = []
        accepted: list[Linearised] = []

        def residuals(values: Array) -> Array:
            point = shared.copy()
            point[columns] = values
            latest[:] = [self.linearise(point, accepted[0].states_at(point) if accepted else states)]
            return np.concatenate((latest[0].residuals.ravel(), point - presets))

        def slopes(_: Array) -> Array:
            accepted[:] = latest  # SciPy asks for derivatives where it accepts a step: at the point that it tried last.
            flat = latest[0].slopes.reshape(-1, len(shared))
            return np.concatenate((flat, np.eye(len(shared))))[:, columns]

        least_squares(
            residuals, shared[columns], slopes, (low[columns], high[columns]), "trf", 0.1 * tolerance, tolerance, None,
            loss=huber_loss, max_nfev=_MAX_EVALUATIONS,
        )  # fmt: skip
        return accepted[0]

    def fit_states(self, shared: Array, states: Array) -> Array:
        """Return the initial states [E, 6] of least loss near others, for given shared unknowns [Q]."""
        for _ in range(_STATE_STEPS):
            states = self.linearise(shared, states).states
        return states


def huber_loss(squares: Array) -> Array:
    """Return Huber's loss of squared residuals [N], its first derivative, and 0 for the second one, [3, N].

    Without the second derivative SciPy weights residuals by the first, so that far ones do not lose all curvature.
    """
    size = np.sqrt(np.maximum(squares, HUBER_THRESHOLD**2))
    loss = np.where(squares <= HUBER_THRESHOLD**2, squares, HUBER_THRESHOLD * (2.0 * size - HUBER_THRESHOLD))
    return np.stack((loss, HUBER_THRESHOLD / size, np.zeros_like(size)))


def estimate_noise(problem: ShootingProblem, residuals: Array) -> Array:
    """Return the standard deviations [3] of measured x, y (m) and yaw (rad), from the median size of residuals."""
    pose = problem.segments.pose
    sizes = np.where(np.isfinite(pose), np.abs(residuals).reshape(pose.shape), math.nan)
    noise = problem.noise * np.maximum(1.4826 * np.nanmedian(sizes, (0, 1)), 1e-3)
    noise[:2] = np.sqrt((noise[:2] ** 2).mean())
    return np.asarray(np.maximum(noise, (1e-3, 1e-3, 1e-4)))
