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
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import least_squares

from train_RL_agents.identification.coefficients import Coefficient
from train_RL_agents.identification.log import BoatLog
from train_RL_agents.identification.simulation import TIME_STEP, Simulator, interpolate_poses, mean_commands

Array = NDArray[np.float64]
SEGMENT_SECONDS = (5.0, 20.0)
"""Largest lengths of the segments in successive searches (s)."""
MAX_COMMAND_GAP, MAX_POSE_GAP = 2.0, 5.0
"""Longest times without a row of the log, and without a pose, within a segment (s)."""
SETTLING_SECONDS = 5.0
"""Time after the start of a log and after a gap of rows that is left out, since earlier commands are not known (s)."""
_MIN_LENGTH_SHARE, _MIN_POSES = 0.4, 2
"""Shortest segment, as a share of the longest, and smallest number of poses in it, as fewer say nothing of motion."""
FIRST_NOISE = np.array([0.1, 0.1, np.radians(1.0)])
"""Standard deviations of measured x, y (m) and yaw (rad) that are assumed first."""
HUBER_THRESHOLD = 2.0
"""Size of a residual, in standard deviations, above which Huber's loss is linear."""
_NUISANCE_STDS = np.array([0.5, 0.5, 0.2])
"""Standard deviations of the priors of a Nuisance, whose means are 0."""
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
        curve = np.polyfit(stamp[rows], pose[rows], 2 if len(rows) >= 4 else 1)[::-1]
        x, y, yaw = curve[0] - (0.0, 0.0, yaw_offset)
        vx, vy, r = curve[1]
        cos, sin = np.cos(yaw), np.sin(yaw)
        states.append([x, y, yaw, cos * vx + sin * vy, cos * vy - sin * vx, r])
    return np.array(states)


# Residuals and their derivatives ------------------------------------------------------------------


class Nuisance(NamedTuple):
    """Numbers of a log that are fitted beside the coefficients."""

    north: float = 0.0
    """Velocity of the water to the north (m/s)."""
    east: float = 0.0
    """Velocity of the water to the east (m/s)."""
    yaw_offset: float = 0.0
    """Difference of the measured yaw from that of the hull (rad)."""


def scale_values(coefficients: Sequence[Coefficient], values: Sequence[float], nuisance: Nuisance) -> Array:
    """Return shared unknowns [Q] from the values of the coefficients and a nuisance."""
    return np.append(np.array(values) / [item.scale for item in coefficients], nuisance)


@dataclass(frozen=True)
class Linearised:
    """Residuals of E segments and their derivatives by Q shared unknowns at a point, with the states eliminated."""

    shared: Array
    """[Q] K coefficients divided by their scales, and the three numbers of a Nuisance."""
    residuals: Array
    """[E, 3 M] differences from measured x, y and yaw, in turn, in standard deviations, 0 where nothing is measured."""
    slopes: Array
    """[E, 3 M, Q] derivatives of these residuals, with the states following the shared unknowns."""
    states: Array
    """[E, 6] states of least loss: x, y (m), yaw (rad), surge, sway (m/s, through the water), yaw rate (rad/s)."""
    state_slopes: Array
    """[E, 6, Q] derivatives of these states by the shared unknowns."""

    @property
    def information(self) -> tuple[Array, Array]:
        """Return the blocks [E, Q, Q] of the Hessian of each segment's loss, and its gradients [E, Q]."""
        weighted = self.slopes * huber_loss(self.residuals**2)[1][..., None]
        return weighted.mT @ self.slopes, (weighted.mT @ self.residuals[..., None])[..., 0]

    def states_at(self, shared: Array) -> Array:
        """Return the initial states [E, 6] of least loss for other shared unknowns [Q], to first order."""
        return self.states + self.state_slopes @ (shared - self.shared)


@dataclass(frozen=True)
class ShootingProblem:
    """Least-squares problem of fitting a boat to segments of a log."""

    simulator: Simulator
    coefficients: Sequence[Coefficient]
    segments: Segments
    noise: Array
    """[3] standard deviations of measured x, y (m) and yaw (rad)."""

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Return the bounds of the shared unknowns, [Q] each."""
        ends = [(item.low / item.scale, item.high / item.scale) for item in self.coefficients]
        low, high = np.array([*ends, *[(-np.inf, np.inf)] * 2, (-np.pi, np.pi)]).T
        return low, high

    @cached_property
    def prior_std(self) -> Array:
        """Return the standard deviations [Q] of the prior of the shared unknowns."""
        return np.concatenate((np.ones(len(self.coefficients)), _NUISANCE_STDS))

    def prior_offset(self, shared: Array) -> Array:
        """Return the differences [Q] of shared unknowns from the means of their prior, in standard deviations."""
        presets = [item.preset for item in self.coefficients]
        return (shared - scale_values(self.coefficients, presets, Nuisance())) / self.prior_std

    def simulate(self, shared: Array, states: Array) -> Array:
        """Return simulated poses [V, E, N + 1, 3] for V shared unknowns [V, Q] and initial states [V, E, 6]."""
        segments, (variants, count) = self.segments, states.shape[:2]
        values = shared[:, : len(self.coefficients)] * [item.scale for item in self.coefficients]
        actuators = self.simulator.actuator_states(segments.log, segments.start_times, values)
        commands = np.repeat(mean_commands(segments.log, segments.start_times, segments.num_steps)[None], variants, 0)
        with torch.no_grad():
            poses = self.simulator.simulate_poses(
                torch.from_numpy(np.repeat(values, count, 0)),
                *(torch.from_numpy(array.reshape(-1, *array.shape[2:])) for array in (states, actuators, commands)),
            )
        result = np.array(poses.unflatten(0, (variants, count)).numpy())
        times = np.arange(segments.num_steps + 1)[:, None] * TIME_STEP
        result += np.concatenate((times * shared[:, None, None, -3:-1], 0.0 * times + shared[:, None, None, -1:]), -1)
        return result

    def linearise(self, shared: Array, states: Array, damping: float = 1.0) -> Linearised:
        """Return the linearised problem at shared unknowns [Q] and initial states [E, 6].

        Steps of the states are damped, little for intervals that take no state as known.
        """
        segments, count = self.segments, len(self.coefficients)
        steps = np.concatenate((np.full(count, _DIFFERENCE), _STATE_DIFFERENCES))
        points, starts = np.repeat(shared[None], 1 + len(steps), 0), np.repeat(states[None], 1 + len(steps), 0)
        points[1 : 1 + count, :count] += np.diag(steps[:count])
        starts[1 + count :] += np.diag(_STATE_DIFFERENCES)[:, None]
        poses = interpolate_poses(self.simulate(points, starts), np.repeat(segments.pose_times[None], len(points), 0))
        is_measured = np.isfinite(segments.pose)
        errors = np.where(is_measured, (poses - segments.pose) / self.noise, 0.0)
        errors = np.nan_to_num(errors, nan=_MAX_ERROR).clip(-_MAX_ERROR, _MAX_ERROR)
        changes = (errors[1:] - errors[0]) / steps[:, None, None, None]
        slopes = np.zeros((*errors.shape[1:], count + 3))
        slopes[..., :count], by_states = (np.moveaxis(part, 0, -1) for part in np.split(changes, [count]))
        drifts = np.where(is_measured[..., 0], segments.pose_times, 0.0)
        slopes[..., 0, count], slopes[..., 1, count + 1] = drifts / self.noise[0], drifts / self.noise[1]
        slopes[..., 2, count + 2] = is_measured[..., 2] / self.noise[2]
        precision = damping * self.simulator.state_scale**-2
        residuals, slopes, step, following = _eliminate_states(errors[0], slopes, by_states, precision)
        return Linearised(shared, residuals, slopes, states + step, following)

    def solve(self, shared: Array, states: Array, free: Sequence[int], tolerance: float) -> Linearised:
        """Return the problem linearised at the least loss near a start: shared unknowns [Q] and initial states [E, 6].

        Only the coefficients with the indices ``free`` change. The search ends below a relative step of ``tolerance``,
        or below a tenth of it as a relative decrease of the loss.
        """
        low, high = self.bounds
        shared = shared.clip(low, high)
        columns = np.array([*free, *range(len(self.coefficients), len(shared))])
        latest: list[Linearised] = []
        accepted: list[Linearised] = []

        def residuals(values: Array) -> Array:
            point = shared.copy()
            point[columns] = values
            latest[:] = [self.linearise(point, accepted[0].states_at(point) if accepted else states)]
            return np.concatenate((latest[0].residuals.ravel(), self.prior_offset(point)))

        def slopes(_: Array) -> Array:
            accepted[:] = latest  # SciPy asks for derivatives where it accepts a step: at the point that it tried last.
            flat = latest[0].slopes.reshape(-1, len(shared))
            return np.concatenate((flat, np.diag(1.0 / self.prior_std)))[:, columns]

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


def _eliminate_states(errors: Array, slopes: Array, state_slopes: Array, precision: Array) -> tuple[Array, ...]:
    """Return residuals and slopes of Linearised, the steps [E, 6] of the states, and their derivatives [E, 6, Q].

    Steps of states that say little of the motion, such as a turn that dies down at once, are damped by a ``precision``
    [6]. Errors [E, M, 3] have derivatives [E, M, 3, Q] and, by the states, [E, M, 3, 6].
    """
    flat = errors.reshape(len(errors), -1)
    by_shared, by_state = (part.reshape(*flat.shape, -1) for part in (slopes, state_slopes))
    weighted = (by_state * huber_loss(flat**2)[1][..., None]).mT
    inverse = np.linalg.inv(weighted @ by_state + np.diag(precision)) @ weighted
    step, following = -(inverse @ flat[..., None])[..., 0], -(inverse @ by_shared)
    residuals = flat + (by_state @ step[..., None])[..., 0]
    return residuals, by_shared + by_state @ following, step, following


def estimate_noise(problem: ShootingProblem, residuals: Array) -> Array:
    """Return the standard deviations [3] of measured x, y (m) and yaw (rad), from the median size of residuals."""
    measured = np.isfinite(problem.segments.pose)
    sizes = np.abs(residuals).reshape(measured.shape)
    medians = np.array([np.median(sizes[..., axis][measured[..., axis]]) for axis in range(3)])
    noise = problem.noise * np.maximum(1.4826 * medians, 1e-3)
    noise[:2] = np.sqrt((noise[:2] ** 2).mean())
    return np.asarray(np.maximum(noise, (1e-3, 1e-3, 1e-4)))
