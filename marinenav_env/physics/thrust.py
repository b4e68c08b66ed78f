"""Controller of two thrusters that follows a desired velocity, by inversion of the vessel model."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import VesselConfig, WorldConfig
from marinenav_env.state import Parameters, Vessel
from marinenav_env.support.validation import require

_SHARED_FIELDS = (
    *("width", "min_thrust", "max_thrust", "max_thrust_rate"),
    *("m", "Izz", "xDotU", "nDotR", "xU", "xUU", "nR", "nRR"),
)
"""Fields of VesselConfig that ThrustController reads, which all robots must share."""


@dataclass  # not frozen, since torch 2.11 cannot compile the creation of a frozen one
class ThrustController:
    """Controller that turns the bow towards a desired velocity and reaches the desired speed with both thrusters.

    Yaw rate and surge speed follow first-order references. Moment and force follow from the vessel
    model; the moment has priority where the thrusters cannot give both.
    """

    vessel: VesselConfig | Vessel
    """Vessel model: numbers that all robots share, or tensors, batch [E] or [1]."""
    seconds: float
    """Length of a control step (s)."""
    turn_gain: float = 1.2
    """Desired yaw rate per radian of heading error (1/s)."""
    max_yaw_rate: float = 0.8
    """Largest desired yaw rate (rad/s)."""
    drift_gain: float = 0.5
    """Share of the sideways velocity over ground that the heading compensates (1)."""
    time_constant: float = 0.75
    """Time constant with which surge speed and yaw rate approach the desired ones (s)."""
    time_scale: float = 1.0
    """Factor on the times of the controller (1); the settings above are for the published vessel, whose factor is 1."""

    @classmethod
    def from_world(cls, world: WorldConfig) -> "ThrustController":
        """Return the controller for the vessels of a world, which must be equal and have two thrusters."""
        for name in _SHARED_FIELDS:
            value = getattr(world.vessel, name)
            is_shared = not isinstance(value, tuple)
            require(is_shared, f"world.vessel.{name}", value, "one number for all robots of a baseline")
        actuators = world.vessel.actuators
        kinds, spacing = actuators.steering, actuators.spacing
        allowed = "thrusters for a baseline, which controls two thrusts"
        require(kinds == "thrusters", "world.vessel.actuators.steering", kinds, allowed)
        is_shared = not isinstance(spacing, tuple)
        require(is_shared, "world.vessel.actuators.spacing", spacing, "one number for all robots of a baseline")
        vessel = replace(world.vessel, width=spacing) if spacing else world.vessel
        return cls(vessel, world.control_step, time_scale=world.scenario.time_scale)

    @classmethod
    def from_parameters(cls, parameters: Parameters, seconds: float, time_scale: float) -> "ThrustController":
        """Return the controller for vessels with two thrusters, batch [E or 1], and control steps of some seconds."""
        vessel, extras = parameters.vessel, parameters.extras
        vessel = vessel if extras is None else vessel.replace(width=extras.spacing)
        return cls(vessel, seconds, time_scale=time_scale)

    def __call__(self, own: Tensor, desired_velocity: Tensor) -> Tensor:
        """Return the commands [E, R, 2] in [-1, 1], left and right, that bring vessels to a desired velocity.

        ``own`` [E, R, 7] is ``self_state``, as in state.Observation; ``desired_velocity`` [E, R, 2] is over ground in
        the body frame (m/s).
        """
        u, v, r = own[..., 2], own[..., 3], own[..., 4]
        heading_error = torch.atan2(desired_velocity[..., 1] - self.drift_gain * v, desired_velocity[..., 0])
        speed = torch.linalg.vector_norm(desired_velocity, dim=-1)
        # A desired velocity of 0 has no direction to turn to.
        heading_error = heading_error * (speed / 0.2).clamp_max(1.0)
        # Slow down while the heading error is large, since speed would move the vessel off its course.
        most = self.max_yaw_rate / self.time_scale
        yaw_rate = (self.turn_gain / self.time_scale * heading_error).clamp(-most, most)
        wanted_thrust = self._thrust(speed * heading_error.cos().clamp_min(0.0), yaw_rate, u, r)
        k: Any = self.vessel
        change = k.max_thrust_rate * self.seconds
        commands = [(side - now) / change for side, now in zip(wanted_thrust, own[..., 5:7].unbind(-1), strict=True)]
        return torch.stack(commands, -1).clamp(-1.0, 1.0)

    def _thrust(self, speed: Tensor, yaw_rate: Tensor, u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """Return left and right thrust (N) for a desired surge speed (m/s) and yaw rate (rad/s); all [E, R]."""
        k: Any = self.vessel
        time_constant = self.time_constant * self.time_scale
        force = (k.m - k.xDotU) * (speed - u) / time_constant - (k.xU + k.xUU * u.abs()) * u
        moment = (k.Izz - k.nDotR) * (yaw_rate - r) / time_constant - (k.nR + k.nRR * r.abs()) * r
        span = k.max_thrust - k.min_thrust
        difference = (moment * 2.0 / k.width).clamp(-span, span)
        # Bounds of the total thrust that leave room for the difference.
        low = 2.0 * k.min_thrust + difference.abs()
        high = 2.0 * k.max_thrust - difference.abs()
        total = torch.minimum(torch.maximum(force, low), high)
        return (total + difference) / 2.0, (total - difference) / 2.0


def velocity_to_goal(own: Tensor, speed: float) -> Tensor:
    """Return the velocity [E, R, 2] of a given speed straight to the goal (m/s, body frame), from ``self_state``."""
    return speed * torch.nn.functional.normalize(own[..., :2], dim=-1)
