"""From a wanted velocity to thrust commands: the inverse of the vessel model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import VesselConfig, WorldConfig
from marinenav_env.state import Vessel
from marinenav_env.support.validation import require

_USED = (
    "width",
    "min_thrust",
    "max_thrust",
    "max_thrust_rate",
    "m",
    "Izz",
    "xDotU",
    "nDotR",
    "xU",
    "xUU",
    "nR",
    "nRR",
)


@dataclass(frozen=True)
class ThrustController:
    """Steers the bow to the wanted velocity and keeps its speed, with both thrusters.

    Yaw rate and surge speed follow first-order references. The model of VesselConfig tells the
    moment and the force that this takes, and the moment comes first where the thrusters cannot
    give both.
    """

    vessel: VesselConfig | Vessel
    """The model: numbers that hold for all robots, or tensors, batch [E] or [1]."""
    seconds: float
    """Length of a control step (s)."""
    turn_gain: float = 1.2
    """Wanted yaw rate per radian that the bow is off (1/s)."""
    max_yaw_rate: float = 0.8
    """Largest wanted yaw rate (rad/s)."""
    drift_gain: float = 0.5
    """Share of the sideways velocity over ground that the bow leans against (1)."""
    settling: float = 0.75
    """Time in which speed and yaw rate are to be reached (s)."""

    @classmethod
    def of(cls, world: WorldConfig) -> ThrustController:
        """The controller for the vessels of a world, which must be equal.

        Raises:
            ConfigError: when the vessels differ.
        """
        for name in _USED:
            value = getattr(world.vessel, name)
            fine = not isinstance(value, tuple)
            require(fine, f"world.vessel.{name}", value, "one number for all robots of a baseline")
        return cls(world.vessel, world.dt * world.substeps)

    def __call__(self, own: Tensor, wanted: Tensor) -> Tensor:
        """Commands that bring the vessels to a velocity.

        Args:
            own: [E, R, 7] self_state of Observation.
            wanted: [E, R, 2] velocity over ground in the body frame (m/s).

        Returns:
            [E, R, 2] commanded thrust rates in [-1, 1], left and right.
        """
        u, v, r = own[..., 2], own[..., 3], own[..., 4]
        off = torch.atan2(wanted[..., 1] - self.drift_gain * v, wanted[..., 0])
        speed = torch.linalg.vector_norm(wanted, dim=-1)
        # A vessel that is to stand still has no direction to turn to.
        off = off * (speed / 0.2).clamp_max(1.0)
        # Slow while the bow points elsewhere: speed would move the vessel off its course.
        wanted_thrust = self._thrust(speed * off.cos().clamp_min(0.0), self._yaw_rate(off), u, r)
        k: Any = self.vessel
        change = k.max_thrust_rate * self.seconds
        commands = [(side - now) / change for side, now in zip(wanted_thrust, own[..., 5:7].unbind(-1), strict=True)]
        return torch.stack(commands, -1).clamp(-1.0, 1.0)

    def _yaw_rate(self, off: Tensor) -> Tensor:
        """Wanted yaw rate [E, R] (rad/s) while the bow is off by an angle [E, R]."""
        return (self.turn_gain * off).clamp(-self.max_yaw_rate, self.max_yaw_rate)

    def _thrust(self, speed: Tensor, yaw_rate: Tensor, u: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        """Left and right thrust (N) for a surge speed and a yaw rate; all [E, R]."""
        k: Any = self.vessel
        force = (k.m - k.xDotU) * (speed - u) / self.settling - (k.xU + k.xUU * u.abs()) * u
        moment = (k.Izz - k.nDotR) * (yaw_rate - r) / self.settling - (k.nR + k.nRR * r.abs()) * r
        span = k.max_thrust - k.min_thrust
        difference = (moment * 2.0 / k.width).clamp(-span, span)
        # What is left between the bounds once the difference is granted.
        low = 2.0 * k.min_thrust + difference.abs()
        high = 2.0 * k.max_thrust - difference.abs()
        total = torch.minimum(torch.maximum(force, low), high)
        return (total + difference) / 2.0, (total - difference) / 2.0


def to_the_goal(own: Tensor, speed: float) -> Tensor:
    """The velocity [E, R, 2] straight to the goal (m/s), for self_state [E, R, 7]."""
    return speed * torch.nn.functional.normalize(own[..., :2], dim=-1)
