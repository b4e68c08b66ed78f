"""From odometry and tracked objects to thrusts, with a policy that ``marinenav export`` wrote.

Frames are those of ROS (REP 103): the map has x to the east and y to the north, yaw is
anticlockwise from east, and a body has x forward and y to port. Times are seconds of one clock.
Numbers may be of Python or of numpy, of any precision; all is computed in float64.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from numbers import Real
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Network = Callable[[dict[str, Array]], NDArray[Any]]
"""From inputs by name [B, ...] to actions, [B] indices or [B, 2]."""

VERSION, SELECTED = 2, "selected_action"
"""Of the contract, and the name of the ONNX output that is the action."""
NEAR = 10.0
"""Distance of the closest object from which an adaptive risk level is 1 (m)."""
FARTHEST, FASTEST, MOST_TRACKS = 1e4, 1e2, 1000
"""What is believed of inputs: distances (m), speeds and yaw rates (m/s, rad/s), and how many
tracks there are, so that the time of a decision is bounded."""


class BoatError(ValueError):
    """A policy, setting or input that cannot be used; its text is one sentence."""


@dataclass(frozen=True)
class Odometry:
    """Pose and velocity of the own vessel."""

    stamp: float
    """When they were measured (s)."""
    x: float
    """East (m)."""
    y: float
    """North (m)."""
    yaw: float
    """Anticlockwise from east (rad)."""
    forward: float
    """Velocity over ground, body frame (m/s)."""
    port: float
    """Velocity over ground, body frame (m/s)."""
    yaw_rate: float
    """Anticlockwise (rad/s)."""


@dataclass(frozen=True)
class Tracks:
    """The objects around, moving and fixed, without the own vessel."""

    stamp: float
    """When they were measured (s)."""
    rows: Array
    """[N, 5] east, north (m), velocity over ground east, north (m/s), radius (m); may be lists."""


@dataclass(frozen=True)
class Settings:
    """Settings of one boat; None: as in the contract."""

    risk: float | None = None
    """Share of the worst outcomes to act on, in (0, 1]."""
    min_thrust: float | None = None
    """Lowest thrust of a side (N), not below the contract's."""
    max_thrust: float | None = None
    """Highest thrust of a side (N), not above the contract's."""
    max_rate: float | None = None
    """Largest change of thrust (N/s), not above the contract's."""
    goal_distance: float | None = None
    """The goal is reached within this distance (m)."""
    max_age: float = 1.0
    """Age from which odometry and tracks are stale (s)."""
    max_ahead: float = 0.1
    """How far their stamps may be ahead of the own clock (s)."""
    max_gap: float | None = None
    """Longest time between two decisions (s); None: two control steps."""
    max_seconds: float = 0.05
    """Longest time that a decision may take (s)."""
    extrapolate: bool = True
    """Move vessel and tracks on to the present, at constant velocity."""


@dataclass(frozen=True)
class Command:
    """Thrust commands until the next control step."""

    left: float
    """Thrust (N)."""
    right: float
    """Thrust (N)."""
    stopped: str = ""
    """Why both are zero, one sentence; empty while the policy steers."""


class Pilot:
    """Acts once a control step; whatever is wrong with its inputs becomes a stop.

    Args:
        contract: what ``contract.json`` holds.
        network: computes actions from inputs of the contract.
        settings: of this boat.

    Raises:
        BoatError: when the contract is of another version or asks for what a boat does not
            measure, or when a setting is out of bounds.
    """

    def __init__(self, contract: dict[str, Any], network: Network, settings: Settings | None = None) -> None:
        _require(contract.get("version") == VERSION, "the contract is of another version, export the policy again")
        self._network, self.settings = network, settings or Settings()
        inputs = {each["name"]: each for each in contract["inputs"]}
        known = {"self_state", "objects_state", "objects_mask", "taus"}
        unknown = ", ".join(set(inputs) - known)
        _require(not unknown, f"the policy needs inputs that a boat does not have here: {unknown}")
        self._names = list(inputs)
        self._read_sensor(inputs)
        self._read_risk(inputs.get("taus"))
        self._read_limits(contract)
        self._thrust, self._last = (0.0, 0.0), -math.inf

    @classmethod
    def load(cls, folder: str | Path, settings: Settings | None = None) -> Pilot:
        """Load an ONNX policy with its contract, and try the contract's examples.

        Args:
            folder: what ``marinenav export --format onnx`` wrote.
            settings: of this boat.

        Raises:
            BoatError: when it cannot be used, or an example leads to another action.
        """
        path = Path(folder) / "contract.json"
        try:
            contract = json.loads(path.read_text(encoding="utf-8"))
            file = Path(folder) / contract["files"]["onnx"]["file"]
            network = load_network(file)
            pilot = cls(contract, network, settings)
            examples = contract["examples"]
            inputs = {name: np.array(each, float) for name, each in examples["inputs"].items()}
            fine = np.allclose(network(inputs), examples["action"], 0.0, examples["tolerance"])
        except BoatError:
            raise
        except Exception as error:  # damaged text can lead anywhere
            raise BoatError(f"{path}: no contract of an ONNX policy ({error!r})") from error
        _require(fine, f"{file}: the contract's examples lead to other actions")
        return pilot

    # The contract -------------------------------------------------------------------------------

    def _read_sensor(self, inputs: dict[str, Any]) -> None:
        """Read the number of observed objects and the sensor's range."""
        objects = inputs.get("objects_state")
        self._slots, self._kept, self._range, self._angle = 0, 0, 0.0, 0.0
        if objects is not None:
            seen = objects["seen"]
            self._slots = int(objects["shape"][1])
            self._kept = int(_one(seen["max_objects"], "max_objects"))
            self._range = _one(seen["range"], "range")
            self._angle = _one(seen["angle"], "angle")

    def _read_risk(self, taus: dict[str, Any] | None) -> None:
        """The fractions that select the worst outcomes."""
        asked = self.settings.risk
        fine = asked is None or (_finite(asked) and 0.0 < asked <= 1.0)
        _require(fine, f"risk: must be in (0, 1], not {asked}")
        _require(asked is None or taus is not None, "risk: this policy takes no risk level")
        self._taus = np.array(taus["usual"] if taus else [], float)
        self._adaptive = asked is None and taus is not None and taus["risk"] == "adaptive"

    def _read_limits(self, contract: dict[str, Any]) -> None:
        """Thrusts and what an action does to them."""
        settings, action = self.settings, contract["action"]
        self.control_step = _one(action["control_step"]["value"], "control_step")
        lowest, highest = (_one(each, "thrust") for each in action["thrust_limits"]["value"])
        self._full = _one(action["rate"]["value"], "rate") if "rate" in action else 0.0
        rates = action["rates"]["value"] if "rates" in action else np.zeros((0, 2))
        self._rates = np.array(rates, float)
        fine = self._rates.shape[1:] == (2,) and bool(np.isfinite(self._rates).all())
        _require(fine, "the contract's rates are not pairs of finite numbers")
        fastest = self._full or float(np.abs(self._rates).max())
        self._lowest = _within("min_thrust", settings.min_thrust, lowest, lowest, 0.0)
        self._highest = _within("max_thrust", settings.max_thrust, highest, 0.0, highest)
        self._fastest = _within("max_rate", settings.max_rate, fastest, 0.0, fastest)
        goal = _one(contract["goal_distance"]["value"], "goal_distance")
        self._arrival = _within("goal_distance", settings.goal_distance, goal, 0.0, FARTHEST)
        step = self.control_step
        self._gaps = 0.5 * step, _within("max_gap", settings.max_gap, 2.0 * step, step, FARTHEST)

    # Deciding -----------------------------------------------------------------------------------

    def command(
        self,
        now: float,
        odometry: Odometry | None,
        tracks: Tracks | None,
        goal: tuple[float, float] | None,
    ) -> Command:
        """Decide; call it once a control step.

        Args:
            now: the present, of the clock that stamped the inputs (s).
            odometry: the latest; None if there was none yet.
            tracks: likewise.
            goal: east and north (m); None if there is none.

        Returns:
            Thrusts. They are zero, with the reason, when an input is missing, stale, ahead of the
            clock, not finite or not plausible, when the call is late, takes too long or fails in
            any other way, and at the goal.
        """
        began = perf_counter()
        try:
            command = self._decide(now, odometry, tracks, goal)
            spent, most = perf_counter() - began, self.settings.max_seconds
            _require(spent <= most, f"the decision took {spent:.3f} s, more than {most:g} s")
        except BoatError as error:
            command = Command(0.0, 0.0, str(error))
        except Exception as error:  # whatever it is, the thrusters must not go on
            command = Command(0.0, 0.0, f"the decision failed: {error!r}")
        self._thrust = command.left, command.right
        self._last = float(now) if _finite(now) else -math.inf
        return command

    def _decide(
        self,
        now: float,
        odometry: Odometry | None,
        tracks: Tracks | None,
        goal: tuple[float, float] | None,
    ) -> Command:
        """Return a command.

        Raises:
            BoatError: when the vessel must stop.
        """
        now = _seconds("the clock", now)
        gap, (low, high) = now - self._last, self._gaps
        # A clock that was set back ends here, too.
        _require(gap >= low, f"the last decision was {gap:.2f} s ago, less than {low:g} s")
        _require(gap <= high or gap == math.inf, f"the last decision was {gap:.2f} s ago, more than {high:g} s")
        own, objects, there = self._checked(now, odometry, tracks, goal)
        own, objects = self._present(now, own, objects)
        _require(math.dist((own.x, own.y), there) > self._arrival, "the goal is reached")
        action = np.asarray(self._network(self.inputs(own, objects, there))[0])
        return Command(*self._applied(action))

    def _checked(
        self,
        now: float,
        odometry: Odometry | None,
        tracks: Tracks | None,
        goal: tuple[float, float] | None,
    ) -> tuple[Odometry, Tracks, tuple[float, float]]:
        """Return the inputs, all there, recent and plausible.

        Raises:
            BoatError: when they are not.
        """
        if odometry is None or tracks is None or goal is None:
            given = {"odometry": odometry, "tracks": tracks, "goal": goal}
            missing = " and no ".join(name for name, each in given.items() if each is None)
            raise BoatError(f"there is no {missing} yet")
        own, rows, there = odometry, _rows(tracks), np.asarray(goal, float)
        _require(there.shape == (2,), f"the goal is of the shape {list(there.shape)}, not [2]")
        _require(rows.ndim == 2 and rows.shape[1] == 5, f"tracks are of the shape {list(rows.shape)}, not [N, 5]")
        _require(len(rows) <= MOST_TRACKS, f"{len(rows)} tracks are more than {MOST_TRACKS}")
        _check("the goal", [there], [FARTHEST])
        _check(
            "odometry",
            [[own.x, own.y], [own.forward, own.port, own.yaw_rate], [own.yaw]],
            [FARTHEST, FASTEST, FARTHEST],
        )
        _check("tracks", [rows[:, :2], rows[:, 2:4], rows[:, 4]], [FARTHEST, FASTEST, FARTHEST])
        _require(not (rows[:, 4] < 0.0).any(), "tracks have a negative radius")
        for name, stamp in (("odometry", odometry.stamp), ("tracks", tracks.stamp)):
            age, settings = now - _seconds(f"the stamp of {name}", stamp), self.settings
            _require(age <= settings.max_age, f"{name}: {age:.2f} s old, more than {settings.max_age:g} s")
            _require(
                age >= -settings.max_ahead,
                f"{name}: {-age:.2f} s ahead of the clock, more than {settings.max_ahead:g} s",
            )
        own = Odometry(*map(float, astuple(own)))
        return own, Tracks(float(tracks.stamp), rows), (float(there[0]), float(there[1]))

    def _present(self, now: float, own: Odometry, tracks: Tracks) -> tuple[Odometry, Tracks]:
        """Return the vessel and tracks moved on to the present."""
        if not self.settings.extrapolate:
            return own, tracks
        age, cos, sin = now - own.stamp, math.cos(own.yaw), math.sin(own.yaw)
        moved = replace(
            own,
            stamp=now,
            x=own.x + age * (cos * own.forward - sin * own.port),
            y=own.y + age * (sin * own.forward + cos * own.port),
            yaw=own.yaw + age * own.yaw_rate,
        )
        rows = tracks.rows.copy()
        rows[:, :2] += (now - tracks.stamp) * rows[:, 2:4]
        return moved, Tracks(now, rows)

    def inputs(self, odometry: Odometry, tracks: Tracks, goal: tuple[float, float]) -> dict[str, Array]:
        """Return the inputs of the network, [1, ...] by name: a body frame with y to starboard."""
        cos, sin = math.cos(odometry.yaw), math.sin(odometry.yaw)

        def to_body(east: Any, north: Any) -> tuple[Any, Any]:
            return cos * east + sin * north, sin * east - cos * north

        ahead, aside = to_body(goal[0] - odometry.x, goal[1] - odometry.y)
        own = [ahead, aside, odometry.forward, -odometry.port, -odometry.yaw_rate, *self._thrust]
        x, y, vx, vy, radius = _rows(tracks).T
        rows = np.stack((*to_body(x - odometry.x, y - odometry.y), *to_body(vx, vy), radius), 1)
        objects, mask = self._nearest(rows)
        made = {
            "self_state": np.array([own]),
            "objects_state": objects[None],
            "objects_mask": mask[None],
            "taus": self._level(objects, mask) * self._taus[None],
        }
        return {name: made[name] for name in self._names}

    def _nearest(self, rows: Array) -> tuple[Array, Array]:
        """Return the slots [K, 5] and mask [K]: the objects in sight, smallest distance less radius first."""
        distance, radius = np.hypot(rows[:, 0], rows[:, 1]), rows[:, 4]
        seen = distance <= self._range + radius
        seen &= np.abs(np.arctan2(rows[:, 1], rows[:, 0])) <= 0.5 * self._angle
        rows = rows[seen]
        first = rows[np.argsort((distance - radius)[seen], kind="stable")[: self._kept]]
        objects, mask = np.zeros((self._slots, 5)), np.zeros(self._slots)
        objects[: len(first)], mask[: len(first)] = first, 1.0
        return objects, mask

    def _level(self, objects: Array, mask: Array) -> float:
        """Return the risk level."""
        if not self._adaptive:
            return self.settings.risk or 1.0
        closest = np.hypot(objects[:, 0], objects[:, 1])[mask > 0.0].min(initial=NEAR)
        return float(closest / NEAR)

    def _applied(self, action: Any) -> tuple[float, float]:
        """Return the thrusts after an action, within the limits.

        Raises:
            BoatError: when it is no action.
        """
        shape, expected = np.shape(action), (2,) if self._full else ()
        _require(shape == expected, f"the policy's action is of the shape {shape}, not {expected}")
        _require(bool(np.isfinite(action).all()), "the policy's action is not finite")
        if self._full:
            rates = np.clip(action, -1.0, 1.0) * self._full
        else:
            fine = action in range(len(self._rates))
            _require(fine, f"the policy has no action {action}")
            rates = self._rates[int(action)]
        change = np.clip(rates, -self._fastest, self._fastest) * self.control_step
        left, right = np.clip(self._thrust + change, self._lowest, self._highest)
        return float(left), float(right)


def load_network(file: Path) -> Network:
    """Return an ONNX policy as a function; one thread, for one observation is little work.

    Raises:
        BoatError: when it cannot be loaded or does not give actions.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4  # fatal: errors are raised, too
    try:
        session = onnxruntime.InferenceSession(str(file), options, ["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has an exception of its own for every reason
        raise BoatError(f"{file}: cannot be loaded ({str(error).splitlines()[0]})") from error
    outputs = [each.name for each in session.get_outputs()]
    _require(SELECTED in outputs, f"{file}: has no output {SELECTED}, export the policy again")
    kinds = {each.name: np.float32 if each.type == "tensor(float)" else np.float64 for each in session.get_inputs()}

    def network(inputs: dict[str, Array]) -> NDArray[Any]:
        given = {name: each.astype(kinds.get(name, each.dtype)) for name, each in inputs.items()}
        return np.asarray(session.run([SELECTED], given)[0])

    return network


def _require(condition: bool, sentence: str) -> None:
    if not condition:
        raise BoatError(sentence)


def _finite(value: Any) -> bool:
    value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
    return isinstance(value, Real) and math.isfinite(value)


def _seconds(name: str, value: Any) -> float:
    """Return a time as a float: differences of two in single precision would be rounded to minutes."""
    _require(_finite(value), f"{name} is {value!r}, not a finite number of seconds")
    return float(value)


def _rows(tracks: Tracks) -> Array:
    """Return the rows as an array, [0, 5] if there are none; others are checked by their shape."""
    rows = np.asarray(tracks.rows, float)
    return rows if rows.size else rows.reshape(0, 5)


def _check(name: str, groups: list[Any], limits: list[float]) -> None:
    """Refuse numbers that are not finite, or beyond the limit of their group."""
    for values, limit in zip(groups, limits, strict=True):
        values = np.abs(np.asarray(values, float))
        _require(bool(np.isfinite(values).all()), f"{name}: a value is not finite")
        largest = float(values.max(initial=0.0))
        _require(largest <= limit, f"{name}: {largest:g} is not plausible, the limit is {limit:g}")


def _one(value: Any, name: str) -> float:
    """Return a number that a contract may have for every robot; they must be equal."""
    values = np.unique(np.asarray(value, float))
    _require(len(values) == 1, f"the contract has a {name} of its own for every robot")
    _require(bool(np.isfinite(values).all()), f"the contract's {name} is not finite")
    return float(values[0])


def _within(name: str, value: float | None, usual: float, low: float, high: float) -> float:
    """Return a setting within bounds, or the usual one."""
    if value is None:
        return usual
    fine = _finite(value) and low <= value <= high
    _require(fine, f"{name}: must be from {low:g} to {high:g}, not {value}")
    return float(value)
