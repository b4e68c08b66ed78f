"""Runtime that maps odometry and tracked objects to commands, with a policy that ``marinenav export`` wrote.

The policy's contract is the JSON file of its export, which describes inputs, actions, limits of the boat and examples.
Frames are those of ROS (REP 103): the map has x to the east and y to the north, yaw is anticlockwise from east, and a
body has x forward and y to port. Times are seconds of one clock. All computations are in float64.
"""

import json
import math
from collections import deque
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import BoatError, check_limits, checked_name, checked_setting, common_number, is_finite_number, require
from .encounters import DutyRules, Encounters
from .network import MEMORY, OBJECTS_ID, Array, Network, load_network, reproduces
from .shield import OBSERVED_ENTRIES, BoatShield
from .waters import SHORE, SHORE_MASK, Waters

THRUSTERS = "thrusters"
"""Type of steering of a boat with two fixed thrusters."""
STEERED_BY_ANGLE = ("azimuth", "rudder")
"""Types of steering of a boat with one thruster that turns, or with one thruster and a rudder."""
DUTIES = "duties"
"""Name of the input with what the vessel knows of its encounters."""
CONTRACT_FILE = "contract.json"
CONTRACT_VERSION = 3
MAX_DISTANCE = 1e4
"""Largest plausible coordinate or radius of an input (m)."""
MAX_SPEED = 1e2
"""Largest plausible speed (m/s) and yaw rate (rad/s) of an input."""
Point = tuple[float, float]
"""Position to the east and north (m)."""
MAX_TRACKS = 1000
"""Largest number of tracks, which bounds the time of a decision."""


@dataclass(frozen=True)
class Odometry:
    """Pose and velocity of the own vessel."""

    stamp: float
    """Time of the measurement (s)."""
    x: float
    """Position to the east (m)."""
    y: float
    """Position to the north (m)."""
    yaw: float
    """Yaw, anticlockwise from east (rad)."""
    forward_velocity: float
    """Forward velocity over ground (m/s)."""
    port_velocity: float
    """Velocity over ground to port (m/s)."""
    yaw_rate: float
    """Yaw rate, anticlockwise (rad/s)."""


@dataclass(frozen=True)
class Tracks:
    """Measured objects around the own vessel, moving and static."""

    stamp: float
    """Time of the measurement (s)."""
    objects: Array
    """Objects [N, 5]: position east, north (m), velocity over ground east, north (m/s), radius (m); may be lists."""
    ids: Array | None = None
    """Numbers of the tracks [N], which objects keep; a policy that observes duties or remembers frames needs them."""
    headings: Array | None = None
    """Headings [N], anticlockwise from east (rad), for duties; None: the courses over ground."""


@dataclass(frozen=True)
class Settings:
    """Settings of one boat; None: the value in the JSON contract exported with the policy."""

    risk: float | None = None
    """Risk level: share of the worst outcomes that the policy acts on, in (0, 1]."""
    min_thrust: float | None = None
    """Lowest thrust of a side (N), not below the contract's."""
    max_thrust: float | None = None
    """Highest thrust of a side (N), not above the contract's."""
    max_rate: float | None = None
    """Largest change of thrust (N/s), not above the contract's."""
    goal_distance: float | None = None
    """Distance within which the goal is reached (m)."""
    max_age: float = 1.0
    """Age above which odometry and tracks are stale (s)."""
    max_ahead: float = 0.1
    """Largest time by which the stamps of odometry and tracks may be ahead of the clock (s)."""
    max_gap: float | None = None
    """Longest time between two decisions (s); None: two control steps."""
    max_seconds: float = 0.05
    """Longest time that a decision may take (s)."""
    extrapolate: bool = True
    """Whether vessel and tracks are extrapolated to the current time, at constant velocity."""
    shield: bool = False
    """Whether commands after which no manoeuvre could avoid a collision are replaced, by the safety shield."""
    boat: str = ""
    """Name of this boat, or its vessel file (.json); a policy for another boat is refused. Empty: no check."""
    chart: str = ""
    """File of the chart whose south-west corner is the origin of the map; for policies that observe shores."""


@dataclass(frozen=True)
class Command:
    """Setpoints of the thrusters until the next control step."""

    left_thrust: float
    """Left thrust, or that of the only thruster (N)."""
    right_thrust: float
    """Right thrust (N); 0 with one thruster."""
    stop_reason: str = ""
    """Reason why all setpoints are zero, as one sentence; empty while the policy steers."""
    angle: float = 0.0
    """Angle of the azimuth thruster or rudder, anticlockwise as seen from above (rad); 0 with two thrusters."""
    is_shielded: bool = False
    """True if the safety shield replaced the policy's command."""


class Pilot:
    """Controller of a boat that acts once per control step and stops when its inputs are invalid.

    It is made of the content of the ``contract.json`` of an exported policy, which lists its inputs, outputs and units,
    of the network, and of the settings of the boat. A BoatError says what of these cannot be used.
    """

    def __init__(self, contract: dict[str, Any], network: Network, settings: Settings | None = None) -> None:
        is_version = contract.get("version") == CONTRACT_VERSION
        require(is_version, "the contract is of another version, export the policy again")
        self._network, self.settings = network, settings or Settings()
        inputs = {description["name"]: description for description in contract["inputs"]}
        supported = {
            "self_state",
            "objects_state",
            "objects_mask",
            DUTIES,
            OBJECTS_ID,
            SHORE,
            SHORE_MASK,
            "taus",
            MEMORY,
        }
        unknown = ", ".join(set(inputs) - supported)
        require(not unknown, f"the policy needs inputs that a boat does not have here: {unknown}")
        self._input_names = list(inputs)
        self._read_boat(contract)
        self._read_sensor(inputs)
        has_chart = SHORE not in inputs or bool(self.settings.chart)
        require(has_chart, "chart: the policy observes shores, and none is named")
        self._waters = Waters.load(self.settings.chart) if self.settings.chart else None
        self._hiding = None if self._sees_through_land else self._waters
        self._read_risk(inputs.get("taus"))
        self._read_limits(contract)
        self._no_encounters: Encounters | None = None
        if DUTIES in inputs:
            rules = DutyRules.from_contract(inputs[DUTIES], self._sensor_range, self.control_step)
            self._no_encounters = Encounters.none(rules, self._hiding)
        self._encounters = self._no_encounters
        self._observes_ids, self._numbers = OBJECTS_ID in inputs, dict[int, float]()
        self._blank = np.zeros(inputs[MEMORY]["shape"]) if MEMORY in inputs else None
        self._memory, self._acted_at, self._followed_at = np.zeros(0), -math.inf, -math.inf
        self._shield = self._make_shield(contract) if self.settings.shield else None
        self._setpoints, self._last_time = (0.0, 0.0), -math.inf
        # Where training delayed commands, it showed the setpoints from before the delay, here the oldest ones.
        action = contract["action"]
        delay = int(common_number(action["delay"]["value"], "delay")) if "delay" in action else 0
        require(0 <= delay <= 100, f"the contract's delay of {delay} control steps is not from 0 to 100")
        self._recent_setpoints = deque([self._setpoints] * (1 + delay), 1 + delay)
        self.command_count = self.shielded_count = 0  # the policy's commands, and those that the shield replaced

    @classmethod
    def load(cls, folder: str | Path, settings: Settings | None = None) -> "Pilot":
        """Return the pilot of a policy in a folder of ``marinenav export``, after checking its contract's examples."""
        path = Path(folder) / CONTRACT_FILE
        try:
            contract = json.loads(path.read_text(encoding="utf-8-sig"))
            file = Path(folder) / contract["files"]["onnx"]["file"]
            network = load_network(file, "memory" in contract)
            pilot = cls(contract, network, settings)
            examples = contract["examples"]
            is_reproduced = reproduces(network, examples)
        except BoatError:
            raise
        except Exception as error:  # damaged text may raise any error
            raise BoatError(f"{path}: no contract of an ONNX policy ({error!r})") from error
        require(is_reproduced, f"{file}: the contract's examples lead to other actions")
        return pilot

    # The contract -------------------------------------------------------------------------------

    def _read_boat(self, contract: dict[str, Any]) -> None:
        """Read the type of steering and the limits of both sides, after checking that the policy is for this boat."""
        vessel = contract.get("config", {}).get("world", {}).get("vessel", {})
        name, boat, actuators = str(vessel.get("name", "published")), self.settings.boat, vessel.get("actuators", {})
        if str(boat).endswith(".json"):
            file, boat = boat, checked_name(Path(boat), vessel)
            require(boat == name, f"the policy is for the boat {name}, not for {boat} of {file}")
        require(boat in ("", name), f"the policy is for the boat {name}, not for {boat}")
        kinds = np.unique(actuators.get("steering", THRUSTERS)).tolist()
        require(len(kinds) == 1, "the contract has a steering of its own for every robot")
        self.steering = str(kinds[0])
        require(self.steering in (THRUSTERS, *STEERED_BY_ANGLE), f"the policy is for a boat with {self.steering}")
        sides = ("left_limit", "right_limit")
        self._thrust_factors = np.array([common_number(actuators.get(side, 1.0), side) for side in sides])
        self._angle_limit = common_number(actuators.get("angle_limit", 0.0), "angle_limit")

    def _read_sensor(self, inputs: dict[str, Any]) -> None:
        """Read the sensor's limits and the numbers of objects from the contract's descriptions of inputs, by name."""
        objects = inputs.get("objects_state", inputs.get(DUTIES))
        self._num_slots = 0 if objects is None else int(objects["shape"][1])
        self._max_objects, self._sensor_range, self._sensor_angle, self._sees_through_land = 0, 0.0, 0.0, False
        if (seen := objects or inputs.get(SHORE)) is not None:
            sensor = seen["seen"]
            self._max_objects = min(int(common_number(sensor["max_objects"], "max_objects")), self._num_slots)
            self._sensor_range = common_number(sensor["range"], "range")
            self._sensor_angle = common_number(sensor["angle"], "angle")
            self._sees_through_land = bool(sensor.get("sees_through_land", False))

    def _read_risk(self, taus: dict[str, Any] | None) -> None:
        """Read the risk level, and the quantile fractions ``taus`` from the contract's description of that input."""
        risk = self.settings.risk
        is_valid = risk is None or (is_finite_number(risk) and 0.0 < risk <= 1.0)
        require(is_valid, f"risk: must be in (0, 1], not {risk}")
        require(risk is None or taus is not None, "risk: this policy takes no risk level")
        self._taus = np.array(taus["usual"] if taus else [], float)
        self._is_risk_adaptive = risk is None and taus is not None and taus["risk"] == "adaptive"
        self._risk_distance = common_number(taus["risk_distance"]["value"], "risk_distance") if taus else 0.0

    def _read_limits(self, contract: dict[str, Any]) -> None:
        """Read the limits of thrust and the rates of the actions."""
        settings, action = self.settings, contract["action"]
        self.control_step = common_number(action["control_step"]["value"], "control_step")
        lowest, highest = (common_number(limit, "thrust") for limit in action["thrust_limits"]["value"])
        self._full_rate = common_number(action["rate"]["value"], "rate") if "rate" in action else 0.0
        rates = action["rates"]["value"] if "rates" in action else np.zeros((0, 2))
        self._action_rates = np.array(rates, float)
        are_pairs = self._action_rates.shape[1:] == (2,) and bool(np.isfinite(self._action_rates).all())
        require(are_pairs, "the contract's rates are not pairs of finite numbers")
        require(highest > 0.0, "the contract's max_thrust is not above 0")
        fastest = self._full_rate or float(np.abs(self._action_rates).max())
        low = checked_setting("min_thrust", settings.min_thrust, lowest, lowest, 0.0)
        high = checked_setting("max_thrust", settings.max_thrust, highest, 0.0, highest)
        self._thrust_limits = low, high
        self._min_setpoints, self._max_setpoints = low * self._thrust_factors, high * self._thrust_factors
        rate = checked_setting("max_rate", settings.max_rate, fastest, 0.0, fastest)
        self._max_rates, self._max_thrust = np.array([rate, rate]), highest
        if self.steering in STEERED_BY_ANGLE:
            # The right setpoint is the angle, scaled to the contract's max_thrust even if the settings limit thrust.
            self._min_setpoints[1], self._max_setpoints[1], self._max_rates[1] = -highest, highest, fastest
        goal = common_number(contract["goal_distance"]["value"], "goal_distance")
        self._arrival_distance = checked_setting("goal_distance", settings.goal_distance, goal, 0.0, MAX_DISTANCE)
        step = self.control_step
        self._gap_limits = 0.5 * step, checked_setting("max_gap", settings.max_gap, 2.0 * step, step, MAX_DISTANCE)

    def _make_shield(self, contract: dict[str, Any]) -> BoatShield:
        """Return the shield of this boat, within the limits of the settings."""
        is_possible = self._num_slots > 0 and self.steering == THRUSTERS
        require(is_possible, "shield: it takes a policy that observes objects, and a boat with two thrusters")
        vessel = contract.get("config", {}).get("world", {}).get("vessel", {})
        bound = math.inf if self.settings.max_rate is None else self.settings.max_rate
        rates = None if self._full_rate else np.clip(self._action_rates, -self._max_rates, self._max_rates)
        return BoatShield.from_contract(vessel, (*self._thrust_limits, bound), self.control_step, rates)

    # Deciding -----------------------------------------------------------------------------------

    def command(self, now: float, odometry: Odometry | None, tracks: Tracks | None, goal: Point | None) -> Command:
        """Return the setpoints of the thrusters for a control step; call it once per control step.

        ``now`` is the current time of the clock that stamps the inputs (s), the goal is to the east and north (m), and
        the latest odometry and tracks are None until there are any. Setpoints are zero, with a reason, when an input is
        missing, stale, ahead of the clock, not finite or not plausible, when the call is early or late, takes too long
        or fails in any other way, and at the goal.
        """
        began = perf_counter()
        try:
            command = self._decide(now, odometry, tracks, goal)
            spent, most = perf_counter() - began, self.settings.max_seconds
            require(spent <= most, f"the decision took {spent:.3f} s, more than {most:g} s")
            self.command_count, self.shielded_count = self.command_count + 1, self.shielded_count + command.is_shielded
        except BoatError as error:
            command = Command(0.0, 0.0, str(error))
        except Exception as error:  # after any error the thrusters must stop
            command = Command(0.0, 0.0, f"the decision failed: {error!r}")
        if command.stop_reason:
            self._setpoints = 0.0, 0.0
        self._recent_setpoints.append(self._setpoints)
        self._last_time = float(now) if is_finite_number(now) else -math.inf
        return command

    def _decide(self, now: float, odometry: Odometry | None, tracks: Tracks | None, goal: Point | None) -> Command:
        """Return the command of a control step; raise a BoatError if the vessel must stop."""
        now = _checked_seconds("the clock", now)
        gap, (low, high) = now - self._last_time, self._gap_limits
        if gap < 0.0:  # the clock was set back: forget, and stop
            self._acted_at, self._followed_at, self._encounters = -math.inf, -math.inf, self._no_encounters
        require(gap >= low, f"the last decision was {gap:.2f} s ago, less than {low:g} s")
        require(gap <= high or gap == math.inf, f"the last decision was {gap:.2f} s ago, more than {high:g} s")
        vessel, objects, target = self._check_inputs(now, odometry, tracks, goal)
        vessel, objects = self._extrapolate(now, vessel, objects)
        self._encounters, self._followed_at = self._follow(vessel, objects, now - self._followed_at), now
        require(math.dist((vessel.x, vessel.y), target) > self._arrival_distance, "the goal is reached")
        observed = self._make_inputs(vessel, objects, target, self._encounters)
        rates, is_shielded = self._thrust_rates(self._act(now, observed)), False
        if self._shield is not None:
            rates, is_shielded = self._shield(
                rates, *(observed.get(name) for name in (*OBSERVED_ENTRIES, SHORE, SHORE_MASK))
            )
        self._setpoints = left, right = self._next_setpoints(rates)
        if self.steering == THRUSTERS:
            return Command(left, right, is_shielded=is_shielded)
        # The world's angle is clockwise from above.
        return Command(left, 0.0, angle=-right / self._max_thrust * self._angle_limit)

    def _act(self, now: float, observed: dict[str, Array]) -> Array:
        """Return the policy's action for inputs; it forgets where it has not acted for longer than ``max_gap``."""
        if self._blank is None:
            return np.asarray(self._network({name: observed[name] for name in self._input_names})[0])
        if now - self._acted_at > self._gap_limits[1]:
            self._memory = self._blank
        known = {**observed, MEMORY: self._memory}
        action, self._memory = self._network({name: known[name] for name in self._input_names})
        self._acted_at = now
        return np.asarray(action[0])

    def _check_inputs(
        self, now: float, odometry: Odometry | None, tracks: Tracks | None, goal: Point | None
    ) -> tuple[Odometry, Tracks, Point]:
        """Return the inputs; raise a BoatError if one is missing, stale or not plausible."""
        if odometry is None or tracks is None or goal is None:
            given = {"odometry": odometry, "tracks": tracks, "goal": goal}
            raise BoatError(f"there is no {' and no '.join(name for name in given if given[name] is None)} yet")
        vessel, rows, target = odometry, _object_rows(tracks), np.asarray(goal, float)
        require(target.shape == (2,), f"the goal is of the shape {list(target.shape)}, not [2]")
        require(rows.ndim == 2 and rows.shape[1] == 5, f"tracks are of the shape {list(rows.shape)}, not [N, 5]")
        require(len(rows) <= MAX_TRACKS, f"{len(rows)} tracks are more than {MAX_TRACKS}")
        check_limits("the goal", [target], [MAX_DISTANCE])
        check_limits(
            "odometry",
            [[vessel.x, vessel.y], [vessel.forward_velocity, vessel.port_velocity, vessel.yaw_rate], [vessel.yaw]],
            [MAX_DISTANCE, MAX_SPEED, MAX_DISTANCE],
        )
        check_limits("tracks", [rows[:, :2], rows[:, 2:4], rows[:, 4]], [MAX_DISTANCE, MAX_SPEED, MAX_DISTANCE])
        require(not (rows[:, 4] < 0.0).any(), "tracks have a negative radius")
        for name, stamp in (("odometry", odometry.stamp), ("tracks", tracks.stamp)):
            age, settings = now - _checked_seconds(f"the stamp of {name}", stamp), self.settings
            require(age <= settings.max_age, f"{name}: {age:.2f} s old, more than {settings.max_age:g} s")
            sentence = f"{name}: {-age:.2f} s ahead of the clock, more than {settings.max_ahead:g} s"
            require(age >= -settings.max_ahead, sentence)
        if self._encounters is not None or self._observes_ids:
            _check_numbers(tracks, len(rows))
        vessel = Odometry(*map(float, astuple(vessel)))
        return vessel, replace(tracks, stamp=float(tracks.stamp), objects=rows), (float(target[0]), float(target[1]))

    def _extrapolate(self, now: float, vessel: Odometry, tracks: Tracks) -> tuple[Odometry, Tracks]:
        """Return the vessel and the tracks, extrapolated to the current time unless the settings disable it."""
        if not self.settings.extrapolate:
            return vessel, tracks
        age, cos, sin = now - vessel.stamp, math.cos(vessel.yaw), math.sin(vessel.yaw)
        moved = replace(
            vessel,
            stamp=now,
            x=vessel.x + age * (cos * vessel.forward_velocity - sin * vessel.port_velocity),
            y=vessel.y + age * (sin * vessel.forward_velocity + cos * vessel.port_velocity),
            yaw=vessel.yaw + age * vessel.yaw_rate,
        )
        rows = tracks.objects.copy()
        rows[:, :2] += (now - tracks.stamp) * rows[:, 2:4]
        return moved, replace(tracks, stamp=now, objects=rows)

    def _follow(self, vessel: Odometry, tracks: Tracks, passed: float) -> Encounters | None:
        """Return the encounters a time (s) later; None for a policy that does not observe duties."""
        if self._encounters is None:
            return None
        steps = max(round(passed / self.control_step), 1) if math.isfinite(passed) else 1
        east, north, v_east, v_north, radius = _object_rows(tracks).T
        course = np.arctan2(v_east, v_north)
        heading = course if tracks.headings is None else 0.5 * math.pi - np.asarray(tracks.headings, float)
        motion = np.stack((north, east, heading, v_north, v_east), 1)
        return self._encounters.follow(_own_motion(vessel), _track_ids(tracks), motion, radius, steps)

    def inputs(self, odometry: Odometry, tracks: Tracks, goal: Point) -> dict[str, Array]:
        """Return all inputs [1, ...] that a network may have, by name, as the contract describes them.

        Duties are those after a control step from the last decision.
        """
        return self._make_inputs(odometry, tracks, goal, self._follow(odometry, tracks, self.control_step))

    def _make_inputs(
        self, odometry: Odometry, tracks: Tracks, goal: Point, encounters: Encounters | None
    ) -> dict[str, Array]:
        """Return all inputs by name, with the encounters of this control step."""
        cos, sin = math.cos(odometry.yaw), math.sin(odometry.yaw)

        def to_body(east: Any, north: Any) -> tuple[Any, Any]:
            return cos * east + sin * north, sin * east - cos * north

        ahead, aside = to_body(goal[0] - odometry.x, goal[1] - odometry.y)
        setpoints = self._recent_setpoints[0]
        state = [ahead, aside, odometry.forward_velocity, -odometry.port_velocity, -odometry.yaw_rate, *setpoints]
        x, y, vx, vy, radius = _object_rows(tracks).T
        rows = np.stack((*to_body(x - odometry.x, y - odometry.y), *to_body(vx, vy), radius), 1)
        hidden = np.zeros(len(rows), bool)
        if self._hiding is not None:
            hidden = self._hiding.hides(odometry.y, odometry.x, np.stack((y, x), 1))
        first = self._nearest_objects(rows, hidden)
        objects, mask = self._in_slots(rows[first]), self._in_slots(np.ones(len(first)))
        found = {
            "self_state": np.array([state]),
            "objects_state": objects[None],
            "objects_mask": mask[None],
            "taus": self._risk_level(objects, mask) * self._taus[None],
        }
        if self._waters is not None:
            heading = 0.5 * math.pi - odometry.yaw
            found |= self._waters.observe(odometry.y, odometry.x, heading, self._sensor_range)
        if encounters is not None:
            found[DUTIES] = self._in_slots(encounters.rows(_own_motion(odometry), _track_ids(tracks)[first]))[None]
        if self._observes_ids:
            # Numbers of trackers, such as an MMSI, may be too large for a network in single precision.
            known, ids = self._numbers, _track_ids(tracks)[first].tolist()
            found[OBJECTS_ID] = self._in_slots(np.array([known.setdefault(n, 1.0 + len(known)) for n in ids]))[None]
        return found

    def _nearest_objects(self, rows: Array, hidden: NDArray[np.bool_]) -> Array:
        """Return the indices of the objects in sight for which there are slots, nearest hull first."""
        distance, radius = np.hypot(rows[:, 0], rows[:, 1]), rows[:, 4]
        seen = ~hidden & (distance <= self._sensor_range + radius)
        seen &= np.abs(np.arctan2(rows[:, 1], rows[:, 0])) <= 0.5 * self._sensor_angle
        order = np.argsort((distance - radius)[seen], kind="stable")[: self._max_objects]
        return np.asarray(np.flatnonzero(seen)[order])

    def _in_slots(self, rows: Array) -> Array:
        """Return rows in the first slots, zeros in the rest."""
        filled = np.zeros((self._num_slots, *rows.shape[1:]))
        filled[: len(rows)] = rows
        return filled

    def _risk_level(self, objects: Array, mask: Array) -> float:
        """Return the risk level: that of the settings or else 1; if adaptive, smaller near one of objects [K, 5]."""
        if not self._is_risk_adaptive:
            return self.settings.risk or 1.0
        closest = np.hypot(objects[:, 0], objects[:, 1])[mask > 0.0].min(initial=self._risk_distance)
        return float(closest / self._risk_distance)

    def _thrust_rates(self, action: Any) -> Array:
        """Return the rates [2] (N/s) at which an action, an index or [2] in [-1, 1], changes the two setpoints."""
        shape, expected = np.shape(action), (2,) if self._full_rate else ()
        require(shape == expected, f"the policy's action is of the shape {shape}, not {expected}")
        require(bool(np.isfinite(action).all()), "the policy's action is not finite")
        if self._full_rate:
            rates = np.clip(action, -1.0, 1.0) * self._full_rate
        else:
            require(action in range(len(self._action_rates)), f"the policy has no action {action}")
            rates = self._action_rates[int(action)]
        return np.clip(rates, -self._max_rates, self._max_rates)

    def _next_setpoints(self, rates: Array) -> tuple[float, float]:
        """Return the two setpoints (N) after a control step with rates [2] (N/s), within the limits."""
        left, right = np.clip(self._setpoints + rates * self.control_step, self._min_setpoints, self._max_setpoints)
        return float(left), float(right)


def _checked_seconds(name: str, value: Any) -> float:
    """Return a time (s) as a Python float, as single precision rounds too much; reject what is not a finite number."""
    require(is_finite_number(value), f"{name} is {value!r}, not a finite number of seconds")
    return float(value)


def _object_rows(tracks: Tracks) -> Array:
    """Return the objects of tracks as an array [N, 5], which is [0, 5] if there are none; its shape is not checked."""
    rows = np.asarray(tracks.objects, float)
    return rows if rows.size else rows.reshape(0, 5)


def _track_ids(tracks: Tracks) -> Array:
    """Return the numbers of tracks [N]."""
    return np.asarray(tracks.ids).reshape(-1)


def _own_motion(vessel: Odometry) -> Array:
    """Return the motion of the own vessel, in the form that encounters have."""
    cos, sin, forward, port = math.cos(vessel.yaw), math.sin(vessel.yaw), vessel.forward_velocity, vessel.port_velocity
    v_east, v_north = cos * forward - sin * port, sin * forward + cos * port
    return np.array((vessel.y, vessel.x, 0.5 * math.pi - vessel.yaw, v_north, v_east))


def _check_numbers(tracks: Tracks, count: int) -> None:
    """Raise a BoatError unless each of so many tracks has a number, and a heading if there are any."""
    ids = _track_ids(tracks)
    is_valid = tracks.ids is not None and len(ids) == count and (count == 0 or np.issubdtype(ids.dtype, np.integer))
    require(is_valid, "the policy follows objects, but not every track has a number (ids)")
    headings = np.asarray([] if tracks.headings is None else tracks.headings, float)
    require(tracks.headings is None or headings.shape == (count,), "not every track has a heading")
    check_limits("headings of tracks", [headings], [MAX_DISTANCE])
