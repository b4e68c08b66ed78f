"""How two vessels meet and what the rules of the sea ask of the first, one pair at a time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .angles import wrap_pi


@dataclass(frozen=True)
class Meeting:
    """Relative motion of one pair of vessels, with the names and units of marinenav_env.rules.roles.RelativeMotion."""

    distance: float
    tcpa: float
    dcpa: float
    bearing: float
    aspect: float
    relative_heading: float


def meet(own: Sequence[float], other: Sequence[float]) -> Meeting:
    """How two vessels meet, each (x, y, heading, v_x, v_y)."""
    away = complex(other[0] - own[0], other[1] - own[1])
    drift = complex(other[3] - own[3], other[4] - own[4])
    pace = max(abs(drift), 1e-6)
    # Vessels at rest towards each other neither approach nor move apart.
    along = away * drift.conjugate() / pace if pace > 1e-6 else 0j
    line = math.atan2(away.imag, away.real)
    return Meeting(
        distance=abs(away),
        tcpa=-along.real / pace,
        dcpa=along.imag,
        bearing=wrap_pi(line - own[2]),
        aspect=wrap_pi(line + math.pi - other[2]),
        relative_heading=wrap_pi(other[2] - own[2]),
    )


def under_way(own: Sequence[float], least: float) -> tuple[float, ...]:
    """A vessel, (x, y, heading, v_x, v_y over ground, v_x, v_y through the water), as if it made at
    least this speed ahead through the water (m/s): (x, y, heading, v_x, v_y over ground)."""
    x, y, heading, *ground = own[:5]
    lacking = max(0.0, least - speed_ahead((heading, *own[5:])))
    v_x, v_y = (v + lacking * along for v, along in zip(ground, (math.cos(heading), math.sin(heading)), strict=True))
    return x, y, heading, v_x, v_y


def meet_under_way(own: Sequence[float], other: Sequence[float], least: float) -> Meeting:
    """How two vessels meet that, head-on, make at least this speed ahead (m/s); see under_way."""
    met = meet(own, other)
    if least == 0.0 or role(met) != "head-on":
        return met
    there = meet(under_way(own, least), under_way(other, least))
    return replace(met, tcpa=there.tcpa, dcpa=there.dcpa)


def role(
    met: Meeting, stern: float = math.radians(112.5), most: float = math.pi, courses: float = math.radians(157.5)
) -> str:
    """Role of the own vessel towards the other, by the angles of the rules (rad)."""
    if abs(met.aspect) > stern and abs(met.bearing) <= most:
        return "overtaking"
    if abs(met.bearing) > stern and abs(met.aspect) <= most:
        return "overtaken"
    if abs(met.relative_heading) > courses:
        return "head-on"
    if met.bearing > 0.0:
        return "give-way"
    return "stand-on" if met.aspect > 0.0 else "head-on"


def duty(met: Meeting, sensor_range: float, horizon: float, domain: float, margin: float = 0.0) -> float:
    """What passing as the vessels do now costs the own one (1)."""
    if met.distance > sensor_range or not 0.0 < met.tcpa <= horizon:
        return 0.0
    kind, share = role(met), met.dcpa / domain
    span = max(sensor_range - domain, 1e-3)
    urgency = min(1.0, (sensor_range - met.distance) / span)
    if kind == "overtaking":
        return urgency * max(0.0, missing(abs(share), margin / domain))
    if kind not in ("head-on", "give-way"):
        return 0.0
    if share < -1.0:
        return urgency * max(0.0, min(missing(share, margin / domain), 2.0 * (2.0 + share)))
    return urgency * max(0.0, missing(share, margin / domain))


def missing(share: float, margin: float) -> float:
    """How much the passing distance is missed (1)."""
    if margin == 0.0:
        return 1.0 - share
    steep = 1.0 if share <= 1.0 - min(1.0, margin) else (1.0 - share) / min(1.0, margin)
    return (1.0 - share + steep) / 2.0


def stands_on(met: Meeting, sensor_range: float, horizon: float, domain: float, until: float) -> bool:
    """Whether the own vessel has to keep course and speed for the other."""
    in_sight = met.distance <= sensor_range and 0.0 < met.tcpa <= horizon
    risky = abs(met.dcpa) < domain and met.distance > until
    return in_sight and risky and role(met) in ("stand-on", "overtaken")


def manoeuvre(before: Sequence[float], after: Sequence[float]) -> float:
    """How much a vessel, (heading, v_x, v_y) through the water, changes course and speed (1)."""
    turn = abs(wrap_pi(after[0] - before[0]))
    change = abs(math.hypot(*after[1:]) - math.hypot(*before[1:]))
    return min(1.0, turn / 0.1 + change / 0.5)


def to_port(before: Sequence[float], after: Sequence[float]) -> float:
    """How fast a vessel, (heading, v_x, v_y), turns to port, from 0 to 1."""
    return min(1.0, max(0.0, wrap_pi(before[0] - after[0]) / 0.1))


def meets(met: Meeting, sensor_range: float, horizon: float, domain: float) -> bool:
    """Whether the own vessel must not turn to port for the other."""
    in_sight = met.distance <= sensor_range and 0.0 < met.tcpa <= horizon
    crossing = role(met) in ("head-on", "give-way", "stand-on")
    return in_sight and crossing and abs(met.dcpa) < 2.0 * domain


def slowing(before: Sequence[float], after: Sequence[float]) -> float:
    """How much a vessel, (heading, v_x, v_y) through the water, loses speed ahead instead of
    turning to starboard, from 0 to 1."""
    turn = min(1.0, max(0.0, wrap_pi(after[0] - before[0]) / 0.1))
    return min(1.0, max(0.0, (speed_ahead(before) - speed_ahead(after)) / 0.5)) * (1.0 - turn)


def keeps_speed(met: Meeting, sensor_range: float, horizon: float, domain: float) -> bool:
    """Whether the own vessel meets the other head-on, and must turn instead of slowing down."""
    in_sight = met.distance <= sensor_range and 0.0 < met.tcpa <= horizon
    return in_sight and role(met) == "head-on" and abs(met.dcpa) < domain


def off_course(own: Sequence[float], goal: Sequence[float]) -> float:
    """Speed across the line to the goal (m/s), at most 1; own: x, y, yaw, vx, vy."""
    x, y, vx, vy = *own[:2], *own[-2:]
    bearing = math.atan2(goal[1] - y, goal[0] - x)
    return min(1.0, abs(math.cos(bearing) * vy - math.sin(bearing) * vx))


def astern(vessel: Sequence[float]) -> float:
    """How fast a vessel, (heading, v_x, v_y) through the water, goes astern, from 0 to 1."""
    return min(1.0, max(0.0, -speed_ahead(vessel) / 0.5))


def speed_ahead(vessel: Sequence[float]) -> float:
    """Speed ahead (m/s) of a vessel, (heading, v_x, v_y)."""
    heading, v_x, v_y = vessel
    return v_x * math.cos(heading) + v_y * math.sin(heading)
