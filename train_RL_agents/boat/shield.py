"""Safety shield: it replaces a command after which no escape manoeuvre would be left.

A command is kept if, after it, at least one of a few manoeuvres keeps clear of all observed objects for some seconds
(a predictive safety filter: Wabersich and Zeilinger, Automatica 129, 2021). Otherwise it is replaced by the first
command of a manoeuvre that is safe if it begins now, the one whose first command is nearest to the policy's. If no
manoeuvre is safe, the one that misses the margin by the least is used. So the shield acts late; keeping clear before
that is left to the policy.

The shield uses a model of the own boat and the policy's observation. It assumes that objects keep their velocity and
that the water is at rest. The functions take numpy arrays or torch tensors; ``xp`` is the module, numpy or torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .checks import common_number, require

HORIZON, SUBSTEPS = 28, 2
"""Number of control steps that are predicted, and of integration steps in each."""
SWITCHES = (2, 4)
"""Lengths of the first phase of manoeuvres (control steps); the second phase lasts until the horizon."""
MARGIN = 0.4
"""Smallest allowed gap between the circles around hulls in the prediction, as a share of the own radius."""
OBSERVED = ("self_state", "objects_state", "objects_mask")
"""Entries of the observation that the shield reads."""
TOLERANCE = 1e-4
"""Largest shortfall, or difference of shortfalls, that counts as zero (m)."""
COEFFICIENTS = (
    *("width", "min_thrust", "max_thrust", "max_thrust_rate", "m", "Izz"),
    *("xDotU", "yDotV", "yDotR", "nDotR", "nDotV", "xU", "xUU", "yV", "yVV", "yR", "yRV", "yVR", "yRR"),
    *("nR", "nRR", "nV", "nVV", "nRV", "nVR", "single_rotation"),
)
"""Parameters of a vessel that the prediction uses (see VesselConfig); other terms of the hull are left out."""
LIMITS = ("left_limit", "right_limit")
"""Parameters of the actuators that the prediction uses (see ActuatorConfig); its ``width`` is the thrusters' spacing
if that is stated."""
SIDES = ((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0))
"""Lowest, neutral and highest command of the left and of the right side of a policy with continuous actions."""


class Scene(NamedTuple):
    """N vessels with the observation of each, in its body frame."""

    own: Any
    """[N, 7] ``self_state`` of the observation."""
    objects: Any
    """[N, K, 5] ``objects_state``: position (m), velocity (m/s), radius (m)."""
    seen: Any
    """[N, K] bool: slots with an object."""
    contact: Any
    """[N, K] distance between the centres at which the hulls touch (m)."""
    radius: Any
    """[N, 1], or a number: radius of the own hull (m)."""


class Escapes(NamedTuple):
    """M manoeuvres of two phases of constant thrust rates; manoeuvre 0 keeps the thrust."""

    first: Any
    """[M, 2] or [N, M, 2] commands of the first phase, in [-1, 1]."""
    second: Any
    """Commands of the second phase, of the same shape."""
    switch: Any
    """[M] control steps of the first phase."""
    stops: Any
    """[M] bool: whether the second phase brings the thrusts to zero instead."""

    def part(self, begin: int, end: int | None) -> Escapes:
        """Return the manoeuvres from number ``begin`` to ``end``, exclusive."""
        first, second = (column[..., begin:end, :] for column in self[:2])
        return Escapes(first, second, self.switch[begin:end], self.stops[begin:end])


def escapes(xp: Any, sides: Any, **options: Any) -> Escapes:
    """Return the manoeuvres: all pairs of commands in the first phase, then no change, full ahead or no thrust.

    None goes astern permanently, because that only delays a collision until going astern is the last escape. Among
    equally good manoeuvres, those to starboard come first.

    Args:
        xp: numpy or torch.
        sides: [2, 3] or [N, 2, 3], lowest, neutral and highest command of the left and of the right side.
        **options: device of the tensors, for torch.
    """
    low, neutral, high = range(3)
    rows = [
        ((left, right), (second, second), steps, stops)
        for steps in SWITCHES
        for left in (neutral, high, low)
        for right in (neutral, low, high)
        for second, stops in ((neutral, False), (high, False), (neutral, True))
        if stops or (left, right, second) != (low, low, neutral)
    ]
    first, second, switch, stops = zip(*rows, strict=True)

    def commands(pairs: Any) -> Any:
        return xp.stack([sides[..., side, [pair[side] for pair in pairs]] for side in range(2)], -1)

    return Escapes(commands(first), commands(second), xp.asarray(switch, **options), xp.asarray(stops, **options))


def shortfall(
    xp: Any, scene: Scene, vessel: Mapping[str, Any], seconds: float, plans: Escapes, begin: Any = None
) -> Any:
    """Return by how much manoeuvres miss the margin, or approach objects that are within it already, [N, M] (m).

    Args:
        xp: numpy or torch.
        scene: vessels and their observations.
        vessel: COEFFICIENTS and LIMITS by name, numbers or [N, 1].
        seconds: length of a control step (s).
        plans: M manoeuvres.
        begin: [N, 2] commands of one control step before the manoeuvres begin; None: they begin at once.
    """
    u, v, r, *thrusts = (scene.own[:, column, None] + 0.0 * plans.first[..., 0] for column in range(2, 7))
    x, y, vx, vy = (scene.objects[:, :, column, None] for column in range(4))
    start = xp.sqrt(x * x + y * y)
    least, pose = start + 0.0 * u[:, None], (0.0 * u, 0.0 * u, 0.0 * u)
    delay, most = 0 if begin is None else 1, seconds * vessel["max_thrust_rate"]
    limits = [(vessel[name] * vessel["min_thrust"], vessel[name] * vessel["max_thrust"]) for name in LIMITS]
    for step in range(HORIZON):
        for side, thrust in enumerate(thrusts):
            second = xp.where(plans.stops, xp.clip(-thrust / most, -1.0, 1.0), plans.second[..., side])
            command = xp.where(plans.switch > step - delay, plans.first[..., side], second)
            if step < delay:
                command = begin[:, side, None]
            thrusts[side] = xp.clip(thrust + most * command, *limits[side])
        for _ in range(SUBSTEPS):
            pose, (u, v, r) = _move(xp, pose, (u, v, r), thrusts, vessel, seconds / SUBSTEPS)
        time = seconds * (step + 1)
        dx, dy = x + time * vx - pose[0][:, None], y + time * vy - pose[1][:, None]
        least = xp.minimum(least, xp.sqrt(dx * dx + dy * dy))
    # Objects that are already within the margin must not come nearer.
    wanted = xp.minimum(start, (scene.contact + MARGIN * scene.radius)[:, :, None])
    return xp.amax(xp.where(scene.seen[:, :, None], wanted - least, 0.0), 1)


def _move(xp: Any, pose: Any, velocity: Any, thrust: Any, k: Mapping[str, Any], dt: float) -> tuple[Any, Any]:
    """Return pose and velocity after an integration step of the world (physics/dynamics.py) in water at rest.

    Args:
        xp: numpy or torch.
        pose: x, y (m) and yaw (rad), clockwise from the initial bow.
        velocity: surge, sway (m/s) and yaw rate (rad/s).
        thrust: left and right thrust (N).
        k: parameters of the vessel.
        dt: length of the step (s).
    """
    (x, y, yaw), (u, v, r) = pose, velocity
    cos, sin = xp.cos(yaw), xp.sin(yaw)
    x, y, yaw = x + dt * (cos * u - sin * v), y + dt * (sin * u + cos * v), yaw + dt * r
    cos, sin = xp.cos(dt * r), xp.sin(dt * r)
    before, (u, v) = (u, v), (cos * u + sin * v, cos * v - sin * u)
    back = [k["single_rotation"] * (old - new) for old, new in zip(before, (u, v), strict=True)]
    abs_v, abs_r = abs(v), abs(r)
    surge = k["m"] * r * v - (k["yDotV"] * v + k["yDotR"] * r) * r + (k["xU"] + k["xUU"] * abs(u)) * u
    sway = (
        (k["xDotU"] - k["m"]) * r * u
        + (k["yV"] + k["yVV"] * abs_v + k["yRV"] * abs_r) * v
        + (k["yR"] + k["yVR"] * abs_v + k["yRR"] * abs_r) * r
    )
    spin = (
        (k["yDotV"] * v + k["yDotR"] * r) * u
        - k["xDotU"] * u * v
        + (k["nV"] + k["nVV"] * abs_v + k["nRV"] * abs_r) * v
        + (k["nR"] + k["nVR"] * abs_v + k["nRR"] * abs_r) * r
    )
    surge, spin = surge + thrust[0] + thrust[1], spin + 0.5 * k["width"] * (thrust[0] - thrust[1])
    m22, m23, m32, m33 = k["m"] - k["yDotV"], -k["yDotR"], -k["nDotV"], k["Izz"] - k["nDotR"]
    determinant = m22 * m33 - m23 * m32
    du, dv = surge / (k["m"] - k["xDotU"]), (m33 * sway - m23 * spin) / determinant
    dr = (m22 * spin - m32 * sway) / determinant
    return (x, y, yaw), (u + back[0] + dt * du, v + back[1] + dt * dv, r + dt * dr)


def nearest_escape(xp: Any, command: Any, short: Any, plans: Escapes) -> Any:
    """Return the index [N] of the safe manoeuvre with the nearest first command; if none is safe, of least shortfall.

    Args:
        xp: numpy or torch.
        command: [N, 2] commands of the policy.
        short: [N, M] shortfalls of the manoeuvres (m).
        plans: M manoeuvres.
    """
    is_safe = short <= TOLERANCE
    change = ((plans.first - command[:, None]) ** 2).sum(-1)
    none = ~is_safe.any(-1)[:, None]
    return xp.argmin(xp.where(none, short, xp.where(is_safe, change, xp.inf)), -1)


class BoatShield:
    """Shield of one vessel, in numpy.

    Args:
        vessel: ``radius``, COEFFICIENTS and LIMITS by name, one number each.
        seconds: length of a control step (s).
        sides: [2, 3] lowest, neutral and highest command of the left and of the right side.
    """

    def __init__(self, vessel: Mapping[str, float], seconds: float, sides: Any = SIDES) -> None:
        self._vessel, self._seconds = vessel, seconds
        self._plans = escapes(np, np.asarray(sides))

    @classmethod
    def of(
        cls, vessel: Mapping[str, Any], limits: tuple[float, float, float], seconds: float, rates: Any = None
    ) -> BoatShield:
        """Create the shield for the vessel that a policy's contract (the JSON file of its export) describes.

        Args:
            vessel: settings of the contract below ``world.vessel``.
            limits: lowest and highest thrust of a side (N), to which the factors LIMITS apply, and largest rate (N/s).
            seconds: length of a control step (s).
            rates: [A, 2] thrust rates that the policy chooses from (N/s); None: any rates.

        Raises:
            BoatError: when a parameter is missing, or differs between robots.
        """
        missing = ", ".join(name for name in ("radius", *COEFFICIENTS) if name not in vessel)
        require(not missing, f"shield: the contract has no {missing} of the vessel")
        numbers = {name: common_number(vessel[name], name) for name in ("radius", *COEFFICIENTS)}
        actuators = vessel.get("actuators", {})
        numbers |= {name: common_number(actuators.get(name, 1.0), name) for name in LIMITS}
        spacing = common_number(actuators.get("spacing", 0.0), "spacing")
        lowest, highest, fastest = limits
        most = min(fastest, numbers["max_thrust_rate"])
        numbers |= {"min_thrust": lowest, "max_thrust": highest, "max_thrust_rate": most}
        sides = SIDES if rates is None or most <= 0.0 else _sides_of(np.clip(rates / most, -1.0, 1.0))
        return cls(numbers | {"width": spacing or numbers["width"]}, seconds, sides)

    def __call__(self, rates: Any, own: Any, objects: Any, mask: Any) -> tuple[Any, bool]:
        """Return the policy's thrust rates, or others if no escape would be left, and whether they were replaced.

        Args:
            rates: [2] thrust rates of the policy (N/s).
            own: [1, 7] ``self_state``.
            objects: [1, K, 5] ``objects_state``; radii are those of the hulls.
            mask: [1, K] slots with an object.
        """
        radius, most, seen = self._vessel["radius"], self._vessel["max_thrust_rate"], mask > 0.0
        if not seen.any() or most <= 0.0:
            return rates, False
        begin = np.clip(rates[None] / most, -1.0, 1.0)
        scene = Scene(own, objects, seen, objects[..., 4] + radius, radius)
        for plans in (self._plans.part(0, 1), self._plans):
            left = self._short(scene, plans, begin).min()
            if left <= TOLERANCE:
                return rates, False
        short = self._short(scene, self._plans)
        if left - short.min() <= TOLERANCE:
            return rates, False
        return self._plans.first[nearest_escape(np, begin, short, self._plans)[0]] * most, True

    def _short(self, scene: Scene, plans: Escapes, begin: Any = None) -> Any:
        return shortfall(np, scene, self._vessel, self._seconds, plans, begin)


def _sides_of(pairs: Any) -> Any:
    """Return the lowest, neutral and highest command [2, 3] of each side of pairs of commands [A, 2]."""
    return [[side.min(), side[np.abs(side).argmin()], side.max()] for side in pairs.T]
