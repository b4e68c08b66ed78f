"""Duties of vessels in encounters, followed from step to step: which are broken, and when.

An encounter of two vessels begins when one sees the other and there is a risk of collision (``domain`` and
``horizon`` of ``world.colregs``). The roles at that moment hold for the rest of the episode. evaluation.seamanship
applies nearly the same definitions to whole recordings, which show when vessels come closest and which third vessels
they will encounter. Here the closest approach is the nearest distance so far, vessels that move apart count as past
each other, and a duty that is still open at an arrival or a collision is not broken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import ColregsConfig
from marinenav_env.physics.dynamics import wrap_to_pi
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
from marinenav_env.state import Parameters, Scenario, State

SUBSTANTIAL_TURN, SUBSTANTIAL_SLOWING = math.radians(15.0), 0.3
"""Smallest change of course (rad) and smallest reduction of speed (share of the initial speed) that count as a
substantial manoeuvre; the change of course and speed of a stand-on vessel must stay below both."""
PASSED_DISTANCE_RATIO = 1.1
"""Multiple of the nearest distance at which vessels that move apart count as past each other, even if one is ahead of
the other (1)."""


class DutyState(NamedTuple):
    """Duties of every vessel (first axis, own) towards every other (second axis), all [R, R, E]."""

    role: Tensor
    """Role of the own vessel when the encounter began, a number of rules.roles; 0: no encounter has begun."""
    late_distance: Tensor
    """Distance between the centres below which a manoeuvre is no longer early (m): the one at which half of the first
    gap between the hulls is left, but at most ``colregs.stand_on_until``, below which the other may act itself."""
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
    """1 once the own vessel no longer has to stand on, else 0."""
    is_broken: Tensor
    """1 if the duty is broken, else 0."""


def initial_duties(scenario: Scenario) -> Tensor:
    """Return the duties before an episode, all 0: [E, R (other), R (own), F], with the F fields of DutyState."""
    envs, robots = scenario.robot_mask.shape
    return scenario.goal.new_zeros(envs, robots, robots, len(DutyState._fields))


def newly_broken_duties(before: Tensor, after: Tensor) -> Tensor:
    """Return which vessels broke a duty in a step, [R, E] bool, from the duties before and after it."""
    was, now = (DutyState(*env_last(duties)).is_broken > 0.0 for duties in (before, after))
    return (now & ~was).any(1)


def update_duties(duties: Tensor, state: State, active: Tensor, parameters: Parameters, rules: ColregsConfig) -> Tensor:
    """Return the duties of all pairs of vessels after a step.

    The result is [E, R (other), R (own), F]; the last dimension has the F fields of DutyState in their order.
    ``duties`` are those before the step, ``state`` that after the motion or at the start of an episode, and ``active``
    [E, R] says which robots were active before the step.
    """
    seen, here = relative_motion(state.pose, state.velocity_ground), env_last(active)
    present = here & here[:, None] & (seen.distance > 0.0)
    vessel, heading = parameters.vessel, env_last(state.pose)[2]
    radius, detected = env_last(vessel.radius), env_last(vessel.detect_radius)
    visible = present & (seen.distance <= env_last(parameters.sensor.range)[:, None] + detected)
    vx, vy, _ = env_last(state.velocity_ground)
    contact = radius + radius[:, None]
    own, speed, other = (
        values.expand_as(seen.distance)
        for values in (heading[:, None], torch.sqrt(vx * vx + vy * vy)[:, None], heading)
    )
    known = DutyState(*env_last(duties))
    risk = visible & (seen.tcpa > 0.0) & (seen.tcpa <= rules.horizon) & (seen.dcpa.abs() < rules.domain)
    begins = risk & (known.role == 0.0)
    first = {
        "role": roles(seen).to(speed.dtype),
        "late_distance": (0.5 * (seen.distance + contact)).clamp_max(rules.stand_on_until),
        "nearest": seen.distance,
        "heading": own,
        "speed": speed,
        "other_heading": other,
    }
    started = known._replace(**{name: torch.where(begins, new, getattr(known, name)) for name, new in first.items()})
    aspect = wrap_to_pi(seen.aspect + other - started.other_heading)
    crosses = visible & ~begins & (aspect * known.aspect <= 0.0) & (aspect.abs() < 0.5 * math.pi)
    near = (seen.distance < rules.stand_on_until) | (seen.dcpa.abs() >= rules.domain)
    freed = present & (started.role > 0.0) & ~begins & near
    nearest = torch.where(present, started.nearest.minimum(seen.distance), started.nearest)
    may_act = started.may_act.maximum(freed.to(speed.dtype))
    started = started._replace(nearest=nearest, aspect=aspect, may_act=may_act)
    return stack_last(_apply_manoeuvres(started, seen, present, own, speed, crosses))


def _apply_manoeuvres(
    known: DutyState, seen: RelativeMotion, present: Tensor, own: Tensor, speed: Tensor, crosses: Tensor
) -> DutyState:
    """Return duties after the manoeuvres of a step; ``crosses``: the own vessel passes ahead of the other."""
    head_on, gives_way, overtakes = (known.role == role for role in (HEAD_ON, GIVE_WAY, OVERTAKING))
    keeps_clear = head_on | gives_way | overtakes
    due, closing = present & (known.role > 0.0), seen.tcpa > 0.0
    # What a vessel does after the closest approach does not count, unless the vessels come still closer.
    meets = due & (seen.distance <= known.nearest)
    # A vessel that has slowed down or stopped is not past one ahead of it, unless that one moves away.
    faces = (
        (head_on | overtakes)
        & (seen.bearing.abs() < 0.5 * math.pi)
        & (seen.distance < PASSED_DISTANCE_RATIO * known.nearest)
    )
    past = due & ~closing & ~faces
    off, share = wrap_to_pi(own - known.heading), speed / known.speed.clamp_min(1e-6)
    turned = meets & (off.abs() >= SUBSTANTIAL_TURN)
    side = torch.where(turned & (known.side == 0.0), off.sign(), known.side)
    acted = (known.has_manoeuvred > 0.0) | turned | (meets & (share < 1.0 - SUBSTANTIAL_SLOWING))
    # A manoeuvre of this step is late if the vessels are already too close.
    too_close = (known.has_manoeuvred == 0.0) & meets & (seen.distance < known.late_distance)
    late = keeps_clear & (too_close | (past & ~acted))
    wrong_side = ((head_on | gives_way) & (side < 0.0)) | (head_on & past & (side == 0.0))
    # A vessel that has to keep clear of any other need not stand on.
    stands_on = ((known.role == STAND_ON) | (known.role == OVERTAKEN)) & ~keeps_clear.any(1, keepdim=True)
    leaves = (off.abs() >= SUBSTANTIAL_TURN) | ((share - 1.0).abs() >= SUBSTANTIAL_SLOWING)
    left = meets & stands_on & (known.may_act == 0.0) & leaves
    broken = late | (due & wrong_side) | (gives_way & crosses) | left
    flags = acted, (known.is_broken > 0.0) | broken
    has_manoeuvred, is_broken = (flag.to(speed.dtype) for flag in flags)
    return known._replace(side=side, has_manoeuvred=has_manoeuvred, is_broken=is_broken)
