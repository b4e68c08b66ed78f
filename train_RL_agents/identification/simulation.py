"""Simulation of many boats at once by ``marinenav_env``, each with its own hydrodynamic coefficients and start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from marinenav_env.config import VesselConfig, WorldConfig
from marinenav_env.physics.actuators import move_vessels, steady_actuator_state
from marinenav_env.scenarios.parameters import build_extras, build_parameters
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.state import Parameters, Vessel
from marinenav_env.stepping.world import initial_state
from marinenav_env.vessels import scaled_settings, top_speed
from train_RL_agents.identification.coefficients import Array, coefficient_value, has_symmetric_mass
from train_RL_agents.identification.log import BoatLog

TIME_STEP = 0.1
"""Length of a step of the time grid of simulations (s)."""
_TENSOR_OPTIONS = {"device": torch.device("cpu"), "dtype": torch.float64}
_MEMORY_STEPS = 200
"""Number of steps for which earlier commands count for the states of actuators."""
_STATE_SHARE = 0.3
"""Change of a state over the boat's length, speed or turn over which the motion is about linear."""
_MIN_LAG = 1e-6
"""Lower bound of the time constant of actuators, which is a divisor (s)."""


class Simulator:
    """Simulator of boats that differ from one preset in K named coefficients, in substeps of the grid's steps."""

    def __init__(self, vessel: VesselConfig, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.num_substeps = max(1, round(TIME_STEP / float(scaled_settings(vessel)["dt"])))
        """Number of substeps of a step, which last about as long as in the world scaled to the vessel."""
        world = WorldConfig(vessel=vessel)
        parameters, _ = build_parameters([world], 1, torch.device("cpu"), torch.float64)
        # Boats with ideal actuators have ActuatorParameters here, too, since a lag may be fitted to them.
        self._parameters = parameters.replace(extras=build_extras([world], 1, **_TENSOR_OPTIONS))
        self._is_tied = has_symmetric_mass(vessel)
        self._is_angle = np.array([False, vessel.actuators.steering != "thrusters"])
        self._max_change = np.where(self._is_angle, coefficient_value(vessel, "angle_rate") * TIME_STEP, np.inf)
        speed, length = top_speed(vessel), coefficient_value(vessel, "length")
        self.state_scale = _STATE_SHARE * np.array([length, length, 1.0, speed, speed, speed / length])
        """[6] changes of x, y (m), yaw (rad), surge, sway (m/s), yaw rate (rad/s) over which motion is about linear."""

    def _boats(self, values: Tensor) -> Parameters:
        """Return the parameters, of batch size [B], of B boats with coefficients [B, K]."""
        boats = self._parameters.expand(len(values))
        for name, column in zip(self.names, values.unbind(1), strict=True):
            # At a lag of 0 differences may use a negative lag, whose exponential is infinite.
            value = column.clamp_min(_MIN_LAG) if name == "lag" else column
            setattr(boats.vessel if hasattr(boats.vessel, name) else boats.extras, name, value[:, None])
            if name == "yDotR" and self._is_tied:
                boats.vessel.nDotV = value[:, None]
        return boats

    def _setpoints(self, shares: Tensor, vessel: Vessel) -> Tensor:
        """Return the setpoints [B, N, 2] (N) of the actuators for commands [B, N, 2], shares of the limits."""
        # An angle has the largest thrust as its limit to both sides.
        is_astern = (shares < 0.0) & ~torch.from_numpy(self._is_angle)
        return shares * torch.where(is_astern, -vessel.min_thrust[:, :, None], vessel.max_thrust[:, :, None])

    def actuator_states(self, log: BoatLog, times: Array, values: Array) -> Array:
        """Return the states [V, E, 2] of the actuators at times [E] (s) of a log, of boats with coefficients [V, K].

        They were steady 20 s before, which is longer than they remember.
        """
        lags = self._boats(torch.from_numpy(values)).extras.lag.numpy().clip(_MIN_LAG)  # type: ignore[union-attr]
        # An angle has no lag, but a largest rate.
        followed = np.where(self._is_angle, 1.0, 1.0 - np.exp(-TIME_STEP / lags)[:, None])
        shares = mean_commands(log, times - _MEMORY_STEPS * TIME_STEP, _MEMORY_STEPS)
        vessel, extras = self._parameters.vessel, self._parameters.extras
        setpoints = self._setpoints(torch.from_numpy(shares).reshape(-1, 1, 2), vessel)
        scenario = blank_scenarios(len(setpoints), 1, 0, 0, torch.device("cpu"), torch.float64)
        targets = steady_actuator_state(setpoints, scenario, vessel, extras).numpy().reshape(shares.shape)
        state = np.repeat(targets[None, :, 0], len(values), 0)
        for target in targets.swapaxes(0, 1):
            state = state + (followed * (target - state)).clip(-self._max_change, self._max_change)
        return state

    @torch.no_grad()
    def simulate_poses(self, *given: Array) -> Array:
        """Return the poses [B, N + 1, 3] of boats with coefficients [B, K] at the points of the grid, yaw not wrapped.

        Given are the coefficients, the states at the start [B, 6], x, y (m), yaw (rad), surge, sway (m/s) and yaw rate
        (rad/s), those of the actuators [B, 2], and the mean commands of the steps [B, N, 2], as shares of the limits.
        """
        values, initial, actuator, shares = map(torch.from_numpy, given)
        parameters = self._boats(values)
        scenario = blank_scenarios(len(values), 1, 0, 0, torch.device("cpu"), torch.float64)
        setpoints = self._setpoints(shares, parameters.vessel)
        cos, sin, (x, y, yaw, u, v, r) = initial[:, 2].cos(), initial[:, 2].sin(), initial.unbind(1)
        velocity = torch.stack((cos * u - sin * v, sin * u + cos * v, r), -1)
        start = {"start": torch.stack((x, y), -1), "heading": yaw, "velocity": velocity}
        scenario = scenario.replace(**{name: value[:, None] for name, value in start.items()})
        state = initial_state(scenario, parameters.rules.core_radius).replace(actuator=actuator[:, None])
        poses = [initial[:, :3]]
        for setpoint in setpoints.unbind(1):
            rates = (setpoint[:, None] - state.thrust) / TIME_STEP
            state = move_vessels(state, rates, scenario, parameters, TIME_STEP / self.num_substeps, self.num_substeps)
            poses.append(state.pose[:, 0])
        found = np.array(torch.stack(poses, 1).numpy())
        with np.errstate(invalid="ignore"):  # A yaw is infinite where the simulation diverges.
            found[..., 2] = np.unwrap(found[..., 2], axis=1)
        return found


def mean_commands(log: BoatLog, starts: Array, count: int) -> Array:
    """Return the mean commands [E, N, 2] in ``count`` steps from times [E] (s) of a log on, as shares of the limits."""
    edges = np.concatenate(([-1e4], log.time[1:], [log.time[-1] + 1e4]))
    sums = np.cumsum(log.commands * np.diff(edges)[:, None], 0)
    grid = starts[:, None] + np.arange(count + 1) * TIME_STEP
    integral = [np.interp(grid, edges, np.append(0.0, column)) for column in sums.T]
    return np.asarray(np.diff(np.stack(integral, -1), axis=1) / TIME_STEP)


def interpolate_poses(poses: Array, stamp: Array) -> Array:
    """Interpolate poses [..., N + 1, 3] (x, y in m, yaw in rad), a TIME_STEP apart, linearly at times [..., M] (s)."""
    place = np.clip(stamp / TIME_STEP, 0.0, poses.shape[-2] - 1 - 1e-9)
    before = place.astype(np.int64)
    share = (place - before)[..., None]
    low = np.take_along_axis(poses, before[..., None], -2)
    return np.asarray((1.0 - share) * low + share * np.take_along_axis(poses, before[..., None] + 1, -2))
