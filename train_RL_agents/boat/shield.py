"""Safety shield: it replaces a command after which no escape manoeuvre would be left.

A command is kept if, after it, one of the manoeuvres keeps clear of all that is observed for some seconds, and for as
long again at its last velocity (a predictive safety filter: Wabersich and Zeilinger, Automatica 129, 2021). Otherwise
it is replaced by the first command of a manoeuvre that is safe if it begins now, the nearest to the policy's; if none
is safe, of the one that misses the margin by the least. So the shield acts late; keeping clear before that is left to
the policy.

Objects are assumed to keep their velocity, and the water to be at rest. The functions take numpy arrays or torch
tensors; ``xp`` is the module, numpy or torch.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .checks import common_number, require
from .manoeuvres import EscapeManoeuvres, escape_manoeuvres

HORIZON_STEPS = 28
"""Control steps of the prediction; for as long again, the vessel then keeps the velocity that it has at its end."""
SUBSTEPS = 2
"""Number of integration steps in a control step."""
MARGIN_RADII = 0.4
"""Smallest allowed gap between the circles around hulls in the prediction, as a share of the own radius."""
MARGIN_GROWTH = 0.01
"""Growth of the allowed gap to objects, not to land, per control step, because measured velocities have errors."""
LAND_WEIGHT = 4.0
"""Factor on shortfalls of the gap to land where no manoeuvre is safe: others may still give way, land does not."""
OBSERVED_ENTRIES = ("self_state", "objects_state", "objects_mask")
"""Entries of the observation that the shield reads."""
SHORTFALL_TOLERANCE = 1e-4
"""Largest shortfall of a gap, or difference of shortfalls, that counts as zero (m)."""
VESSEL_PARAMETERS = (
    *("width", "min_thrust", "max_thrust", "max_thrust_rate", "m", "Izz"),
    *("xDotU", "yDotV", "yDotR", "nDotR", "nDotV", "xU", "xUU", "yV", "yVV", "yR", "yRV", "yVR", "yRR"),
    *("nR", "nRR", "nV", "nVV", "nRV", "nVR", "single_rotation"),
)
"""Parameters of a vessel that the prediction uses (see VesselConfig); other terms of the hull are left out."""
LIMIT_FACTORS = ("left_limit", "right_limit")
"""Names of the factors by which the limits of the left and the right thrust are multiplied (see ActuatorConfig)."""
SIDE_COMMANDS = ((-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0))
"""Lowest, neutral and highest command of the left and of the right side of a policy with continuous actions."""


class Scene(NamedTuple):
    """N vessels with what each observes, in its body frame with x forward and y to starboard."""

    own_state: Any
    """[N, 7] own state: goal x, y (m), surge, sway (m/s), yaw rate (rad/s), left and right thrust (N)."""
    objects: Any
    """[N, K, 5] objects: position x, y (m), velocity x, y (m/s), radius (m)."""
    is_object: Any
    """[N, K] bool: False for an empty slot of ``objects``."""
    contact_distance: Any
    """[N, K] distance between the centres at which the hulls touch (m)."""
    own_radius: Any
    """[N, 1], or a number: radius of the own hull (m)."""
    along: Any = None
    """[N, K, 2] from the position to the other end of segments of shore, 0 for objects (m); None without any."""

    def with_shores(self, xp: Any, shore: Any, is_shore: Any) -> "Scene":
        """Return the scene with S segments of shore [N, S, 7] (entry ``shore``) as further objects, with a mask."""
        begin, end, still = shore[..., :2], shore[..., 2:4], 0.0 * shore[..., :3]
        return Scene(
            self.own_state,
            xp.concatenate((self.objects, xp.concatenate((begin, still), 2)), 1),
            xp.concatenate((self.is_object, is_shore), 1),
            xp.concatenate((self.contact_distance, still[..., 0] + self.own_radius), 1),
            self.own_radius,
            xp.concatenate((0.0 * self.objects[..., :2], end - begin), 1),
        )


def clearance_shortfall(
    xp: Any, scene: Scene, vessel: Mapping[str, Any], seconds: float, plans: EscapeManoeuvres, begin: Any = None
) -> Any:
    """Return by how much the gaps in manoeuvres fall short of the margin, [N, M] (m); 0 for safe manoeuvres.

    Objects that are already within the margin must only not come nearer. Parameters of the vessels by name
    (VESSEL_PARAMETERS and LIMIT_FACTORS) are numbers or [N, 1]; a control step takes ``seconds``. The M manoeuvres
    begin at once, or after one control step with the commands ``begin`` [N, 2].
    """
    u, v, r, *thrusts = (
        scene.own_state[:, column, None] + 0.0 * plans.first_commands[..., 0] for column in range(2, 7)
    )
    x, y, vx, vy = (scene.objects[:, :, column, None] for column in range(4))
    along, is_land = None, xp.zeros_like(scene.is_object)[:, :, None]
    if scene.along is not None:
        along = scene.along[..., 0, None], scene.along[..., 1, None]
        is_land = (scene.along != 0.0).any(-1)[:, :, None]
    start, pose = _distance(xp, x, y, along), (0.0 * u, 0.0 * u, 0.0 * u)
    wanted = (scene.contact_distance + MARGIN_RADII * scene.own_radius)[:, :, None]
    growth = ~is_land * (0.0 * scene.contact_distance + MARGIN_GROWTH * scene.own_radius)[:, :, None]
    short = 0.0 * (start + u[:, None])
    delay, most = 0 if begin is None else 1, seconds * vessel["max_thrust_rate"]
    limits = [(vessel[name] * vessel["min_thrust"], vessel[name] * vessel["max_thrust"]) for name in LIMIT_FACTORS]
    for step in range(HORIZON_STEPS):
        for side, thrust in enumerate(thrusts):
            second = xp.where(
                plans.ends_without_thrust, xp.clip(-thrust / most, -1.0, 1.0), plans.second_commands[..., side]
            )
            command = xp.where(plans.first_steps > step - delay, plans.first_commands[..., side], second)
            if step < delay:
                command = begin[:, side, None]
            thrusts[side] = xp.clip(thrust + most * command, *limits[side])
        for _ in range(SUBSTEPS):
            pose, (u, v, r) = _integrate(xp, pose, (u, v, r), thrusts, vessel, seconds / SUBSTEPS)
        time, allowed = seconds * (step + 1), xp.minimum(start, wanted + (step + 1) * growth)
        place = x + time * vx - pose[0][:, None], y + time * vy - pose[1][:, None]
        short = xp.maximum(short, allowed - _distance(xp, *place, along))
    # For as long again the vessel keeps its velocity, because to delay a collision is no escape.
    cos, sin = xp.cos(pose[2]), xp.sin(pose[2])
    swept = time * (vx - (cos * u - sin * v)[:, None]), time * (vy - (sin * u + cos * v)[:, None])
    short = xp.where(is_land, LAND_WEIGHT * short, xp.maximum(short, allowed - _distance(xp, *place, swept)))
    return xp.amax(xp.where(scene.is_object[:, :, None], short, 0.0), 1)


def _distance(xp: Any, x: Any, y: Any, along: tuple[Any, Any] | None) -> Any:
    """Return the distances [N, K, M] (m) of points, or of segments from them ``along`` x and y, from the origin."""
    if along is not None:
        along_x, along_y = along
        square = xp.clip(along_x * along_x + along_y * along_y, 1e-12, None)
        share = xp.clip(-(x * along_x + y * along_y) / square, 0.0, 1.0)
        x, y = x + share * along_x, y + share * along_y
    return xp.sqrt(x * x + y * y)


def _integrate(xp: Any, pose: Any, velocity: Any, thrust: Any, hull: Mapping[str, Any], dt: float) -> tuple[Any, Any]:
    """Return the pose (yaw clockwise) and the velocity (surge, sway, yaw rate) after ``dt`` (s) in water at rest."""
    (x, y, yaw), (u, v, r) = pose, velocity
    cos, sin = xp.cos(yaw), xp.sin(yaw)
    x, y, yaw = x + dt * (cos * u - sin * v), y + dt * (sin * u + cos * v), yaw + dt * r
    cos, sin = xp.cos(dt * r), xp.sin(dt * r)
    before, (u, v) = (u, v), (cos * u + sin * v, cos * v - sin * u)
    back = [hull["single_rotation"] * (old - new) for old, new in zip(before, (u, v), strict=True)]
    abs_v, abs_r = abs(v), abs(r)
    surge = hull["m"] * r * v - (hull["yDotV"] * v + hull["yDotR"] * r) * r + (hull["xU"] + hull["xUU"] * abs(u)) * u
    sway = (
        (hull["xDotU"] - hull["m"]) * r * u
        + (hull["yV"] + hull["yVV"] * abs_v + hull["yRV"] * abs_r) * v
        + (hull["yR"] + hull["yVR"] * abs_v + hull["yRR"] * abs_r) * r
    )
    spin = (
        (hull["yDotV"] * v + hull["yDotR"] * r) * u
        - hull["xDotU"] * u * v
        + (hull["nV"] + hull["nVV"] * abs_v + hull["nRV"] * abs_r) * v
        + (hull["nR"] + hull["nVR"] * abs_v + hull["nRR"] * abs_r) * r
    )
    surge, spin = surge + thrust[0] + thrust[1], spin + 0.5 * hull["width"] * (thrust[0] - thrust[1])
    m22, m23, m32, m33 = hull["m"] - hull["yDotV"], -hull["yDotR"], -hull["nDotV"], hull["Izz"] - hull["nDotR"]
    determinant = m22 * m33 - m23 * m32
    du, dv = surge / (hull["m"] - hull["xDotU"]), (m33 * sway - m23 * spin) / determinant
    dr = (m22 * spin - m32 * sway) / determinant
    return (x, y, yaw), (u + back[0] + dt * du, v + back[1] + dt * dv, r + dt * dr)


def select_escape(xp: Any, command: Any, short: Any, plans: EscapeManoeuvres) -> Any:
    """Return the indices [N] of manoeuvres: safe ones that begin nearest to the policy's commands, or the least unsafe.

    ``command`` [N, 2] are the policy's commands, ``short`` [N, M] the shortfalls of the manoeuvres (m).
    """
    is_safe = short <= SHORTFALL_TOLERANCE
    change = ((plans.first_commands - command[:, None]) ** 2).sum(-1)
    none = ~is_safe.any(-1)[:, None]
    return xp.argmin(xp.where(none, short, xp.where(is_safe, change, xp.inf)), -1)


def choose_manoeuvres(
    xp: Any,
    command: Any,
    scene: Scene,
    vessel: Mapping[str, Any],
    seconds: float,
    plans: EscapeManoeuvres,
    indices: Callable[[Any], Any],
) -> Any:
    """Return the indices [N] of the manoeuvres that replace commands [N, 2]; -1 where the command is kept.

    The parameters of the N vessels (VESSEL_PARAMETERS and LIMIT_FACTORS) are [N, 1] each, and the commands of the
    manoeuvres [N, M, 2]; the first of them keeps the thrust. ``indices`` are those of the rows of a mask [N], which
    alone are computed; None: all are.
    """

    def short(rows: Any, some: EscapeManoeuvres, begin: Any) -> Any:
        chosen = Scene(*(None if column is None else column[rows] for column in scene))
        parameters = {name: value[rows] for name, value in vessel.items()}
        return clearance_shortfall(xp, chosen, parameters, seconds, some.of_vessels(rows), begin)

    def after(some: EscapeManoeuvres) -> Callable[[Any], Any]:
        return lambda rows: xp.amin(short(rows, some, command[rows]), -1)

    def best(rows: Any) -> Any:
        shorts = short(rows, plans, None)
        number = select_escape(xp, command[rows], shorts, plans.of_vessels(rows))
        gained = left[rows] - xp.amin(shorts, -1)
        return xp.where(gained > SHORTFALL_TOLERANCE, number + 0.0 * gained, -1.0)

    def where(mask: Any, function: Callable[[Any], Any], other: float) -> Any:
        values, rows = 0.0 * command[:, 0] + other, indices(mask)
        if rows is None:
            return xp.where(mask, function(slice(None)), values)
        if len(rows):
            values[rows] = function(rows)
        return values

    # After most commands the first manoeuvre is safe, so that all others are tried in few rows.
    left = where(scene.is_object.any(-1), after(plans.subset(0, 1)), 0.0)
    left = where(left > SHORTFALL_TOLERANCE, after(plans), 0.0)
    return where(left > SHORTFALL_TOLERANCE, best, -1.0)


class BoatShield:
    """Safety shield of one vessel, in numpy: it replaces commands after which no escape manoeuvre would be left.

    The vessel's parameters by name (``radius``, VESSEL_PARAMETERS and LIMIT_FACTORS) are one number each; ``sides``
    [2, 3] are the lowest, neutral and highest command of the left and of the right side.
    """

    def __init__(self, vessel: Mapping[str, float], seconds: float, sides: Any = SIDE_COMMANDS) -> None:
        self._vessel, self._seconds = {name: np.full((1, 1), value) for name, value in vessel.items()}, seconds
        self._plans = escape_manoeuvres(np, np.asarray(sides)[None])

    @classmethod
    def from_contract(
        cls, vessel: Mapping[str, Any], limits: tuple[float, float, float], seconds: float, rates: Any = None
    ) -> "BoatShield":
        """Create the shield for the vessel that the contract of a policy describes below ``world.vessel``.

        ``actuators.spacing``, if stated, is the width. The limits are the lowest and the highest thrust of a side (N),
        before the factors LIMIT_FACTORS, and the largest rate (N/s); the policy chooses from ``rates`` [A, 2] (N/s), or
        any.
        """
        missing = ", ".join(name for name in ("radius", *VESSEL_PARAMETERS) if name not in vessel)
        require(not missing, f"shield: the contract has no {missing} of the vessel")
        numbers = {name: common_number(vessel[name], name) for name in ("radius", *VESSEL_PARAMETERS)}
        actuators = vessel.get("actuators", {})
        numbers |= {name: common_number(actuators.get(name, 1.0), name) for name in LIMIT_FACTORS}
        spacing = common_number(actuators.get("spacing", 0.0), "spacing")
        lowest, highest, fastest = limits
        most = min(fastest, numbers["max_thrust_rate"])
        numbers |= {"min_thrust": lowest, "max_thrust": highest, "max_thrust_rate": most}
        sides: Any = SIDE_COMMANDS
        if rates is not None and most > 0.0:  # the lowest, the smallest in size and the highest command of each side
            sides = [[side.min(), side[np.abs(side).argmin()], side.max()] for side in (rates / most).T]
        return cls(numbers | {"width": spacing or numbers["width"]}, seconds, sides)

    def __call__(
        self, rates: Any, own: Any, objects: Any, mask: Any, shore: Any = None, shore_mask: Any = None
    ) -> tuple[Any, bool]:
        """Return the policy's rates [2] (N/s), or others if no escape would be left, and whether they were replaced.

        The own state [1, 7] and objects [1, K, 5], with radii of the hulls, are as in Scene; the mask [1, K] is 0 for
        empty slots. So are segments of shore [1, S, 7] and their mask [1, S], without any in open water.
        """
        radius, most = self._vessel["radius"], float(self._vessel["max_thrust_rate"][0, 0])
        scene = Scene(own, objects, mask > 0.0, objects[..., 4] + radius, radius)
        if shore is not None:
            scene = scene.with_shores(np, shore, shore_mask > 0.0)
        if most <= 0.0:
            return rates, False
        begin, plans = rates[None] / most, self._plans
        number = int(choose_manoeuvres(np, begin, scene, self._vessel, self._seconds, plans, np.flatnonzero)[0])
        return (rates, False) if number < 0 else (plans.first_commands[0, number] * most, True)
