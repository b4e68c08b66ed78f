"""The life of an encounter of one vessel with another, frame by frame; see docs/evaluation.md."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from .angles import wrap_pi
from .roles import meet, role

Frame = Sequence[float]
"""x, y, heading, v_x, v_y."""
KEEPS_CLEAR, STANDS_ON = ("head-on", "give-way", "overtaking"), ("stand-on", "overtaken")


class Encounter:
    """State of the encounter with one other vessel.

    Args:
        reach: distance within which the other is seen.
        contact: distance at which the hulls touch.
        rules: definitions, with the names of ColregsConfig.
        step: length of a control step (s).
    """

    def __init__(self, reach: float, contact: float, rules: Any, step: float = 0.5) -> None:
        self.reach, self.contact, self.rules, self.step = reach, contact, rules, step
        self.phase, self.now = "none", SimpleNamespace(role="none")

    @property
    def is_open(self) -> bool:
        """Return whether the encounter goes on."""
        return self.phase in ("candidate", "confirmed")

    @property
    def keeps_clear(self) -> bool:
        """Return whether the own vessel has to keep out of the way."""
        return self.is_open and self.now.role in KEEPS_CLEAR

    @property
    def broken(self) -> bool:
        """Return whether the own vessel has broken its duty."""
        now = self.now
        if self.phase not in ("confirmed", "past"):
            return False
        return now.late or now.wrong or now.left or now.touched or (now.ahead and now.role == "give-way")

    def see(self, own: Frame, other: Frame) -> None:
        """Note a frame; ``judge`` follows when the roles towards all others are known."""
        if not self.is_open:
            self.phase = "none"
        met, rules = meet(own, other), self.rules
        touches, visible = met.distance <= self.contact, met.distance <= self.reach
        close = abs(met.dcpa) < rules.domain
        self.risk = touches or (visible and 0.0 < met.tcpa <= rules.horizon and close)
        self.begins = self.phase == "none" and self.risk
        if self.begins:
            angles = rules.stern_bearing, rules.overtaking_bearing, rules.head_on_courses
            self.phase = "candidate"
            self.now = SimpleNamespace(
                role=role(met, *angles), heading=own[2], speed=math.hypot(*own[3:]), course=other[2],
                nearest=met.distance, risky=0, since=0, apart=0, side=0, acted=False, free=False, released=False,
                late=False, wrong=False, ahead=False, left=False, touched=False, soon=0.0,
            )  # fmt: skip
        self.own, self.met, self.visible, self.touches = own, met, visible, touches
        if self.phase == "none":
            return
        now = self.now
        bearing = wrap_pi(math.atan2(own[1] - other[1], own[0] - other[0]) - now.course)
        if not self.begins:
            now.risky, now.since = now.risky + 1, now.since + 1
            if visible and bearing * now.bearing <= 0.0 and abs(bearing) < 0.5 * math.pi:
                now.ahead = True
            if met.distance < rules.stand_on_until or not close:
                now.free = True
        now.bearing, now.nearest = bearing, min(now.nearest, met.distance)
        now.touched = now.touched or touches

    def lose(self) -> None:
        """Note a frame in which one of the two is not there."""
        self.phase = {"candidate": "fleeting", "confirmed": "past"}.get(self.phase, "none")

    def judge(self, others_to_clear: bool) -> None:
        """Note what the frame confirms, ends and breaks; the argument: keeps clear of somebody."""
        if self.phase == "none":
            return
        now, met, rules = self.now, self.met, self.rules
        now.released = now.released or others_to_clear
        turn = wrap_pi(self.own[2] - now.heading)
        share = math.hypot(*self.own[3:]) / max(now.speed, 1e-6)
        nearest, acted_before = met.distance == now.nearest, now.acted
        if nearest and abs(turn) >= rules.substantial_turn:
            now.acted, now.side = True, now.side or int(math.copysign(1.0, turn))
        if nearest and share < 1.0 - rules.substantial_slowing:
            now.acted = True
        now.apart = now.apart + 1 if met.tcpa <= 0.0 and met.distance > now.nearest else 0
        if self.phase == "confirmed" and self.is_past():
            self.phase = "past"
        elif self.phase == "candidate":
            self.leave_candidate()
        if self.phase not in ("confirmed", "past"):
            return
        past = self.phase == "past"
        if now.role in KEEPS_CLEAR and not now.acted:
            overdue = rules.act_within > 0.0 and now.since * self.step > rules.act_within
            now.late = now.late or past or overdue
        if now.role in KEEPS_CLEAR and nearest and not acted_before and met.distance < now.soon:
            now.late = True
        if now.role in ("head-on", "give-way") and now.side < 0:
            now.wrong = True
        if now.role == "head-on" and past and now.side == 0:
            now.wrong = True
        leaves = abs(turn) >= rules.stand_on_turn or abs(share - 1.0) >= rules.substantial_slowing
        if now.role in STANDS_ON and nearest and leaves and not (now.free or now.released):
            now.left = True

    def leave_candidate(self) -> None:
        """Confirm the encounter, end it as fleeting, or leave it as it is."""
        now, met, rules = self.now, self.met, self.rules
        if self.risk:
            urgent = self.touches or met.tcpa <= rules.urgent_time or met.distance < rules.urgent_distance
            confirmed = urgent or now.risky * self.step >= rules.confirm
        else:
            confirmed = now.acted and now.role in KEEPS_CLEAR
            self.phase = "fleeting"
        if confirmed:
            self.phase, now.since = "confirmed", 0
            now.soon = min(rules.stand_on_until, (met.distance + self.contact) / 2.0)

    def is_past(self) -> bool:
        """Return whether the vessels are past and clear."""
        if self.now.apart * self.step < self.rules.clear_time:
            return False
        if not self.visible:
            return True
        passed = abs(self.met.aspect if self.now.role == "overtaken" else self.met.bearing) > 0.5 * math.pi
        return (passed or self.now.role in ("give-way", "stand-on")) and self.met.distance >= self.rules.clear_distance


def follow(encounters: dict[tuple[int, int], Encounter], frames: Sequence[Frame | None]) -> None:
    """Note a frame of all vessels, None of those that are not there, in the encounters (of one, with another)."""
    there = []
    for (one, two), each in encounters.items():
        own, other = frames[one], frames[two]
        if own is None or other is None:
            each.lose()
        else:
            each.see(own, other)
            there.append((one, each))
    clear = {one for one, each in there if each.keeps_clear}
    for one, each in there:
        each.judge(one in clear)
