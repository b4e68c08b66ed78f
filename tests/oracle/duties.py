"""Duties of one vessel towards others, followed frame by frame."""

import math
from collections.abc import Sequence

from .angles import wrap_pi
from .roles import meet, role
from .seamanship import risk

Frame = Sequence[float]
"""x, y, heading, v_x, v_y."""


class Encounter:
    """What is known of the encounter with one other vessel; see marinenav_env.rules.duties."""

    def __init__(self, reach: float, contact: float) -> None:
        self.reach, self.contact = reach, contact
        self.role, self.side, self.acted, self.free, self.broken = "none", 0.0, False, False, False

    def see(self, own: Frame, other: Frame, domain: float = 8.0, horizon: float = 20.0, until: float = 10.0) -> None:
        """Note a frame; ``judge`` follows when the roles towards all others are known."""
        met, speed = meet(own, other), math.hypot(*own[3:])
        begins = self.role == "none" and risk(met, self.reach, domain, horizon)
        if begins:
            self.role, self.began, self.speed, self.course = role(met), own[2], speed, other[2]
            self.soon = min(until, 0.5 * (met.distance + self.contact))
            self.nearest = met.distance
        bearing = (
            wrap_pi(math.atan2(own[1] - other[1], own[0] - other[0]) - self.course) if self.role != "none" else 0.0
        )
        self.crosses = False
        if self.role != "none" and not begins:
            ahead = bearing * self.bearing <= 0.0 and abs(bearing) < 0.5 * math.pi
            self.crosses = ahead and met.distance <= self.reach
            self.free = self.free or met.distance < until or abs(met.dcpa) >= domain
            self.nearest = min(self.nearest, met.distance)
        self.bearing, self.met, self.now, self.heading = bearing, met, speed, own[2]

    @property
    def keeps_clear(self) -> bool:
        return self.role in ("head-on", "give-way", "overtaking")

    def judge(self, free: bool) -> None:
        """Note what the frame breaks; ``free``: has to keep clear of nobody."""
        if self.role == "none":
            return
        nearest = self.met.distance == self.nearest
        apart = self.met.distance >= 1.1 * self.nearest
        ahead = self.role in ("head-on", "overtaking") and abs(self.met.bearing) < 0.5 * math.pi
        past = self.met.tcpa <= 0.0 and (apart or not ahead)
        off, share = wrap_pi(self.heading - self.began), self.now / max(self.speed, 1e-6)
        turned, slowed = abs(off) >= math.radians(15.0), share < 0.7
        acted = self.acted
        if nearest:
            if turned and self.side == 0.0:
                self.side = math.copysign(1.0, off)
            self.acted = self.acted or turned or slowed
        if self.keeps_clear and nearest and not acted and self.met.distance < self.soon:
            self.broken = True
        if self.keeps_clear and past and not self.acted:
            self.broken = True
        if self.role in ("head-on", "give-way") and self.side < 0.0:
            self.broken = True
        if self.role == "head-on" and past and self.side == 0.0:
            self.broken = True
        if self.role == "give-way" and self.crosses:
            self.broken = True
        holds = self.role in ("stand-on", "overtaken") and free and not self.free and nearest
        if holds and (turned or abs(share - 1.0) >= 0.3):
            self.broken = True
