"""What a vessel did towards another, from their tracks, frame by frame."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .angles import wrap_pi
from .roles import Meeting, meet, role

Frame = Sequence[float]
"""x, y, heading, v_x, v_y."""


@dataclass(frozen=True)
class Did:
    """See train_RL_agents.evaluation.seamanship.Duties."""

    role: str
    acted_substantially: bool = False
    acted_early: bool = False
    turned_right_side: bool = True
    crossed_ahead: bool = False
    stood_on: bool = True


def risk(met: Meeting, reach: float, domain: float, horizon: float) -> bool:
    """Whether there is a risk of collision with a vessel in sight."""
    return met.distance <= reach and 0.0 < met.tcpa <= horizon and abs(met.dcpa) < domain


def duty(
    own: Sequence[Frame],
    other: Sequence[Frame],
    reach: float,
    contact: float,
    domain: float = 8.0,
    horizon: float = 20.0,
    until: float = 10.0,
) -> Did:
    """What the own vessel did, over the frames in which both are there."""
    met = [meet(one, two) for one, two in zip(own, other, strict=True)]
    began = next((k for k, each in enumerate(met) if risk(each, reach, domain, horizon)), None)
    if began is None:
        return Did("none")
    distances = [each.distance for each in met]
    closest = distances.index(min(distances[began:]), began)
    speed = math.hypot(*own[began][3:])
    first_turn, acted_at, held, stood_on = 0.0, None, True, True
    for k in range(began, closest + 1):
        turn = math.degrees(wrap_pi(own[k][2] - own[began][2]))
        share = math.hypot(*own[k][3:]) / speed
        if abs(turn) >= 15.0 and first_turn == 0.0:
            first_turn = turn
        if acted_at is None and (abs(turn) >= 15.0 or share < 0.7):
            acted_at = distances[k]
        held = held and (k == began or (distances[k] >= until and abs(met[k].dcpa) < domain))
        if held and (abs(turn) >= 15.0 or abs(share - 1.0) >= 0.3):
            stood_on = False
    kind = role(met[began])
    soon = min(until, 0.5 * (distances[began] + contact))
    return Did(
        kind,
        acted_substantially=acted_at is not None,
        acted_early=acted_at is not None and acted_at >= soon,
        turned_right_side=first_turn > 0.0 if kind == "head-on" else first_turn >= 0.0,
        crossed_ahead=any(
            distances[k] <= reach and _passes_ahead(own[k - 1 : k + 1], other[k - 1 : k + 1], other[began][2])
            for k in range(began + 1, len(own))
        ),
        stood_on=stood_on,
    )


def _passes_ahead(own: Sequence[Frame], other: Sequence[Frame], course: float) -> bool:
    """Whether the bearing from the other's first course changes sign ahead of it."""
    before, after = (
        wrap_pi(math.atan2(one[1] - two[1], one[0] - two[0]) - course) for one, two in zip(own, other, strict=True)
    )
    return before * after <= 0.0 and abs(after) < 0.5 * math.pi
