"""Multiple shooting: residuals of segments with their derivatives, minimised by the Levenberg-Marquardt algorithm.

Every segment has its own initial state, so that errors do not grow over the log. The same constant current acts
in all segments. The loss of residuals of positions and yaw is Huber's function. Derivatives are central differences of
the world's own functions; all of them are one batch of simulations, which takes about as long as a single one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from train_RL_agents.identification.coefficients import Coefficient
from train_RL_agents.identification.segments import Segments
from train_RL_agents.identification.simulation import Simulator, at_times

Array = NDArray[np.float64]
NOISE = (0.1, 0.1, float(np.radians(1.0)))
"""Standard deviations of measured x, y (m) and yaw (rad) that are assumed first."""
HUBER = 2.0
"""Size of a residual, in standard deviations, above which its loss is linear."""
CURRENT = 0.5
"""Standard deviation of the prior of each component of the current, whose mean is 0 (m/s)."""
_STATE_STEPS = np.array([1e-4, 1e-4, 1e-5, 1e-5, 1e-5, 1e-5])
_SCALED_STEP = 1e-5
"""Step of the central differences of scaled coefficients; _STATE_STEPS are the steps of the states of a segment."""
_STATE_DAMPING, _FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-9, 1e-2, 1e-6, 1e7
_FEW = 0.2
"""Share of segments with an increased loss below which mainly the damping of their states is raised."""
_LARGEST_STEP = 2.0
"""Largest step of a scaled coefficient in an iteration."""


@dataclass(frozen=True)
class Point:
    """Estimates of the coefficients, the current and the initial states of the segments."""

    scaled: Array
    """[K] coefficients, divided by their scales."""
    current: Array
    """[2] velocity of the water to the north and to the east (m/s)."""
    initial: Array
    """[E, 6] states at the start of the segments, with velocities through the water; see Simulator.poses."""


@dataclass(frozen=True)
class Equations:
    """Normal equations at a point, with Q = K + 2 unknowns (coefficients, current) and the states of E segments."""

    residuals: Array
    """[E, M, 3] residuals in standard deviations, 0 where nothing is measured."""
    costs: Array
    """[E] loss of the residuals of each segment."""
    shared: Array
    """[E, Q, Q] blocks of the unknowns that all segments share."""
    mixed: Array
    """[E, Q, 6] blocks of the shared unknowns and the states."""
    states: Array
    """[E, 6, 6] blocks of the states."""
    gradient: Array
    """[E, Q] gradient of the loss by the shared unknowns."""
    state_gradient: Array
    """[E, 6] gradient of the loss by the states."""

    @property
    def cost(self) -> float:
        """Return the loss of the residuals of all segments."""
        return float(self.costs.sum())

    def reduced(self, damping: float | Array = 0.0) -> tuple[Array, Array]:
        """Return the matrix [E, Q, Q] and the gradient [E, Q] of every segment after its state is eliminated.

        Args:
            damping: damping of the states, one number or [E].
        """
        gain = self.mixed @ self._inverse(damping)
        return (
            self.shared - gain @ self.mixed.transpose(0, 2, 1),
            self.gradient - (gain @ self.state_gradient[..., None])[..., 0],
        )

    def _inverse(self, damping: float | Array) -> Array:
        """Return the inverses [E, 6, 6] of the damped blocks of the states."""
        diagonal = np.einsum("eii->ei", self.states)
        share = np.broadcast_to(damping, len(diagonal))[:, None]
        damped = self.states + (share * diagonal + _STATE_DAMPING)[:, None] * np.eye(6)
        return np.asarray(np.linalg.inv(damped))

    def state_steps(self, step: Array, damping: float | Array) -> Array:
        """Return the steps [E, 6] of the states that belong to a step [Q]."""
        right = self.state_gradient + self.mixed.transpose(0, 2, 1) @ step
        return np.asarray(-(self._inverse(damping) @ right[..., None])[..., 0])


class Problem:
    """Least-squares problem of fitting a boat to segments of a log.

    Args:
        simulator: simulator of boats that differ in the coefficients.
        coefficients: K coefficients.
        segments: segments of the log.
    """

    def __init__(self, simulator: Simulator, coefficients: Sequence[Coefficient], segments: Segments) -> None:
        self.simulator, self.segments = simulator, segments
        self.scale = np.array([item.scale for item in coefficients])
        self.preset = np.array([item.preset for item in coefficients]) / self.scale
        self.low = np.array([item.low for item in coefficients]) / self.scale
        self.high = np.array([item.high for item in coefficients]) / self.scale
        self.noise = np.array(NOISE)
        self.precision = np.concatenate((np.ones(len(self.scale)), np.full(2, CURRENT**-2)))
        """[Q] inverse variances of the shared unknowns a priori."""

    def offset(self, point: Point) -> Array:
        """Return the difference [Q] of the shared unknowns from their means a priori."""
        return np.concatenate((point.scaled - self.preset, point.current))

    def prior_cost(self, point: Point) -> float:
        """Return the loss of the shared unknowns under the prior."""
        return float(0.5 * (self.precision * self.offset(point) ** 2).sum())

    def poses(self, segments: Segments, scaled: Array, initial: Array) -> Array:
        """Return simulated poses [V, E, N + 1, 3] of V variants, without the current.

        Args:
            segments: segments, which give the commands.
            scaled: [V, K] coefficients, divided by their scales.
            initial: [V, E, 6] states at the start of the segments.
        """
        variants, count = initial.shape[:2]

        def repeat(array: Array) -> torch.Tensor:
            return torch.from_numpy(np.tile(array, (variants, *[1] * (array.ndim - 1))))

        values = torch.from_numpy(np.repeat(scaled * self.scale, count, 0))
        actuator = self.simulator.started(values, *map(repeat, (segments.first, segments.changes, segments.ago)))
        states = torch.from_numpy(initial.reshape(-1, 6))
        with torch.no_grad():
            poses = self.simulator.poses(values, states, actuator, repeat(segments.shares))
        return np.asarray(poses.unflatten(0, (variants, count)).numpy())

    def _residuals(self, scaled: Array, initial: Array, current: Array) -> Array:
        """Return residuals [V, E, M, 3] of V variants: coefficients [V, K], states [V, E, 6], one current [2]."""
        segments = self.segments
        predicted = at_times(self.poses(segments, scaled, initial), np.tile(segments.stamp, (len(scaled), 1, 1)))
        predicted[..., :2] += segments.stamp[None, :, :, None] * current
        residuals = (predicted - segments.pose) / self.noise
        return np.where(np.isfinite(segments.pose), residuals, 0.0)

    def equations(self, point: Point, free: Sequence[int]) -> Equations:
        """Return the normal equations at a point.

        Args:
            point: estimates.
            free: indices of the coefficients by which derivatives are computed; the derivatives by others are 0.
        """
        count, width = len(self.scale), len(self.segments.start)
        variants = 1 + 2 * (len(free) + 6)
        scaled = np.repeat(point.scaled[None], variants, 0)
        initial = np.repeat(point.initial[None], variants, 0)
        for place, number in enumerate(free):
            scaled[1 + 2 * place, number] += _SCALED_STEP
            scaled[2 + 2 * place, number] -= _SCALED_STEP
        first = 1 + 2 * len(free)
        for number in range(6):
            initial[first + 2 * number, :, number] += _STATE_STEPS[number]
            initial[first + 1 + 2 * number, :, number] -= _STATE_STEPS[number]
        values = self._residuals(scaled, initial, point.current)
        residuals = values[0]
        slopes = 0.5 * (values[1::2] - values[2::2])
        flat = (width, residuals[0].size)
        by_shared = np.zeros((width, count + 2, flat[1]))
        by_state = np.zeros((width, 6, flat[1]))
        for place, number in enumerate(free):
            by_shared[:, number] = slopes[place].reshape(flat) / _SCALED_STEP
        for number in range(6):
            by_state[:, number] = slopes[len(free) + number].reshape(flat) / _STATE_STEPS[number]
        carried = np.where(np.isfinite(self.segments.pose), self.segments.stamp[..., None], 0.0)
        for axis in range(2):
            drift = np.zeros_like(residuals)
            drift[..., axis] = carried[..., axis] / self.noise[axis]
            by_shared[:, count + axis] = drift.reshape(flat)
        return _normal(residuals, by_shared, by_state)


def _normal(residuals: Array, by_shared: Array, by_state: Array) -> Equations:
    """Return the normal equations of residuals [E, M, 3] with derivatives [E, Q, 3 M] and [E, 6, 3 M]."""
    flat = residuals.reshape(len(residuals), -1)
    size = np.abs(flat)
    within = np.minimum(size, HUBER)
    costs = (within * (size - 0.5 * within)).sum(1)
    weight = np.minimum(1.0, HUBER / np.maximum(size, 1e-12))[:, None]
    shared, states = by_shared * weight, by_state * weight
    transposed = by_state.transpose(0, 2, 1)
    return Equations(
        residuals,
        costs,
        shared @ by_shared.transpose(0, 2, 1),
        shared @ transposed,
        states @ transposed,
        (shared @ flat[..., None])[..., 0],
        (states @ flat[..., None])[..., 0],
    )


def minimise(
    problem: Problem, point: Point, free: Sequence[int], enough: float, iterations: int, with_current: bool = True
) -> tuple[Point, Equations, int]:
    """Return the point of the least loss near a start, the equations there, and the number of iterations.

    Args:
        problem: problem to solve.
        point: point to start from.
        free: indices of the coefficients that may change.
        enough: decrease of the loss in an iteration below which the search ends.
        iterations: largest number of iterations.
        with_current: whether the current may change, too.
    """
    count = len(problem.scale)
    active = np.array([*free, *((count, count + 1) if with_current else ())], dtype=np.int64)
    equations = problem.equations(point, free)
    cost, damping, done = equations.cost + problem.prior_cost(point), _FIRST_DAMPING, 0
    # A state whose step was too long is damped by itself, so that one segment does not slow down all.
    state_damping = np.full(len(point.initial), _FIRST_DAMPING)
    while done < iterations:
        done += 1
        step = _bounded_step(problem, equations, point, active, damping, state_damping)
        steps = equations.state_steps(step, state_damping)
        candidate = Point(point.scaled + step[:count], point.current + step[count:], point.initial + steps)
        following = problem.equations(candidate, free)
        candidate_cost = following.cost + problem.prior_cost(candidate)
        is_worse = ~(following.costs <= equations.costs + 0.05 * enough)  # also where a simulation diverges
        state_damping = np.where(is_worse, 10.0 * state_damping, state_damping / 5.0)
        state_damping = state_damping.clip(_LEAST_DAMPING, _MOST_DAMPING)
        if not candidate_cost < cost:
            if damping > _MOST_DAMPING or abs(candidate_cost - cost) < 0.01 * enough:
                break
            # If only a few segments are worse, the damping of their states has been raised already.
            damping *= 2.0 if is_worse.mean() < _FEW else 5.0
            continue
        gain, cost, point, equations = cost - candidate_cost, candidate_cost, candidate, following
        damping = max(damping / 5.0, _LEAST_DAMPING)
        if gain < enough and not is_worse.any():
            break
    return point, equations, done


def _bounded_step(
    problem: Problem,
    equations: Equations,
    point: Point,
    active: NDArray[np.int64],
    damping: float,
    state_damping: Array,
) -> Array:
    """Return the damped step [Q] of the shared unknowns; if some meet their bounds, the others are solved again."""
    count = len(problem.scale)
    matrix, gradient = equations.reduced(state_damping)
    total = matrix.sum(0) + np.diag(problem.precision)
    total = total + damping * np.diag(np.diag(total))
    right = gradient.sum(0) + problem.precision * problem.offset(point)
    unlimited = np.full(2, np.inf)
    low = np.concatenate((np.maximum(problem.low - point.scaled, -_LARGEST_STEP), -unlimited))
    high = np.concatenate((np.minimum(problem.high - point.scaled, _LARGEST_STEP), unlimited))
    step, moving = np.zeros(count + 2), active
    while len(moving):
        trial = step.copy()
        trial[moving] = 0.0
        trial[moving] = -np.linalg.solve(total[np.ix_(moving, moving)], (right + total @ trial)[moving])
        step = np.clip(trial, low, high)
        at_bound = step[moving] != trial[moving]
        if not at_bound.any():
            break
        # Unknowns that met a bound stay there.
        step[moving[~at_bound]] = 0.0
        moving = moving[~at_bound]
    return np.asarray(step)


def noise_of(problem: Problem, residuals: Array) -> Array:
    """Return the standard deviations [3] of measured x, y (m) and yaw (rad), from the median size of the residuals."""
    measured = np.isfinite(problem.segments.pose)
    sizes = [np.median(np.abs(residuals[..., axis][measured[..., axis]])) for axis in range(3)]
    noise = problem.noise * np.maximum(1.4826 * np.array(sizes), 1e-3)
    noise[:2] = np.sqrt((noise[:2] ** 2).mean())
    return np.asarray(np.maximum(noise, (1e-3, 1e-3, 1e-4)))
