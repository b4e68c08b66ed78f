"""Encounters of the own vessel with tracked ones, followed on board as in the world of the policy.

The rules are those of marinenav_env/rules/encounters.py, in numpy and for the own vessel alone, with what the
observation entry ``duties`` shows. A track is a vessel once it has been faster than the least speed of the rules, so
that fixed objects have no encounters. A vessel whose track is lost goes on at its last velocity until the rules end the
encounter; one that is tracked again under its number has the encounter that it had.

Motions are rows: position north, east (m), heading clockwise from north (rad), velocity over ground north, east (m/s).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .checks import BoatError, common_number, require
from .network import Array
from .waters import Waters

NONE, CANDIDATE, CONFIRMED, PAST, FLEETING = range(5)
"""Numbers of the phases of an encounter."""
HEAD_ON, GIVE_WAY, STAND_ON, OVERTAKING, OVERTAKEN = range(1, 6)
"""Numbers of the own role."""
HELD, FREE, RELEASED = range(3)
"""Values of ``may_act``."""
FIELDS = (
    *("phase", "role", "age", "opening", "late_distance", "heading", "speed", "nearest", "has_manoeuvred", "may_act"),
)
"""Names of what is known of an encounter, with the meaning that EncounterState gives them."""
MIN_RELATIVE_SPEED = 1e-6
"""Relative speed up to which two vessels count as at rest towards each other (m/s)."""


def wrap_to_pi(angle: Array) -> Array:
    """Return angles in [-pi, pi) (rad)."""
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


@dataclass(frozen=True)
class DutyRules:
    """Part of a contract about the entry ``duties``."""

    rules: dict[str, float]
    """Settings of world.colregs that are numbers, by name."""
    turn: float
    """Own turn that counts as 1 (rad)."""
    gap: float
    """Distance that counts as 1 (m)."""
    radius: float
    """Collision radius of the own vessel (m)."""
    range: float
    """Range of the sensor (m)."""
    control_step: float
    """Length of a control step (s)."""

    @classmethod
    def from_contract(cls, description: dict[str, Any], sensor_range: float, control_step: float) -> DutyRules:
        """Return the rules of the description of the input ``duties``."""
        try:
            rules = {key: value for key, value in description["rules"].items() if isinstance(value, (int, float))}
            numbers = {key: common_number(description[key]["value"], key) for key in ("turn", "gap", "radius")}
        except (KeyError, TypeError) as error:
            raise BoatError(f"the contract does not describe the duties ({error!r})") from error
        return cls(rules, **numbers, range=sensor_range, control_step=control_step)

    def steps_of(self, name: str) -> int:
        """Return the number of control steps of a time among the rules, rounded to the nearest."""
        return round(self.rules[name] / self.control_step)


@dataclass(frozen=True)
class Encounters:
    """Encounters with vessels by the numbers of their tracks; ``follow`` returns those after a control step."""

    duties: DutyRules
    waters: Waters | None
    """Land that hides vessels; None if nothing does."""
    ids: Array
    """Numbers of the tracks [N]."""
    motion: Array
    """Latest motions [N, 5]."""
    radius: Array
    """Latest radii [N] (m)."""
    known: dict[str, Array]
    """State of the encounters by the names of FIELDS, each [N]."""
    vessels: dict[int, int]
    """Control steps since each vessel was tracked, by the number of its track, up to the horizon of the rules."""

    @classmethod
    def none(cls, duties: DutyRules, waters: Waters | None) -> Encounters:
        """Return encounters before the first decision."""
        blank = {name: np.zeros(0) for name in FIELDS}
        return cls(duties, waters, np.zeros(0, int), np.zeros((0, 5)), np.zeros(0), blank, {})

    def follow(self, own: Array, ids: Array, motion: Array, radius: Array, steps: int = 1) -> Encounters:
        """Return the encounters after control steps since the last call, given the own motion [5].

        Tracks have different numbers [N], motions [N, 5] and radii [N] (m).
        """
        require(len(set(ids.tolist())) == len(ids), "two tracks have the same number")
        # Vessels without a track go on at their last velocity while the encounter is open.
        lost = np.logical_and(self.is_open, ~np.isin(self.ids, ids))
        moves = np.hypot(motion[:, 3], motion[:, 4]) >= self.duties.rules["min_speed"]
        is_vessel = moves | np.isin(ids, np.array([*self.vessels, *self.ids.tolist()], int))
        ids, motion, radius = ids[is_vessel].astype(int), motion[is_vessel], radius[is_vessel]
        last = self.duties.steps_of("horizon")
        vessels = {number: age + steps for number, age in self.vessels.items() if age + steps <= last}
        vessels |= dict.fromkeys(ids.tolist(), 0)
        moved = self.motion[lost].copy()
        moved[:, :2] += steps * self.duties.control_step * moved[:, 3:]
        ids = np.concatenate((ids, self.ids[lost]))
        place = {number: row for row, number in enumerate(self.ids.tolist())}
        rows = np.array([place.get(number, -1) for number in ids.tolist()], int)
        # The last row stands for a vessel that is new.
        before = {
            name: np.append(np.where(self.is_open, values, 0.0), 0.0)[rows] for name, values in self.known.items()
        }
        motion, radius = np.concatenate((motion, moved)), np.concatenate((radius, self.radius[lost]))
        known = _update(before, own, motion, radius, self, steps)
        return Encounters(self.duties, self.waters, ids, motion, radius, known, vessels)

    @property
    def is_open(self) -> Array:
        """Return which encounters go on."""
        return (self.known["phase"] == CANDIDATE) | (self.known["phase"] == CONFIRMED)

    def rows(self, own: Array, ids: Array) -> Array:
        """Return the rows of the entry ``duties`` [N, 12] of tracks by their numbers [N]; 0 without an encounter."""
        known, duties, place = self.known, self.duties, {number: row for row, number in enumerate(self.ids.tolist())}
        confirmed = known["phase"] == CONFIRMED
        distance = np.hypot(self.motion[:, 0] - own[0], self.motion[:, 1] - own[1])
        columns = [known["role"] == role for role in range(HEAD_ON, OVERTAKEN + 1)]
        columns += [
            confirmed,
            known["age"] * duties.control_step / duties.rules["horizon"],
            wrap_to_pi(own[2] - known["heading"]) / duties.turn,
            math.hypot(own[3], own[4]) / np.maximum(known["speed"], 1e-6) - 1.0,
            (distance - np.where(confirmed, known["late_distance"], 0.0)) / duties.gap,
            known["has_manoeuvred"],
            known["may_act"] != HELD,
        ]
        table = np.clip(np.stack([np.asarray(column, float) for column in columns], 1), -1.0, 1.0)
        table = np.vstack((table * self.is_open[:, None], np.zeros(len(columns))))
        return np.asarray(table[[place.get(number, -1) for number in ids.tolist()]])


@dataclass(frozen=True)
class _Sight:
    """Relative motion of the own vessel and others [N]; names as in RelativeMotion."""

    distance: Array
    tcpa: Array
    dcpa: Array
    bearing: Array
    aspect: Array
    relative_heading: Array


def _look(own: Array, motion: Array) -> _Sight:
    """Return the relative motion of the own vessel and others."""
    px, py, wx, wy = (motion[:, column] - own[column] for column in (0, 1, 3, 4))
    speed = np.maximum(np.hypot(wx, wy), MIN_RELATIVE_SPEED)
    direction = np.arctan2(py, px)
    return _Sight(
        distance=np.hypot(px, py),
        tcpa=np.where(speed > MIN_RELATIVE_SPEED, -(px * wx + py * wy) / speed**2, 0.0),
        dcpa=(py * wx - px * wy) / speed,
        bearing=wrap_to_pi(direction - own[2]),
        aspect=wrap_to_pi(direction + math.pi - motion[:, 2]),
        relative_heading=wrap_to_pi(motion[:, 2] - own[2]),
    )


def _roles(seen: _Sight, rules: dict[str, float]) -> Array:
    """Return the own role towards others."""
    to_port, bearing, aspect = seen.bearing <= 0.0, np.abs(seen.bearing), np.abs(seen.aspect)
    head_on = (np.abs(seen.relative_heading) > rules["head_on_courses"]) | (to_port & (seen.aspect <= 0.0))
    stern, most = rules["stern_bearing"], rules["overtaking_bearing"]
    role = np.where(head_on, HEAD_ON, np.where(to_port, STAND_ON, GIVE_WAY))
    role = np.where((bearing > stern) & (aspect <= most), OVERTAKEN, role)
    return np.where((aspect > stern) & (bearing <= most), OVERTAKING, role)


def _update(
    known: dict[str, Array], own: Array, motion: Array, radius: Array, latest: Encounters, steps: int
) -> dict[str, Array]:
    """Return what is known of encounters after control steps, as update_encounters in marinenav_env/rules."""
    duties, seen, now = latest.duties, _look(own, motion), dict(known)
    rules = duties.rules
    contact, speed = duties.radius + radius, math.hypot(own[3], own[4])
    touches, visible = seen.distance <= contact, seen.distance <= duties.range + radius
    if latest.waters is not None:
        visible &= ~latest.waters.hides(own[0], own[1], motion[:, :2])
    is_close = np.abs(seen.dcpa) < rules["domain"]
    risk = touches | (visible & (seen.tcpa > 0.0) & (seen.tcpa <= rules["horizon"]) & is_close)
    begins = risk & (known["phase"] == NONE)
    first = {"phase": CANDIDATE, "role": _roles(seen, rules), "heading": own[2], "speed": speed}
    first["nearest"] = seen.distance
    now |= {name: np.where(begins, value, known[name]) for name, value in first.items()}
    now["age"] = np.where(begins, 0.0, known["age"] + steps)
    now["nearest"] = np.minimum(now["nearest"], seen.distance)
    keeps_clear = np.isin(now["role"], (HEAD_ON, GIVE_WAY, OVERTAKING)) & (now["phase"] != NONE)
    frees = ~begins & ((seen.distance < rules["stand_on_until"]) | ~is_close)
    may_act = np.where(keeps_clear.any(), RELEASED, np.where(frees, FREE, HELD))
    now["may_act"] = np.maximum(known["may_act"], may_act)
    # What a vessel does after the closest approach does not count, unless the vessels come still closer.
    turns = np.abs(wrap_to_pi(own[2] - now["heading"])) >= rules["substantial_turn"]
    slows = speed / np.maximum(now["speed"], 1e-6) < 1.0 - rules["substantial_slowing"]
    now["has_manoeuvred"] = np.maximum(known["has_manoeuvred"], (seen.distance <= now["nearest"]) & (turns | slows))
    candidate, confirmed = now["phase"] == CANDIDATE, now["phase"] == CONFIRMED
    urgent = touches | (seen.tcpa <= rules["urgent_time"]) | (seen.distance < rules["urgent_distance"])
    lasts = now["age"] >= duties.steps_of("confirm")
    confirms = candidate & np.where(risk, lasts | urgent, keeps_clear & (now["has_manoeuvred"] > 0.0))
    opens = (seen.tcpa <= 0.0) & (seen.distance > now["nearest"])
    now["opening"] = np.where(opens, known["opening"] + steps, 0.0)
    # Vessels are past each other when the other is abaft the beam, but crossing ones when they are clear.
    astern = np.abs(np.where(now["role"] == OVERTAKEN, seen.aspect, seen.bearing)) > 0.5 * math.pi
    passed = astern | np.isin(now["role"], (GIVE_WAY, STAND_ON))
    clear = ~visible | (passed & (seen.distance >= rules["clear_distance"]))
    ends = (now["opening"] >= duties.steps_of("clear_time")) & clear
    phase = np.where(candidate & ~risk, FLEETING, now["phase"])
    now["phase"] = np.where(confirms, CONFIRMED, np.where(confirmed & ends, PAST, phase))
    now["age"] = np.where(confirms, 0.0, now["age"])
    halfway = np.minimum(0.5 * (seen.distance + contact), rules["stand_on_until"])
    now["late_distance"] = np.where(confirms, halfway, known["late_distance"])
    return now
