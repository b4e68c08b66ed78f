"""Runtime that maps odometry and tracked objects to commands, with a policy that ``marinenav export`` wrote.

Frames are those of ROS (REP 103): the map has x to the east and y to the north, yaw is
anticlockwise from east, and a body has x forward and y to port. Times are seconds of one clock.
Numbers may be Python or numpy numbers of any precision; all computations are in float64.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .checks import BoatError, common_number, finite, require, within
from .shield import OBSERVED, BoatShield

Array = NDArray[np.float64]
Network = Callable[[dict[str, Array]], NDArray[Any]]
"""Function from inputs by name [B, ...] to actions, [B] indices or [B, 2]."""

THRUSTERS, STEERED = "thrusters", ("azimuth", "rudder")
"""Types of steering: two fixed thrusters, or one thruster that turns or that has a rudder."""
VERSION, SELECTED = 3, "selected_action"
"""Version of the contract, and name of the ONNX output with the action."""
FARTHEST, FASTEST, MOST_TRACKS = 1e4, 1e2, 1000
"""Plausible limits of inputs: distances (m), speeds and yaw rates (m/s, rad/s), and the number of tracks, which bounds
the time of a decision."""


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
    forward: float
    """Forward velocity over ground (m/s)."""
    port: float
    """Velocity over ground to port (m/s)."""
    yaw_rate: float
    """Yaw rate, anticlockwise (rad/s)."""


@dataclass(frozen=True)
class Tracks:
    """Objects around the own vessel, moving and static."""

    stamp: float
    """Time of the measurement (s)."""
    rows: Array
    """Objects [N, 5]: position east, north (m), velocity over ground east, north (m/s), radius (m); may be lists."""


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
    """Extrapolate vessel and tracks to the current time, at constant velocity."""
    shield: bool = False
    """Replace commands after which no escape manoeuvre would be left; see shield.py."""
    boat: str = ""
    """Name of this boat, or its vessel file (.json); a policy for another boat is refused. Empty: no check."""


@dataclass(frozen=True)
class Command:
    """Thrust commands until the next control step."""

    left: float
    """Left thrust, or that of the only thruster (N)."""
    right: float
    """Right thrust (N); 0 with one thruster."""
    stopped: str = ""
    """Reason why all commands are zero, as one sentence; empty while the policy steers."""
    angle: float = 0.0
    """Angle of the azimuth thruster or rudder, anticlockwise as seen from above (rad); 0 with two thrusters."""
    shielded: bool = False
    """True if the shield replaced the policy's command."""


class Pilot:
    """Controller of a boat that acts once per control step and stops when its inputs are invalid.

    Args:
        contract: content of ``contract.json``.
        network: function that computes actions from the inputs of the contract.
        settings: settings of the boat.

    Raises:
        BoatError: when the contract has another version or needs unavailable inputs, or when a setting is out of
            bounds.
    """

    def __init__(self, contract: dict[str, Any], network: Network, settings: Settings | None = None) -> None:
        require(contract.get("version") == VERSION, "the contract is of another version, export the policy again")
        self._network, self.settings = network, settings or Settings()
        inputs = {description["name"]: description for description in contract["inputs"]}
        supported = {"self_state", "objects_state", "objects_mask", "taus"}
        unknown = ", ".join(set(inputs) - supported)
        require(not unknown, f"the policy needs inputs that a boat does not have here: {unknown}")
        self._names = list(inputs)
        self._read_boat(contract)
        self._read_sensor(inputs)
        self._read_risk(inputs.get("taus"))
        self._read_limits(contract)
        self._shield = self._make_shield(contract) if self.settings.shield else None
        self._setpoint, self._last = (0.0, 0.0), -math.inf
        self.commands = self.shielded = 0  # counts of the policy's commands, and of those that the shield replaced

    @classmethod
    def load(cls, folder: str | Path, settings: Settings | None = None) -> Pilot:
        """Return the pilot of an ONNX policy with its contract, after checking the contract's examples.

        Args:
            folder: folder written by ``marinenav export --format onnx``.
            settings: settings of the boat.

        Raises:
            BoatError: when the policy cannot be used, or an example gives another action.
        """
        path = Path(folder) / "contract.json"
        try:
            contract = json.loads(path.read_text(encoding="utf-8"))
            file = Path(folder) / contract["files"]["onnx"]["file"]
            network = load_network(file)
            pilot = cls(contract, network, settings)
            examples = contract["examples"]
            inputs = {name: np.array(values, float) for name, values in examples["inputs"].items()}
            is_reproduced = np.allclose(network(inputs), examples["action"], 0.0, examples["tolerance"])
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
            file, boat = boat, _same_numbers(Path(boat), vessel)
            require(boat == name, f"the policy is for the boat {name}, not for {boat} of {file}")
        require(boat in ("", name), f"the policy is for the boat {name}, not for {boat}")
        kinds = np.unique(actuators.get("steering", THRUSTERS)).tolist()
        require(len(kinds) == 1, "the contract has a steering of its own for every robot")
        self.steering = str(kinds[0])
        require(self.steering in (THRUSTERS, *STEERED), f"the policy is for a boat with {self.steering}")
        sides = ("left_limit", "right_limit")
        self._shares = np.array([common_number(actuators.get(side, 1.0), side) for side in sides])
        self._angle_limit = common_number(actuators.get("angle_limit", 0.0), "angle_limit")

    def _read_sensor(self, inputs: dict[str, Any]) -> None:
        """Read the number of observed objects and the sensor's limits."""
        objects = inputs.get("objects_state")
        self._slots, self._kept, self._range, self._angle = 0, 0, 0.0, 0.0
        if objects is not None:
            sensor = objects["seen"]
            self._slots = int(objects["shape"][1])
            self._kept = int(common_number(sensor["max_objects"], "max_objects"))
            self._range = common_number(sensor["range"], "range")
            self._angle = common_number(sensor["angle"], "angle")

    def _read_risk(self, taus: dict[str, Any] | None) -> None:
        """Read the risk level, and the fractions that select the worst outcomes."""
        risk = self.settings.risk
        is_valid = risk is None or (finite(risk) and 0.0 < risk <= 1.0)
        require(is_valid, f"risk: must be in (0, 1], not {risk}")
        require(risk is None or taus is not None, "risk: this policy takes no risk level")
        self._taus = np.array(taus["usual"] if taus else [], float)
        self._adaptive = risk is None and taus is not None and taus["risk"] == "adaptive"
        self._risk_distance = common_number(taus["risk_distance"]["value"], "risk_distance") if taus else 0.0

    def _read_limits(self, contract: dict[str, Any]) -> None:
        """Read the limits of thrust and the rates of the actions."""
        settings, action = self.settings, contract["action"]
        self.control_step = common_number(action["control_step"]["value"], "control_step")
        lowest, highest = (common_number(limit, "thrust") for limit in action["thrust_limits"]["value"])
        self._full = common_number(action["rate"]["value"], "rate") if "rate" in action else 0.0
        rates = action["rates"]["value"] if "rates" in action else np.zeros((0, 2))
        self._rates = np.array(rates, float)
        are_pairs = self._rates.shape[1:] == (2,) and bool(np.isfinite(self._rates).all())
        require(are_pairs, "the contract's rates are not pairs of finite numbers")
        require(highest > 0.0, "the contract's max_thrust is not above 0")
        fastest = self._full or float(np.abs(self._rates).max())
        low = within("min_thrust", settings.min_thrust, lowest, lowest, 0.0)
        high = within("max_thrust", settings.max_thrust, highest, 0.0, highest)
        self._limits, self._lowest, self._highest = (low, high), low * self._shares, high * self._shares
        rate = within("max_rate", settings.max_rate, fastest, 0.0, fastest)
        self._fastest, self._most = np.array([rate, rate]), highest
        if self.steering in STEERED:
            # The right setpoint is the angle, scaled to the contract's max_thrust even if the settings limit thrust.
            self._lowest[1], self._highest[1], self._fastest[1] = -highest, highest, fastest
        goal = common_number(contract["goal_distance"]["value"], "goal_distance")
        self._arrival = within("goal_distance", settings.goal_distance, goal, 0.0, FARTHEST)
        step = self.control_step
        self._gaps = 0.5 * step, within("max_gap", settings.max_gap, 2.0 * step, step, FARTHEST)

    def _make_shield(self, contract: dict[str, Any]) -> BoatShield:
        """Return the shield of this boat, within the limits of the settings."""
        is_possible = self._slots > 0 and self.steering == THRUSTERS
        require(is_possible, "shield: it takes a policy that observes objects, and a boat with two thrusters")
        vessel = contract.get("config", {}).get("world", {}).get("vessel", {})
        bound = math.inf if self.settings.max_rate is None else self.settings.max_rate
        rates = None if self._full else np.clip(self._rates, -self._fastest, self._fastest)
        return BoatShield.of(vessel, (*self._limits, bound), self.control_step, rates)

    # Deciding -----------------------------------------------------------------------------------

    def command(
        self,
        now: float,
        odometry: Odometry | None,
        tracks: Tracks | None,
        goal: tuple[float, float] | None,
    ) -> Command:
        """Return the thrusts, or thrust and angle, of a control step; call it once per control step.

        Args:
            now: current time of the clock that stamps the inputs (s).
            odometry: latest odometry; None if there was none yet.
            tracks: latest tracks; None if there were none yet.
            goal: position of the goal to the east and north (m); None if there is none.

        Returns:
            Commands. They are zero, with the reason, when an input is missing, stale, ahead of the clock, not finite or
            not plausible, when the call is early or late, takes too long or fails in any other way, and at the goal.
        """
        began = perf_counter()
        try:
            command = self._decide(now, odometry, tracks, goal)
            spent, most = perf_counter() - began, self.settings.max_seconds
            require(spent <= most, f"the decision took {spent:.3f} s, more than {most:g} s")
            self.commands, self.shielded = self.commands + 1, self.shielded + command.shielded
        except BoatError as error:
            command = Command(0.0, 0.0, str(error))
        except Exception as error:  # after any error the thrusters must stop
            command = Command(0.0, 0.0, f"the decision failed: {error!r}")
        if command.stopped:
            self._setpoint = 0.0, 0.0
        self._last = float(now) if finite(now) else -math.inf
        return command

    def _decide(
        self,
        now: float,
        odometry: Odometry | None,
        tracks: Tracks | None,
        goal: tuple[float, float] | None,
    ) -> Command:
        """Return the command of a control step; see ``command`` for the arguments.

        Raises:
            BoatError: when the vessel must stop.
        """
        now = _seconds("the clock", now)
        gap, (low, high) = now - self._last, self._gaps
        # This also stops the vessel when the clock was set back.
        require(gap >= low, f"the last decision was {gap:.2f} s ago, less than {low:g} s")
        require(gap <= high or gap == math.inf, f"the last decision was {gap:.2f} s ago, more than {high:g} s")
        vessel, objects, target = self._check_inputs(now, odometry, tracks, goal)
        vessel, objects = self._extrapolate(now, vessel, objects)
        require(math.dist((vessel.x, vessel.y), target) > self._arrival, "the goal is reached")
        observed = self._observe(vessel, objects, target)
        rates = self._rates_of(np.asarray(self._network({name: observed[name] for name in self._names})[0]))
        is_shielded = False
        if self._shield is not None:
            rates, is_shielded = self._shield(rates, *(observed[name] for name in OBSERVED))
        self._setpoint = left, right = self._apply(rates)
        if self.steering == THRUSTERS:
            return Command(left, right, shielded=is_shielded)
        # The world's angle is clockwise from above.
        return Command(left, 0.0, angle=-right / self._most * self._angle_limit)

    def _check_inputs(
        self,
        now: float,
        odometry: Odometry | None,
        tracks: Tracks | None,
        goal: tuple[float, float] | None,
    ) -> tuple[Odometry, Tracks, tuple[float, float]]:
        """Return the inputs after checking that they are complete, recent and plausible.

        Raises:
            BoatError: when an input is missing, stale or not plausible.
        """
        if odometry is None or tracks is None or goal is None:
            inputs = {"odometry": odometry, "tracks": tracks, "goal": goal}
            missing = " and no ".join(name for name, value in inputs.items() if value is None)
            raise BoatError(f"there is no {missing} yet")
        vessel, rows, target = odometry, _rows(tracks), np.asarray(goal, float)
        require(target.shape == (2,), f"the goal is of the shape {list(target.shape)}, not [2]")
        require(rows.ndim == 2 and rows.shape[1] == 5, f"tracks are of the shape {list(rows.shape)}, not [N, 5]")
        require(len(rows) <= MOST_TRACKS, f"{len(rows)} tracks are more than {MOST_TRACKS}")
        _check("the goal", [target], [FARTHEST])
        _check(
            "odometry",
            [[vessel.x, vessel.y], [vessel.forward, vessel.port, vessel.yaw_rate], [vessel.yaw]],
            [FARTHEST, FASTEST, FARTHEST],
        )
        _check("tracks", [rows[:, :2], rows[:, 2:4], rows[:, 4]], [FARTHEST, FASTEST, FARTHEST])
        require(not (rows[:, 4] < 0.0).any(), "tracks have a negative radius")
        for name, stamp in (("odometry", odometry.stamp), ("tracks", tracks.stamp)):
            age, settings = now - _seconds(f"the stamp of {name}", stamp), self.settings
            require(age <= settings.max_age, f"{name}: {age:.2f} s old, more than {settings.max_age:g} s")
            require(
                age >= -settings.max_ahead,
                f"{name}: {-age:.2f} s ahead of the clock, more than {settings.max_ahead:g} s",
            )
        vessel = Odometry(*map(float, astuple(vessel)))
        return vessel, Tracks(float(tracks.stamp), rows), (float(target[0]), float(target[1]))

    def _extrapolate(self, now: float, vessel: Odometry, tracks: Tracks) -> tuple[Odometry, Tracks]:
        """Return the vessel and the tracks, extrapolated to the current time unless the settings disable it."""
        if not self.settings.extrapolate:
            return vessel, tracks
        age, cos, sin = now - vessel.stamp, math.cos(vessel.yaw), math.sin(vessel.yaw)
        moved = replace(
            vessel,
            stamp=now,
            x=vessel.x + age * (cos * vessel.forward - sin * vessel.port),
            y=vessel.y + age * (sin * vessel.forward + cos * vessel.port),
            yaw=vessel.yaw + age * vessel.yaw_rate,
        )
        rows = tracks.rows.copy()
        rows[:, :2] += (now - tracks.stamp) * rows[:, 2:4]
        return moved, Tracks(now, rows)

    def inputs(self, odometry: Odometry, tracks: Tracks, goal: tuple[float, float]) -> dict[str, Array]:
        """Return the inputs of the network by name, [1, ...], in a body frame with y to starboard."""
        observed = self._observe(odometry, tracks, goal)
        return {name: observed[name] for name in self._names}

    def _observe(self, odometry: Odometry, tracks: Tracks, goal: tuple[float, float]) -> dict[str, Array]:
        """Return all inputs that a network may have, by name, [1, ...] each."""
        cos, sin = math.cos(odometry.yaw), math.sin(odometry.yaw)

        def to_body(east: Any, north: Any) -> tuple[Any, Any]:
            return cos * east + sin * north, sin * east - cos * north

        ahead, aside = to_body(goal[0] - odometry.x, goal[1] - odometry.y)
        state = [ahead, aside, odometry.forward, -odometry.port, -odometry.yaw_rate, *self._setpoint]
        x, y, vx, vy, radius = _rows(tracks).T
        rows = np.stack((*to_body(x - odometry.x, y - odometry.y), *to_body(vx, vy), radius), 1)
        objects, mask = self._nearest(rows)
        return {
            "self_state": np.array([state]),
            "objects_state": objects[None],
            "objects_mask": mask[None],
            "taus": self._level(objects, mask) * self._taus[None],
        }

    def _nearest(self, rows: Array) -> tuple[Array, Array]:
        """Return slots [K, 5] and mask [K] of the objects in sight, ordered by distance minus radius, nearest first."""
        distance, radius = np.hypot(rows[:, 0], rows[:, 1]), rows[:, 4]
        seen = distance <= self._range + radius
        seen &= np.abs(np.arctan2(rows[:, 1], rows[:, 0])) <= 0.5 * self._angle
        rows = rows[seen]
        first = rows[np.argsort((distance - radius)[seen], kind="stable")[: self._kept]]
        objects, mask = np.zeros((self._slots, 5)), np.zeros(self._slots)
        objects[: len(first)], mask[: len(first)] = first, 1.0
        return objects, mask

    def _level(self, objects: Array, mask: Array) -> float:
        """Return the risk level: that of the settings or else 1; if adaptive, by the distance of the closest object."""
        if not self._adaptive:
            return self.settings.risk or 1.0
        closest = np.hypot(objects[:, 0], objects[:, 1])[mask > 0.0].min(initial=self._risk_distance)
        return float(closest / self._risk_distance)

    def _rates_of(self, action: Any) -> Array:
        """Return the rates [2] of the setpoints of an action (N/s), within the limits.

        Raises:
            BoatError: when the action is invalid.
        """
        shape, expected = np.shape(action), (2,) if self._full else ()
        require(shape == expected, f"the policy's action is of the shape {shape}, not {expected}")
        require(bool(np.isfinite(action).all()), "the policy's action is not finite")
        if self._full:
            rates = np.clip(action, -1.0, 1.0) * self._full
        else:
            require(action in range(len(self._rates)), f"the policy has no action {action}")
            rates = self._rates[int(action)]
        return np.clip(rates, -self._fastest, self._fastest)

    def _apply(self, rates: Array) -> tuple[float, float]:
        """Return the thrusts, or the setpoints of thrust and angle (N), after rates [2] (N/s), within the limits."""
        left, right = np.clip(self._setpoint + rates * self.control_step, self._lowest, self._highest)
        return float(left), float(right)


def load_network(file: Path) -> Network:
    """Return an ONNX policy as a function; it uses one thread, because one observation is little work.

    Raises:
        BoatError: when the file cannot be loaded or has no output SELECTED.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # fatal only, as errors are also raised
    try:
        session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception of its own for every reason
        raise BoatError(f"{file}: cannot be loaded ({str(error).splitlines()[0]})") from error
    outputs = [output.name for output in session.get_outputs()]
    require(SELECTED in outputs, f"{file}: has no output {SELECTED}, export the policy again")
    dtypes = {node.name: np.float32 if node.type == "tensor(float)" else np.float64 for node in session.get_inputs()}

    def network(inputs: dict[str, Array]) -> NDArray[Any]:
        feed = {name: value.astype(dtypes.get(name, value.dtype)) for name, value in inputs.items()}
        return np.asarray(session.run([SELECTED], feed)[0])

    return network


def _seconds(name: str, value: Any) -> float:
    """Return a time (s) as a Python float, because single precision would round differences to minutes."""
    require(finite(value), f"{name} is {value!r}, not a finite number of seconds")
    return float(value)


def _rows(tracks: Tracks) -> Array:
    """Return the rows of tracks as an array, [0, 5] if there are none; other shapes are checked later."""
    rows = np.asarray(tracks.rows, float)
    return rows if rows.size else rows.reshape(0, 5)


def _check(name: str, groups: list[Any], limits: list[float]) -> None:
    """Reject numbers that are not finite, or exceed the limit of their group."""
    for values, limit in zip(groups, limits, strict=True):
        values = np.abs(np.asarray(values, float))
        require(bool(np.isfinite(values).all()), f"{name}: a value is not finite")
        largest = float(values.max(initial=0.0))
        require(largest <= limit, f"{name}: {largest:g} is not plausible, the limit is {limit:g}")


def _same_numbers(file: Path, vessel: dict[str, Any]) -> str:
    """Return the name of the boat in a vessel file; raise a BoatError if its numbers differ from the policy's boat."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        stated = content["vessel"]
        groups = [(stated, vessel), (stated.get("actuators", {}), vessel.get("actuators", {}))]
        for numbers, own in groups:
            for key, given in numbers.items():
                if key != "actuators":
                    value = given["value"] if isinstance(given, dict) else given
                    same = own.get(key) == value
                    require(same, f"the policy is for a boat with {key}={own.get(key)}, not {value} as in {file}")
        return str(content["name"])
    except BoatError:
        raise
    except Exception as error:  # damaged text may raise any error
        raise BoatError(f"{file}: no vessel file ({error!r})") from error
