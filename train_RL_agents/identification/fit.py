"""Fit of a boat's coefficients to a log: multiple shooting through the simulator, with a robust loss.

The log is cut into segments, each with an initial state of its own, so that errors do not grow over the log. Residuals
of positions and yaw are weighed by Huber's function. Every iteration solves the normal equations of Levenberg and
Marquardt, from which the initial states are eliminated. Derivatives are differences of simulations in one batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from marinenav_env.config import VesselConfig, WorldConfig
from marinenav_env.physics.actuators import move
from marinenav_env.scenarios.parameters import build_extras, build_parameters
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.state import Parameters, State, Vessel
from train_RL_agents.identification.log import Array, BoatLog, Segments, cut

STEP, SUBSTEPS = 0.1, 2
"""Step of the grid (s), and substeps of the simulator in it."""
SECONDS = 10.0
"""Length of a segment (s)."""
FITTED = (
    *("xDotU", "xU", "xUU", "xUUU", "yDotV", "yV", "yVV", "cross_flow", "nDotR", "nR", "nRR", "nUV"),
    "lag",
)
"""Coefficients that are fitted if the boat that one starts from has them."""
_NEGATIVE = {"xU", "xUU", "xUUU", "yV", "yVV", "nR", "nRR"}
_POSITIVE = {"cross_flow", "lag"}
NOISE = (0.1, 0.1, np.radians(1.0))
"""Standard deviations of measured x, y (m) and yaw (rad) that residuals are divided by at first."""
_HUBER, _PRIOR, _DIFFERENCE = 2.0, 3.0, 1e-4
"""Residual (in standard deviations) from which it counts linearly; standard deviation of a coefficient around that of
the start, as a factor on it; step of the differences."""
_ITERATIONS, _DONE = 40, 1e-6
_BOOTSTRAP = 400


@dataclass(frozen=True)
class Fit:
    """Coefficients that fit a log."""

    vessel: VesselConfig
    """The boat."""
    names: tuple[str, ...]
    """Names of the fitted coefficients."""
    value: Array
    """[K] coefficients."""
    low: Array
    """[K] lower end of the 95% interval, by bootstrap over the segments."""
    high: Array
    """[K] upper end."""
    initial: Array
    """[E, 6] x, y (m), yaw (rad), surge, sway (m/s), yaw rate (rad/s) at the start of the segments."""
    iterations: int
    """Iterations that were made."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the coefficients that the log cannot tell: their interval is as wide as they are large."""
        wide = (self.high - self.low) > np.abs(self.value)
        return tuple(name for name, is_wide in zip(self.names, wide, strict=True) if is_wide)


def coefficient(vessel: VesselConfig, name: str) -> float:
    """Return a coefficient of a boat by name."""
    value: Any = vessel.actuators.lag if name == "lag" else getattr(vessel, name)
    return float(value)


def with_coefficients(vessel: VesselConfig, names: tuple[str, ...], values: Array) -> VesselConfig:
    """Return a boat with other coefficients."""
    numbers = dict(zip(names, values.tolist(), strict=True))
    lag = numbers.pop("lag", vessel.actuators.lag)
    return replace(vessel, **numbers, actuators=replace(vessel.actuators, lag=lag))


# Simulation -------------------------------------------------------------------------------------


def shaft_states(log: BoatLog, vessel: VesselConfig, lags: Array, begins: Array) -> Array:
    """Return the shaft speeds of both sides when segments begin, for several time constants, [V, E, 2]."""
    most, least = float(vessel.max_thrust), -float(vessel.min_thrust)  # type: ignore[arg-type]
    share = np.where(log.commands > 0.0, log.commands / most, log.commands / least)
    share = np.clip(share, -1.0, 1.0)
    wanted = np.sign(share) * np.abs(share) ** float(vessel.actuators.speed_exponent)  # type: ignore[arg-type]
    speeds = np.repeat(wanted[:1], len(lags), 0)
    out, at = np.zeros((len(lags), len(begins), 2)), np.searchsorted(log.time, begins + 1e-9, side="right") - 1
    decay = np.where(lags > 0.0, 1.0 / np.maximum(lags, 1e-9), 1e9)[:, None]
    for sample in range(len(log.time)):
        for number in np.nonzero(at == sample)[0]:
            spent = begins[number] - log.time[sample]
            out[:, number] = wanted[sample] + (speeds - wanted[sample]) * np.exp(-spent * decay)
        if sample + 1 < len(log.time):
            spent = log.time[sample + 1] - log.time[sample]
            speeds = wanted[sample] + (speeds - wanted[sample]) * np.exp(-spent * decay)
    return out


def simulate(
    vessel: VesselConfig, names: tuple[str, ...], values: Array, initial: Array, shafts: Array, commands: Array
) -> Array:
    """Return the poses [B, N + 1, 3] of B boats at the points of the grid; yaw is not wrapped.

    Args:
        vessel: boat whose other coefficients hold.
        names: K coefficients.
        values: [B, K] their values.
        initial: [B, 6] initial states, as in Fit.
        shafts: [B, 2] initial shaft speeds.
        commands: [B, N, 2] setpoints (N) during each step.
    """
    batch = len(values)
    state, parameters = _prepare(vessel, names, values, initial, shafts)
    scenario = blank_scenarios(batch, 1, 0, 0, torch.device("cpu"), torch.float64)
    setpoints = torch.from_numpy(commands).movedim(1, 0)[:, :, None]
    poses, turned = [torch.from_numpy(initial[:, :3])], torch.from_numpy(initial[:, 2])
    for setpoint in setpoints:
        rates, yaw = (setpoint - state.thrust) / STEP, state.pose[:, 0, 2]
        moved = move(state, rates, scenario, parameters, STEP / SUBSTEPS, SUBSTEPS)
        state.pose, state.velocity_water, state.velocity_ground, state.thrust, state.actuator = moved
        difference = state.pose[:, 0, 2] - yaw
        turned = turned + torch.remainder(difference + np.pi, 2.0 * np.pi) - np.pi
        poses.append(torch.cat((state.pose[:, 0, :2], turned[:, None]), -1))
    return torch.stack(poses, 1).numpy()


def _prepare(
    vessel: VesselConfig, names: tuple[str, ...], values: Array, initial: Array, shafts: Array
) -> tuple[State, Parameters]:
    """Return the state and the parameters of ``simulate``."""
    options = {"device": torch.device("cpu"), "dtype": torch.float64}
    world = WorldConfig(vessel=vessel)
    parameters, _ = build_parameters([world], 1, torch.device("cpu"), torch.float64)
    if parameters.extras is None:
        parameters.extras = build_extras([world], 1, **options)
    parameters = parameters[torch.zeros(len(values), dtype=torch.int64)].clone()
    columns = torch.from_numpy(values)
    for number, name in enumerate(names):
        part = parameters.vessel if name in Vessel.__annotations__ else parameters.extras
        part.set(name, columns[:, number : number + 1])
    start = torch.from_numpy(initial)[:, None]
    cos, sin, u, v = start[..., 2].cos(), start[..., 2].sin(), start[..., 3], start[..., 4]
    velocity = torch.stack((cos * u - sin * v, sin * u + cos * v, start[..., 5]), -1)
    flags = torch.ones(len(values), 1, dtype=torch.bool)
    state = State(
        pose=torch.cat((start[..., :2], torch.remainder(start[..., 2:3], 2.0 * np.pi)), -1),
        velocity_water=velocity,
        velocity_ground=velocity.clone(),
        thrust=torch.zeros(len(values), 1, 2, dtype=torch.float64),
        active=flags,
        collided=~flags,
        arrived=~flags,
        steps=torch.zeros(len(values), dtype=torch.int64),
        actuator=torch.from_numpy(shafts)[:, None],
        batch_size=[len(values)],
    )
    return state, parameters


def at_stamps(poses: Array, stamp: Array) -> Array:
    """Return poses [B, N + 1, 3] of a grid at times [B, M] (s), by linear interpolation."""
    place = np.clip(stamp / STEP, 0.0, poses.shape[1] - 1 - 1e-9)
    before = place.astype(np.int64)
    share = (place - before)[..., None]
    rows = np.arange(len(poses))[:, None]
    return (1.0 - share) * poses[rows, before] + share * poses[rows, before + 1]


# Fit --------------------------------------------------------------------------------------------


def guess_initial(segments: Segments) -> Array:
    """Return initial states [E, 6] of segments from quadratic polynomials of their first 4 s."""
    states = []
    for stamp, pose in zip(segments.stamp, segments.pose, strict=True):
        known = np.isfinite(pose[:, 0]) & (stamp <= 4.0)
        known[: max(4, known.sum())] = np.isfinite(pose[: max(4, known.sum()), 0])
        (ax, ay, ayaw), (vx, vy, r) = np.polyfit(stamp[known], pose[known], 2)[::-1][:2]
        states.append([ax, ay, ayaw, np.cos(ayaw) * vx + np.sin(ayaw) * vy, np.cos(ayaw) * vy - np.sin(ayaw) * vx, r])
    return np.array(states)


class _Problem:
    """Residuals of segments and their derivatives, in scaled coefficients."""

    def __init__(self, vessel: VesselConfig, names: tuple[str, ...], log: BoatLog, segments: Segments) -> None:
        self.vessel, self.names, self.log, self.segments = vessel, names, log, segments
        self.usual = np.array([coefficient(vessel, name) for name in names])
        self.noise = np.array(NOISE)
        self.low = np.where([name in _POSITIVE for name in names], 1e-6, -np.inf)
        self.high = np.where([name in _NEGATIVE for name in names], -1e-6, np.inf)

    def residuals(self, scaled: Array, initial: Array) -> Array:
        """Return residuals [V, E, M, 3] of V variants: coefficients [V, K] and initial states [V, E, 6]."""
        variants, count = len(scaled), len(self.segments.start)
        values = scaled * self.usual
        lags = np.full(variants, coefficient(self.vessel, "lag"))
        if "lag" in self.names:
            lags = values[:, self.names.index("lag")]
        shafts = shaft_states(self.log, self.vessel, lags, self.segments.start)
        poses = simulate(
            self.vessel,
            self.names,
            np.repeat(values, count, 0),
            initial.reshape(-1, 6),
            shafts.reshape(-1, 2),
            np.tile(self.segments.commands, (variants, 1, 1)),
        )
        found = at_stamps(poses, np.tile(self.segments.stamp, (variants, 1)))
        found = found.reshape(variants, count, -1, 3)
        return np.nan_to_num((found - self.segments.pose) / self.noise, nan=0.0)

    def cost(self, residuals: Array, scaled: Array) -> float:
        """Return the loss: Huber's function of the residuals, and the coefficients' distance from the start."""
        size = np.abs(residuals)
        # A candidate may diverge.
        size = np.nan_to_num(np.minimum(size, 1e6), nan=1e6)
        huber = np.where(size <= _HUBER, 0.5 * size**2, _HUBER * (size - 0.5 * _HUBER))
        return float(huber.sum() + 0.5 * (((scaled - 1.0) / _PRIOR) ** 2).sum())

    def derivatives(self, scaled: Array, initial: Array, free: bool = True) -> tuple[Array, Array, Array]:
        """Return residuals [E, M, 3] and derivatives by coefficients [K, E, M, 3] and initial states [6, E, M, 3]."""
        count = len(self.names) if free else 0
        many = np.repeat(scaled[None], 1 + count + 6, 0)
        states = np.repeat(initial[None], 1 + count + 6, 0)
        for number in range(count):
            many[1 + number, number] += _DIFFERENCE
        for number in range(6):
            states[1 + count + number, :, number] += _DIFFERENCE
        residuals = self.residuals(many, states)
        slopes = (residuals[1:] - residuals[0]) / _DIFFERENCE
        return residuals[0], slopes[:count], slopes[count:]


def _normal(problem: _Problem, scaled: Array, initial: Array, free: bool) -> tuple[Array, ...]:
    """Return residuals, and the blocks of the weighed normal equations of every segment."""
    residuals, by_value, by_state = problem.derivatives(scaled, initial, free)
    weight = np.minimum(1.0, _HUBER / np.maximum(np.abs(residuals), 1e-12))
    flat, w = residuals.reshape(len(residuals), -1), weight.reshape(len(residuals), -1)
    jt = by_value.reshape(len(by_value), len(flat), flat.shape[1]).transpose(1, 0, 2)
    jz = by_state.reshape(6, len(flat), -1).transpose(1, 0, 2)
    tt, tz = (jt * w[:, None]) @ jt.transpose(0, 2, 1), (jt * w[:, None]) @ jz.transpose(0, 2, 1)
    zz = (jz * w[:, None]) @ jz.transpose(0, 2, 1)
    gt, gz = ((j * w[:, None]) @ flat[..., None] for j in (jt, jz))
    return residuals, tt, tz, zz, gt[..., 0], gz[..., 0]


def _solve(blocks: tuple[Array, ...], damping: float, prior: Array, pull: Array) -> tuple[Array, Array, Array, Array]:
    """Return the steps of coefficients and initial states, and every segment's part of the reduced equations."""
    _, tt, tz, zz, gt, gz = blocks
    damped = zz + damping * np.einsum("eii->ei", zz)[:, None] * np.eye(6) + 1e-9 * np.eye(6)
    inverse = np.linalg.inv(damped)
    reduced = tt - tz @ inverse @ tz.transpose(0, 2, 1)
    right = gt - (tz @ inverse @ gz[..., None])[..., 0]
    matrix = reduced.sum(0) + np.diag(prior)
    matrix = matrix + damping * np.diag(np.diag(matrix))
    step = -np.linalg.solve(matrix, right.sum(0) + pull) if len(matrix) else np.zeros(0)
    states = -(inverse @ (gz + (tz.transpose(0, 2, 1) @ step))[..., None])[..., 0]
    return step, states, reduced, right


def _minimise(problem: _Problem, initial: Array, free: bool = True) -> tuple[Array, Array, int, tuple[Array, ...]]:
    """Return scaled coefficients and initial states of the least loss, the iterations, and the last equations."""
    scaled, damping = np.ones(len(problem.names)), 1e-3
    blocks = _normal(problem, scaled, initial, free)
    cost, made = problem.cost(blocks[0], scaled), 0
    while made < _ITERATIONS:
        made += 1
        prior = np.full(len(problem.names) if free else 0, 1.0 / _PRIOR**2)
        step, states, *_ = _solve(blocks, damping, prior, (scaled - 1.0)[: len(prior)] * prior)
        moved = scaled.copy()
        moved[: len(step)] += np.clip(step, -1.0, 1.0)
        moved = np.clip(moved * problem.usual, problem.low, problem.high) / problem.usual
        candidate = problem.cost(problem.residuals(moved[None], (initial + states)[None])[0], moved)
        if not candidate < cost:
            damping *= 10.0
            if damping > 1e6:
                break
            continue
        gain, cost = cost - candidate, candidate
        scaled, initial, damping = moved, initial + states, max(damping / 5.0, 1e-7)
        blocks = _normal(problem, scaled, initial, free)
        if gain < _DONE * cost:
            break
    return scaled, initial, made, blocks


def fit(log: BoatLog, vessel: VesselConfig, until: float | None = None) -> Fit:
    """Fit the coefficients of a boat to a log.

    Args:
        log: the log.
        vessel: boat to start from; coefficients of FITTED that are 0 stay so, and others are not changed.
        until: time of the log up to which it is used (s); None: all.

    Returns:
        The coefficients, with 95% intervals.
    """
    names = tuple(name for name in FITTED if coefficient(vessel, name) != 0.0)
    last = log.seconds if until is None else until
    segments = cut(log, np.arange(0.0, last - SECONDS + 1e-9, SECONDS), SECONDS, STEP)
    problem = _Problem(vessel, names, log, segments)
    scaled, initial, iterations, blocks = _minimise(problem, guess_initial(segments))
    # The noise of the log, from the residuals by the median absolute deviation.
    sigma = 1.4826 * np.nanmedian(np.abs(np.where(np.isfinite(segments.pose), blocks[0], np.nan)), axis=(0, 1))
    problem.noise = problem.noise * np.maximum(sigma, 1e-2)
    problem.usual = problem.usual * scaled
    scaled, initial, more, blocks = _minimise(problem, initial)
    prior = np.full(len(names), 1.0 / _PRIOR**2)
    *_, reduced, right = _solve(blocks, 0.0, prior, (scaled - 1.0) * prior)
    generator = np.random.default_rng(0)
    drawn = generator.integers(len(reduced), size=(_BOOTSTRAP, len(reduced)))
    steps = np.stack(
        [
            -np.linalg.solve(reduced[rows].sum(0) + np.diag(prior), right[rows].sum(0) + (scaled - 1.0) * prior)
            for rows in drawn
        ]
    )
    value = scaled * problem.usual
    around = np.quantile(steps, (0.025, 0.975), axis=0) * problem.usual
    low, high = value + around.min(0), value + around.max(0)
    return Fit(with_coefficients(vessel, names, value), names, value, low, high, initial, iterations + more)


def predict(found: Fit, log: BoatLog, begins: Array, seconds: float) -> tuple[Segments, Array]:
    """Return segments of a log that were not fitted, and the predicted poses [E, M, 3] at their samples.

    The initial state of each is estimated from its first 10 s, with the coefficients of the fit.

    Args:
        found: the fit.
        log: the log.
        begins: times at which predictions begin (s).
        seconds: length of the predictions (s).
    """
    long = cut(log, begins, seconds, STEP)
    short = cut(log, long.start, SECONDS, STEP)
    kept = np.isin(long.start, short.start)
    long = Segments(*(part[kept] for part in (long.start, long.commands, long.stamp, long.pose)))
    problem = _Problem(found.vessel, found.names, log, short)
    _, initial, _, _ = _minimise(problem, guess_initial(short), free=False)
    lag = np.array([coefficient(found.vessel, "lag")])
    shafts = shaft_states(log, found.vessel, lag, long.start)[0]
    values = np.repeat(found.value[None], len(initial), 0)
    poses = simulate(found.vessel, found.names, values, initial, shafts, long.commands)
    return long, at_stamps(poses, long.stamp)
