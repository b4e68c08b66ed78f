"""The life of an encounter: who has which duty towards whom, from when on, and whether it is kept.

There is one state for every ordered pair of vessels, which ``update_encounters`` advances by a control step::

    none -> candidate -> confirmed -> past and clear -> none
                |  (the risk ends first)
                +-> fleeting -> none

The first step with a risk of collision makes a candidate, and fixes role, courses and speeds. It is confirmed once the
risk has lasted ``confirm``, or at once if it is urgent; only then do deadlines count. Both final phases last for one
step. The reward and the judge of recordings fold this function over the steps, so that they cannot differ. Settings are
those of ``world.colregs``; docs/evaluation.md has their sources.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import ColregsConfig
from marinenav_env.physics.dynamics import wrap_to_pi
from marinenav_env.physics.shores import hidden_pairs
from marinenav_env.rules.roles import (
    GIVE_WAY,
    HEAD_ON,
    OVERTAKEN,
    OVERTAKING,
    STAND_ON,
    RelativeMotion,
    relative_motion,
    roles,
)
from marinenav_env.runtime.layout import env_last, stack_last
from marinenav_env.state import Parameters, Scenario

NONE, CANDIDATE, CONFIRMED, PAST, FLEETING = range(5)
"""Numbers of the phases: no encounter, risk of collision not yet confirmed, duties count, past and clear (or a vessel
has left), and risk that ended before it was confirmed."""
HELD, FREE, RELEASED = range(3)
"""Values of ``may_act``: has to stand on, need no longer, or never had to, since it has to keep clear of a third."""


class Sight(NamedTuple):
    """Radii, ranges [E or 1, R or 1] (m) and shores that decide who touches and who sees whom."""

    radius: Tensor
    """Collision radius."""
    detect_radius: Tensor
    """Radius of the disc that the sensors of others detect."""
    range: Tensor
    shores: Tensor | None = None
    """[E, S, 4] segments of shore that hide what is behind them (m); None if nothing is hidden."""

    @classmethod
    def from_parameters(cls, parameters: Parameters, shores: Tensor | None = None) -> Sight:
        """Return the sight of vessels and sensors, with the shores that hide what is behind them."""
        vessel = parameters.vessel
        return cls(vessel.radius, vessel.detect_radius, parameters.sensor.range, shores)


class EncounterState(NamedTuple):
    """Encounters of every vessel (first axis, own) with every other (second axis), all [R, R, E]."""

    phase: Tensor
    """Number of the phase; other fields have a meaning unless it is NONE."""
    role: Tensor
    """Role of the own vessel when the encounter began, a number of rules.roles."""
    age: Tensor
    """Steps since the encounter began, or, once it is confirmed, since then."""
    opening: Tensor
    """Steps in a row in which the vessels move apart."""
    late_distance: Tensor
    """Distance between the centres below which a manoeuvre is no longer early (m): the one at which half of the gap
    that the hulls had at the confirmation is left, but at most ``stand_on_until``, below which the other may act."""
    heading: Tensor
    """Own heading when the encounter began (rad)."""
    speed: Tensor
    """Own speed over ground when the encounter began (m/s)."""
    other_heading: Tensor
    """Heading of the other when the encounter began (rad)."""
    nearest: Tensor
    """Smallest distance since the encounter began (m)."""
    aspect: Tensor
    """Latest bearing of the own vessel from the heading that the other had when the encounter began (rad)."""
    side: Tensor
    """Side of the first substantial turn, 1: starboard, -1: port, 0: none yet."""
    has_manoeuvred: Tensor
    """1 after a substantial manoeuvre, else 0."""
    may_act: Tensor
    """HELD, FREE or RELEASED, for a vessel that has to stand on."""
    is_late: Tensor
    """1 if a vessel that has to keep clear made no substantial manoeuvre in time, else 0."""
    on_wrong_side: Tensor
    """1 if its first turn was to port, or, head-on, it made none until the other was past and clear, else 0."""
    crossed_ahead: Tensor
    """1 if it passed ahead of the other, else 0; only a vessel that gives way must not."""
    has_left: Tensor
    """1 if a vessel that has to stand on changed course or speed, else 0."""
    touched: Tensor
    """1 after a contact of the two, else 0."""

    @property
    def is_open(self) -> Tensor:
        """Return whether an encounter goes on."""
        return (self.phase == CANDIDATE) | (self.phase == CONFIRMED)

    @property
    def counts(self) -> Tensor:
        """Return whether an encounter is or was confirmed."""
        return (self.phase == CONFIRMED) | (self.phase == PAST)

    @property
    def keeps_clear(self) -> Tensor:
        """Return whether the own vessel has to keep out of the way of the other."""
        return (self.role == HEAD_ON) | (self.role == GIVE_WAY) | (self.role == OVERTAKING)

    @property
    def is_broken(self) -> Tensor:
        """Return whether the own vessel has broken its duty."""
        ahead = (self.crossed_ahead > 0.0) & (self.role == GIVE_WAY)
        flags = self.is_late + self.on_wrong_side + self.has_left + self.touched
        return self.counts & (ahead | (flags > 0.0))

    @property
    def has_duty(self) -> Tensor:
        """Return whether the encounter is scored: it counts, and the vessel has to keep clear or to stand on."""
        return self.counts & (self.keeps_clear | (self.may_act != RELEASED) | self.is_broken)


def initial_encounters(scenario: Scenario) -> Tensor:
    """Return encounters before an episode, all 0: [E, R (other), R (own), F], with the F fields of EncounterState."""
    envs, robots = scenario.robot_mask.shape
    return scenario.goal.new_zeros(envs, robots, robots, len(EncounterState._fields))


def newly_broken_duties(before: Tensor, after: Tensor) -> Tensor:
    """Return which vessels broke a duty in a step, [R, E] bool, from the encounters before and after it."""
    was, now = (EncounterState(*env_last(encounters)) for encounters in (before, after))
    return (now.is_broken & ~(was.is_broken & was.is_open)).any(1)


class _Frame(NamedTuple):
    """Relative motion and contact of all pairs of vessels in a step; tensors [R, R, E]."""

    seen: RelativeMotion
    present: Tensor
    """Both vessels were active before the step."""
    visible: Tensor
    """The own vessel detects the other."""
    touches: Tensor
    is_close: Tensor
    """They would pass within the domain if both kept course and speed."""
    risk: Tensor
    heading: Tensor
    """Own heading (rad)."""
    speed: Tensor
    """Own speed over ground (m/s)."""
    other_heading: Tensor
    """Heading of the other (rad)."""
    halfway: Tensor
    """Distance between the centres at which half of the present gap between the hulls is left (m)."""


def update_encounters(
    encounters: Tensor,
    pose: Tensor,
    velocity: Tensor,
    active: Tensor,
    sight: Sight,
    rules: ColregsConfig,
    control_step: float,
) -> Tensor:
    """Return the encounters of all pairs of vessels after a step.

    The result is [E, R (other), R (own), F]; the last dimension has the F fields of EncounterState in their order.

    Args:
        encounters: those before the step.
        pose: [E, R, 3] x, y (m) and yaw (rad) after the step, or at the start of an episode.
        velocity: [E, R, 3] velocity over ground (m/s, m/s, rad/s).
        active: [E, R] bool, which robots were active before the step.
        sight: sizes of the vessels, and ranges of their sensors.
        rules: definitions of an encounter and of its duties.
        control_step: length of a step (s).
    """
    frame, fields = _look(pose, velocity, active, sight, rules), env_last(encounters)
    known = EncounterState(*torch.where(EncounterState(*fields).is_open, fields, 0.0))
    started = _apply_motion(known, frame, rules)
    acted = _apply_manoeuvres(started, frame, rules)
    moved = _apply_phases(acted, frame, rules, control_step)
    is_first = started.has_manoeuvred == 0.0
    return stack_last(_apply_duties(moved, is_first, frame, rules, control_step))


def _look(pose: Tensor, velocity: Tensor, active: Tensor, sight: Sight, rules: ColregsConfig) -> _Frame:
    """Return what is seen of all pairs of vessels."""
    seen, here = relative_motion(pose, velocity), env_last(active)
    present = here & here[:, None] & (seen.distance > 0.0)
    heading, (vx, vy, _) = env_last(pose)[2], env_last(velocity)
    radius, detected, sensor_range = map(env_last, sight[:3])
    contact = radius + radius[:, None]
    touches = present & (seen.distance <= contact)
    visible = present & (seen.distance <= sensor_range[:, None] + detected)
    if sight.shores is not None:
        visible = visible & ~hidden_pairs(pose, sight.shores)
    is_close = seen.dcpa.abs() < rules.domain
    approaches = (seen.tcpa > 0.0) & (seen.tcpa <= rules.horizon) & is_close
    own, speed, other = (
        values.expand_as(seen.distance)
        for values in (heading[:, None], torch.sqrt(vx * vx + vy * vy)[:, None], heading)
    )
    risk, halfway = touches | (visible & approaches), 0.5 * (seen.distance + contact)
    return _Frame(seen, present, visible, touches, is_close, risk, own, speed, other, halfway)


def _apply_motion(known: EncounterState, frame: _Frame, rules: ColregsConfig) -> EncounterState:
    """Return encounters with those that begin in a step, and with what follows from the motion."""
    seen, present, speed = frame.seen, frame.present, frame.speed
    begins = frame.risk & (known.phase == NONE)
    first: dict[str, Any] = {
        "phase": CANDIDATE,
        "role": roles(seen, rules).to(speed.dtype),
        "heading": frame.heading,
        "speed": speed,
        "other_heading": frame.other_heading,
        "nearest": seen.distance,
    }
    begun = {name: torch.where(begins, value, getattr(known, name)) for name, value in first.items()}
    now = known._replace(**begun)
    aspect = wrap_to_pi(seen.aspect + frame.other_heading - now.other_heading)
    crosses = frame.visible & ~begins & (aspect * known.aspect <= 0.0) & (aspect.abs() < 0.5 * math.pi)
    frees = present & ~begins & ((seen.distance < rules.stand_on_until) | ~frame.is_close)
    third = present & (now.is_open & now.keeps_clear & present).any(1, keepdim=True)
    may_act = torch.where(third, RELEASED, torch.where(frees, FREE, HELD)).to(speed.dtype)
    return now._replace(
        age=torch.where(begins, 0.0, torch.where(present, known.age + 1.0, known.age)),
        aspect=aspect,
        nearest=torch.where(present, now.nearest.minimum(seen.distance), now.nearest),
        crossed_ahead=known.crossed_ahead.maximum(crosses.to(speed.dtype)),
        may_act=known.may_act.maximum(may_act),
        touched=known.touched.maximum(frame.touches.to(speed.dtype)),
    )


def _apply_manoeuvres(known: EncounterState, frame: _Frame, rules: ColregsConfig) -> EncounterState:
    """Return encounters after the substantial manoeuvres of a step."""
    # What a vessel does after the closest approach does not count, unless the vessels come still closer.
    meets = frame.present & (frame.seen.distance <= known.nearest)
    off, share = _deviation(known, frame)
    turned = meets & (off.abs() >= rules.substantial_turn)
    acted = turned | (meets & (share < 1.0 - rules.substantial_slowing))
    return known._replace(
        side=torch.where(turned & (known.side == 0.0), off.sign(), known.side),
        has_manoeuvred=known.has_manoeuvred.maximum(acted.to(off.dtype)),
    )


def _deviation(known: EncounterState, frame: _Frame) -> tuple[Tensor, Tensor]:
    """Return the own change of course (rad) since the encounter began, and the speed as a share of that at first."""
    return wrap_to_pi(frame.heading - known.heading), frame.speed / known.speed.clamp_min(1e-6)


def _apply_phases(known: EncounterState, frame: _Frame, rules: ColregsConfig, control_step: float) -> EncounterState:
    """Return encounters that are confirmed or end in a step."""
    seen, present, risk = frame.seen, frame.present, frame.risk
    candidate, confirmed = known.phase == CANDIDATE, known.phase == CONFIRMED
    urgent = frame.touches | (seen.tcpa <= rules.urgent_time) | (seen.distance < rules.urgent_distance)
    lasts = known.age >= steps_of(rules.confirm, control_step)
    # A vessel that had to keep clear and ended the risk by a manoeuvre has done its duty, or turned to the wrong side.
    has_acted = known.keeps_clear & (known.has_manoeuvred > 0.0) & present
    confirms = candidate & torch.where(risk, lasts | urgent, has_acted)
    opens = present & (seen.tcpa <= 0.0) & (seen.distance > known.nearest)
    opening = torch.where(opens, known.opening + 1.0, 0.0)
    # Rule 13 (d): an overtaking vessel keeps clear until it is past, so the other is abaft its beam. Vessels that meet
    # head-on and go astern are not past each other either.
    astern = torch.where(known.role == OVERTAKEN, seen.aspect, seen.bearing).abs() > 0.5 * math.pi
    crosses = (known.role == GIVE_WAY) | (known.role == STAND_ON)
    clear = ~frame.visible | ((crosses | astern) & (seen.distance >= rules.clear_distance))
    ends = (opening >= steps_of(rules.clear_time, control_step)) & clear
    phase = torch.where(candidate & ~risk, FLEETING, known.phase)
    phase = torch.where(confirms, CONFIRMED, torch.where(confirmed & (ends | ~present), PAST, phase))
    return known._replace(
        phase=phase,
        age=torch.where(confirms, 0.0, known.age),
        opening=opening,
        late_distance=torch.where(confirms, frame.halfway.clamp_max(rules.stand_on_until), known.late_distance),
    )


def _apply_duties(
    known: EncounterState, is_first: Tensor, frame: _Frame, rules: ColregsConfig, control_step: float
) -> EncounterState:
    """Return encounters with the duties that are broken in a step; ``is_first``: no manoeuvre was made before it."""
    head_on, due = known.role == HEAD_ON, known.counts & frame.present
    past = due & (known.phase == PAST)
    meets = due & (frame.seen.distance <= known.nearest)
    # A manoeuvre of this step is late if the vessels are already too close.
    late = meets & is_first & (frame.seen.distance < known.late_distance)
    overdue = past
    if rules.act_within:
        overdue = overdue | (due & (known.age > steps_of(rules.act_within, control_step)))
    late = known.keeps_clear & (late | (overdue & (known.has_manoeuvred == 0.0)))
    wrong = due & (head_on | (known.role == GIVE_WAY)) & (known.side < 0.0)
    wrong = wrong | (head_on & past & (known.side == 0.0))
    stands_on = (known.role == STAND_ON) | (known.role == OVERTAKEN)
    off, share = _deviation(known, frame)
    leaves = (off.abs() >= rules.stand_on_turn) | ((share - 1.0).abs() >= rules.substantial_slowing)
    left = meets & stands_on & (known.may_act == HELD) & leaves
    flags = {"is_late": late, "on_wrong_side": wrong, "has_left": left}
    return known._replace(**{name: getattr(known, name).maximum(flag.to(off.dtype)) for name, flag in flags.items()})


def steps_of(time: float, control_step: float) -> int:
    """Return the number of control steps of a time (s), rounded to the nearest."""
    return round(time / control_step)
