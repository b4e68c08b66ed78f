"""Simulation of many boats at once by ``marinenav_env``, each with its own hydrodynamic coefficients and start."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env.config import VesselConfig, WorldConfig
from marinenav_env.physics.actuators import move_vessels, steady_actuator_state
from marinenav_env.physics.dynamics import wrap_to_pi, wrap_to_two_pi
from marinenav_env.scenarios.parameters import build_extras, build_parameters
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.state import ActuatorParameters, Parameters, State, Vessel
from marinenav_env.vessels import scaled_settings
from train_RL_agents.identification.coefficients import has_symmetric_mass

Array = NDArray[np.float64]
TIME_STEP = 0.1
"""Length of a step of the time grid of simulations (s)."""
_TENSOR_OPTIONS = {"device": torch.device("cpu"), "dtype": torch.float64}
_MIN_LAG = 1e-6
"""Lower bound of the time constant of actuators, which is a divisor (s)."""


def num_substeps(vessel: VesselConfig) -> int:
    """Return the number of substeps per TIME_STEP that last about as long as in the world scaled to the vessel."""
    return max(1, round(TIME_STEP / float(scaled_settings(vessel)["dt"])))


class Simulator:
    """Simulator of boats that differ from one preset in some coefficients.

    Args:
        vessel: preset.
        names: names of the K coefficients that differ.
        substeps: number of substeps in a step of the grid.
    """

    def __init__(self, vessel: VesselConfig, names: Sequence[str], substeps: int) -> None:
        self.names, self._substeps = tuple(names), substeps
        world = WorldConfig(vessel=vessel)
        self._parameters, _ = build_parameters([world], 1, torch.device("cpu"), torch.float64)
        extras = build_extras([world], 1, **_TENSOR_OPTIONS)
        # Boats with ideal actuators have ActuatorParameters here, too, since a lag may be fitted to them.
        self._vessel, self._extras = dict(self._parameters.vessel.items()), dict(extras.items())
        self._is_steered, self._is_tied = vessel.actuators.steering != "thrusters", has_symmetric_mass(vessel)
        self.angle_rate = float(vessel.actuators.angle_rate)  # type: ignore[arg-type]

    def parameters(self, values: Tensor) -> Parameters:
        """Return the parameters, of batch size [B], of B boats with coefficients [B, K]."""
        count = len(values)

        def repeat(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.expand(count, *tensor.shape[1:]) for name, tensor in tensors.items()}

        vessel, extras = repeat(self._vessel), repeat(self._extras)
        for name, column in zip(self.names, values.unbind(1), strict=True):
            # Central differences at a lag of 0 would use a negative lag, whose exponential is infinite.
            value = column.clamp_min(_MIN_LAG) if name == "lag" else column
            (vessel if name in vessel else extras)[name] = value[:, None]
            if name == "yDotR" and self._is_tied:
                vessel["nDotV"] = column[:, None]
        return Parameters(
            vessel=Vessel(**vessel, batch_size=[count]),
            sensor=self._parameters.sensor.expand(count),
            rules=self._parameters.rules.expand(count),
            weather=None,
            extras=ActuatorParameters(**extras, batch_size=[count]),
            batch_size=[count],
        )

    def setpoints(self, shares: Tensor, vessel: Vessel) -> Tensor:
        """Return the setpoints [B, N, 2] (N) of the actuators for commands [B, N, 2], shares of the limits."""
        most, least = vessel.max_thrust[:, :, None], -vessel.min_thrust[:, :, None]
        setpoints = shares * torch.where(shares < 0.0, least, most)
        if self._is_steered:
            return torch.stack((setpoints[..., 0], shares[..., 1] * most[..., 0]), -1)
        return setpoints

    def steady_states(self, shares: Array) -> Array:
        """Return the steady states of the actuators [T, 2] under commands [T, 2], which are shares of the limits."""
        scenario = blank_scenarios(len(shares), 1, 0, 0, torch.device("cpu"), torch.float64)
        vessel, extras = Vessel(**self._vessel, batch_size=[1]), ActuatorParameters(**self._extras, batch_size=[1])
        setpoints = self.setpoints(torch.from_numpy(shares)[:, None], vessel)
        return np.asarray(steady_actuator_state(setpoints, scenario, vessel, extras)[:, 0].numpy(), np.float64)

    def time_constants(self, values: Tensor) -> Tensor:
        """Return the time constants [B] of the actuators (s) of boats with coefficients [B, K]."""
        if "lag" in self.names:
            return values[:, self.names.index("lag")].clamp_min(_MIN_LAG)
        return self._extras["lag"][:, 0].expand(len(values)).clamp_min(_MIN_LAG)

    def actuator_states(self, values: Tensor, first: Tensor, changes: Tensor, ago: Tensor, angle: Tensor) -> Tensor:
        """Return the states of the actuators [B, 2] after earlier commands.

        Args:
            values: [B, K] coefficients.
            first: [B, 2] steady state that the actuators had reached before.
            changes: [B, C, 2] changes of the steady state that the actuators follow.
            ago: [B, C] times since these changes (s).
            angle: [B] angles of azimuth thrusters or rudders (rad), which have no lag; unused for other boats.
        """
        followed = 1.0 - torch.exp(-ago / self.time_constants(values)[:, None])
        state = first + (changes * followed[..., None]).sum(1)
        return torch.stack((state[:, 0], angle), -1) if self._is_steered else state

    def simulate_poses(self, values: Tensor, initial: Tensor, actuator: Tensor, shares: Tensor) -> Tensor:
        """Return the poses [B, N + 1, 3] of boats at the points of the grid, yaw not wrapped.

        Args:
            values: [B, K] coefficients.
            initial: [B, 6] x, y (m), yaw (rad), surge, sway (m/s) and yaw rate (rad/s) at the start.
            actuator: [B, 2] state of the actuators at the start.
            shares: [B, N, 2] mean commands of the steps of the grid, as shares of the limits.
        """
        count = len(values)
        parameters = self.parameters(values)
        scenario = blank_scenarios(count, 1, 0, 0, torch.device("cpu"), torch.float64)
        setpoints = self.setpoints(shares, parameters.vessel)
        state = _initial_state(initial, actuator)
        yaw = initial[:, 2]
        poses = [initial[:, :3]]
        for setpoint in setpoints.unbind(1):
            rates = (setpoint[:, None] - state.thrust) / TIME_STEP
            before = state.pose[:, 0, 2]
            moved = move_vessels(state, rates, scenario, parameters, TIME_STEP / self._substeps, self._substeps)
            state = state.replace(
                pose=moved.pose,
                velocity_water=moved.velocity_water,
                velocity_ground=moved.velocity_ground,
                thrust=moved.thrust,
                actuator=moved.actuator,
            )
            yaw = yaw + wrap_to_pi(moved.pose[:, 0, 2] - before)
            poses.append(torch.cat((moved.pose[:, 0, :2], yaw[:, None]), -1))
        return torch.stack(poses, 1)


def _initial_state(initial: Tensor, actuator: Tensor) -> State:
    """Return the state of the world of B boats, one per environment, from the states [B, 6] that simulate_poses takes.

    The states of the actuators are [B, 2].
    """
    count = len(initial)
    cos, sin, u, v = initial[:, 2].cos(), initial[:, 2].sin(), initial[:, 3], initial[:, 4]
    velocity = torch.stack((cos * u - sin * v, sin * u + cos * v, initial[:, 5]), -1)[:, None]
    active = torch.ones(count, 1, dtype=torch.bool)
    return State(
        pose=torch.cat((initial[:, :2], wrap_to_two_pi(initial[:, 2:3])), -1)[:, None],
        velocity_water=velocity,
        velocity_ground=velocity,
        thrust=torch.zeros_like(actuator)[:, None],
        active=active,
        collided=~active,
        arrived=~active,
        steps=torch.zeros(count, dtype=torch.int64),
        actuator=actuator[:, None],
        batch_size=[count],
    )


def interpolate_poses(poses: Array, stamp: Array) -> Array:
    """Interpolate poses [..., N + 1, 3] (x, y in m, yaw in rad), a TIME_STEP apart, linearly at times [..., M] (s)."""
    place = np.clip(stamp / TIME_STEP, 0.0, poses.shape[-2] - 1 - 1e-9)
    before = place.astype(np.int64)
    share = (place - before)[..., None]
    low = np.take_along_axis(poses, before[..., None], -2)
    return np.asarray((1.0 - share) * low + share * np.take_along_axis(poses, before[..., None] + 1, -2))


def wrap_angle(angle: Array) -> Array:
    """Return angles wrapped to [-pi, pi) (rad)."""
    return np.asarray((angle + math.pi) % (2.0 * math.pi) - math.pi)
