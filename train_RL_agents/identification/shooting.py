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
from train_RL_agents.identification.simulation import Simulator, interpolate_poses

Array = NDArray[np.float64]
INITIAL_NOISE = (0.1, 0.1, float(np.radians(1.0)))
"""Standard deviations of measured x, y (m) and yaw (rad) that are assumed first."""
HUBER_THRESHOLD = 2.0
"""Size of a residual, in standard deviations, above which Huber's loss is linear."""
CURRENT_PRIOR_STD = 0.5
"""Standard deviation of the prior of each component of the current, whose mean is 0 (m/s)."""
_STATE_DIFFERENCES = np.array([1e-4, 1e-4, 1e-5, 1e-5, 1e-5, 1e-5])
"""Steps of the central differences by the six components of a segment's initial state (m, rad, m/s, rad/s)."""
_COEFFICIENT_DIFFERENCE = 1e-5
"""Step of the central differences by a scaled coefficient."""
_STATE_DAMPING = 1e-9
"""Damping of states that is added to the damping of an iteration."""
_FIRST_DAMPING, _LEAST_DAMPING, _MOST_DAMPING = 1e-2, 1e-6, 1e7
_FEW_SEGMENTS_SHARE = 0.2
"""Share of segments with an increased loss below which mainly the damping of their states is raised."""
_MAX_COEFFICIENT_STEP = 2.0
"""Largest step of a scaled coefficient in an iteration."""


@dataclass(frozen=True)
class Unknowns:
    """Estimates of all unknowns of a fit: coefficients, current and initial states of the segments."""

    coefficients: Array
    """[K] coefficients, divided by their scales."""
    current: Array
    """[2] velocity of the water to the north and to the east (m/s)."""
    initial: Array
    """[E, 6] initial states of the segments: x, y (m), yaw (rad), surge, sway (m/s, through the water), yaw rate."""


@dataclass(frozen=True)
class NormalEquations:
    """Normal equations of least squares for Q = K + 2 unknowns (coefficients, current) and E segments' states."""

    residuals: Array
    """[E, M, 3] residuals in standard deviations, 0 where nothing is measured."""
    costs: Array
    """[E] loss of the residuals of each segment."""
    shared_blocks: Array
    """[E, Q, Q] blocks of the unknowns that all segments share."""
    mixed_blocks: Array
    """[E, Q, 6] blocks of the shared unknowns and the states."""
    state_blocks: Array
    """[E, 6, 6] blocks of the states."""
    gradient: Array
    """[E, Q] gradient of the loss by the shared unknowns."""
    state_gradient: Array
    """[E, 6] gradient of the loss by the states."""

    @property
    def cost(self) -> float:
        """Return the loss of the residuals of all segments."""
        return float(self.costs.sum())

    def eliminate_states(self, damping: float | Array = 0.0) -> tuple[Array, Array]:
        """Return the matrix [E, Q, Q] and the gradient [E, Q] of every segment after its state is eliminated.

        Args:
            damping: damping of the states as a share of their diagonal, one number or [E].
        """
        gain = self.mixed_blocks @ self._inverse(damping)
        return (
            self.shared_blocks - gain @ self.mixed_blocks.transpose(0, 2, 1),
            self.gradient - (gain @ self.state_gradient[..., None])[..., 0],
        )

    def _inverse(self, damping: float | Array) -> Array:
        """Return the inverses [E, 6, 6] of the blocks of the states with damping, one number or [E]."""
        diagonal = np.einsum("eii->ei", self.state_blocks)
        share = np.broadcast_to(damping, len(diagonal))[:, None]
        damped = self.state_blocks + (share * diagonal + _STATE_DAMPING)[:, None] * np.eye(6)
        return np.asarray(np.linalg.inv(damped))

    def state_steps(self, step: Array, damping: float | Array) -> Array:
        """Return the steps [E, 6] of the states that follow from a step [Q] of the shared unknowns, with damping."""
        right = self.state_gradient + self.mixed_blocks.transpose(0, 2, 1) @ step
        return np.asarray(-(self._inverse(damping) @ right[..., None])[..., 0])


class FitProblem:
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
        self.noise = np.array(INITIAL_NOISE)
        self.prior_precision = np.concatenate((np.ones(len(self.scale)), np.full(2, CURRENT_PRIOR_STD**-2)))
        """[Q] inverse variances of the prior of the shared unknowns."""

    def prior_offset(self, point: Unknowns) -> Array:
        """Return the difference [Q] of the shared unknowns from the means of their prior."""
        return np.concatenate((point.coefficients - self.preset, point.current))

    def prior_cost(self, point: Unknowns) -> float:
        """Return the loss of the shared unknowns under the prior."""
        return float(0.5 * (self.prior_precision * self.prior_offset(point) ** 2).sum())

    def simulate_poses(self, segments: Segments, scaled: Array, initial: Array) -> Array:
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
        earlier = (segments.initial_targets, segments.target_changes, segments.change_ages, segments.initial_angles)
        actuator = self.simulator.actuator_states(values, *map(repeat, earlier))
        states = torch.from_numpy(initial.reshape(-1, 6))
        with torch.no_grad():
            poses = self.simulator.simulate_poses(values, states, actuator, repeat(segments.mean_commands))
        return np.asarray(poses.unflatten(0, (variants, count)).numpy())

    def _residuals(self, scaled: Array, initial: Array, current: Array) -> Array:
        """Return residuals [V, E, M, 3] of V variants: coefficients [V, K], states [V, E, 6], one current [2]."""
        segments = self.segments
        predicted = interpolate_poses(
            self.simulate_poses(segments, scaled, initial), np.tile(segments.pose_times, (len(scaled), 1, 1))
        )
        predicted[..., :2] += segments.pose_times[None, :, :, None] * current
        residuals = (predicted - segments.pose) / self.noise
        return np.where(np.isfinite(segments.pose), residuals, 0.0)

    def equations(self, point: Unknowns, free: Sequence[int]) -> NormalEquations:
        """Return the normal equations at estimates of the unknowns.

        Args:
            point: estimates.
            free: indices of the coefficients by which derivatives are computed; the derivatives by others are 0.
        """
        count, width = len(self.scale), len(self.segments.start_times)
        variants = 1 + 2 * (len(free) + 6)
        scaled = np.repeat(point.coefficients[None], variants, 0)
        initial = np.repeat(point.initial[None], variants, 0)
        for place, number in enumerate(free):
            scaled[1 + 2 * place, number] += _COEFFICIENT_DIFFERENCE
            scaled[2 + 2 * place, number] -= _COEFFICIENT_DIFFERENCE
        first = 1 + 2 * len(free)
        for number in range(6):
            initial[first + 2 * number, :, number] += _STATE_DIFFERENCES[number]
            initial[first + 1 + 2 * number, :, number] -= _STATE_DIFFERENCES[number]
        values = self._residuals(scaled, initial, point.current)
        residuals = values[0]
        slopes = 0.5 * (values[1::2] - values[2::2])
        flat = (width, residuals[0].size)
        by_shared = np.zeros((width, count + 2, flat[1]))
        by_state = np.zeros((width, 6, flat[1]))
        for place, number in enumerate(free):
            by_shared[:, number] = slopes[place].reshape(flat) / _COEFFICIENT_DIFFERENCE
        for number in range(6):
            by_state[:, number] = slopes[len(free) + number].reshape(flat) / _STATE_DIFFERENCES[number]
        carried = np.where(np.isfinite(self.segments.pose), self.segments.pose_times[..., None], 0.0)
        for axis in range(2):
            drift = np.zeros_like(residuals)
            drift[..., axis] = carried[..., axis] / self.noise[axis]
            by_shared[:, count + axis] = drift.reshape(flat)
        return _normal_equations(residuals, by_shared, by_state)


def _normal_equations(residuals: Array, by_shared: Array, by_state: Array) -> NormalEquations:
    """Return the normal equations of residuals [E, M, 3] with derivatives [E, Q, 3 M] and [E, 6, 3 M]."""
    flat = residuals.reshape(len(residuals), -1)
    size = np.abs(flat)
    within = np.minimum(size, HUBER_THRESHOLD)
    costs = (within * (size - 0.5 * within)).sum(1)
    weight = np.minimum(1.0, HUBER_THRESHOLD / np.maximum(size, 1e-12))[:, None]
    shared, states = by_shared * weight, by_state * weight
    transposed = by_state.transpose(0, 2, 1)
    return NormalEquations(
        residuals,
        costs,
        shared @ by_shared.transpose(0, 2, 1),
        shared @ transposed,
        states @ transposed,
        (shared @ flat[..., None])[..., 0],
        (states @ flat[..., None])[..., 0],
    )


def minimise(
    problem: FitProblem,
    point: Unknowns,
    free: Sequence[int],
    tolerance: float,
    max_iterations: int,
    with_current: bool = True,
) -> tuple[Unknowns, NormalEquations, int]:
    """Return the estimates of least loss near a start, the equations there, and the number of iterations.

    Args:
        problem: problem to solve.
        point: estimates to start from.
        free: indices of the coefficients that may change.
        tolerance: decrease of the loss in an iteration below which the search ends.
        max_iterations: largest number of iterations.
        with_current: whether the current may change, too.
    """
    count = len(problem.scale)
    active = np.array([*free, *((count, count + 1) if with_current else ())], dtype=np.int64)
    equations = problem.equations(point, free)
    cost, damping, done = equations.cost + problem.prior_cost(point), _FIRST_DAMPING, 0
    # A state whose step was too long is damped by itself, so that one segment does not slow down all.
    state_damping = np.full(len(point.initial), _FIRST_DAMPING)
    while done < max_iterations:
        done += 1
        step = _bounded_step(problem, equations, point, active, damping, state_damping)
        steps = equations.state_steps(step, state_damping)
        candidate = Unknowns(point.coefficients + step[:count], point.current + step[count:], point.initial + steps)
        following = problem.equations(candidate, free)
        candidate_cost = following.cost + problem.prior_cost(candidate)
        is_worse = ~(following.costs <= equations.costs + 0.05 * tolerance)  # also where a simulation diverges
        state_damping = np.where(is_worse, 10.0 * state_damping, state_damping / 5.0)
        state_damping = state_damping.clip(_LEAST_DAMPING, _MOST_DAMPING)
        if not candidate_cost < cost:
            if damping > _MOST_DAMPING or abs(candidate_cost - cost) < 0.01 * tolerance:
                break
            # If only a few segments are worse, the damping of their states has been raised already.
            damping *= 2.0 if is_worse.mean() < _FEW_SEGMENTS_SHARE else 5.0
            continue
        gain, cost, point, equations = cost - candidate_cost, candidate_cost, candidate, following
        damping = max(damping / 5.0, _LEAST_DAMPING)
        if gain < tolerance and not is_worse.any():
            break
    return point, equations, done


def _bounded_step(
    problem: FitProblem,
    equations: NormalEquations,
    point: Unknowns,
    active: NDArray[np.int64],
    damping: float,
    state_damping: Array,
) -> Array:
    """Return the damped step [Q] of the shared unknowns; if some meet their bounds, the others are solved again."""
    count = len(problem.scale)
    matrix, gradient = equations.eliminate_states(state_damping)
    total = matrix.sum(0) + np.diag(problem.prior_precision)
    total = total + damping * np.diag(np.diag(total))
    right = gradient.sum(0) + problem.prior_precision * problem.prior_offset(point)
    unlimited = np.full(2, np.inf)
    low = np.concatenate((np.maximum(problem.low - point.coefficients, -_MAX_COEFFICIENT_STEP), -unlimited))
    high = np.concatenate((np.minimum(problem.high - point.coefficients, _MAX_COEFFICIENT_STEP), unlimited))
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


def estimate_noise(problem: FitProblem, residuals: Array) -> Array:
    """Return the standard deviations [3] of measured x, y (m) and yaw (rad), from the median size of the residuals."""
    measured = np.isfinite(problem.segments.pose)
    sizes = [np.median(np.abs(residuals[..., axis][measured[..., axis]])) for axis in range(3)]
    noise = problem.noise * np.maximum(1.4826 * np.array(sizes), 1e-3)
    noise[:2] = np.sqrt((noise[:2] ** 2).mean())
    return np.asarray(np.maximum(noise, (1e-3, 1e-3, 1e-4)))
