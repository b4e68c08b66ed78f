"""The safety shield of one vessel: manoeuvres, their shortfalls, and the choice among them."""

import math

from .dynamics import VesselParams, control_step
from .shores import distance

HORIZON, SUBSTEPS, MARGIN, GROWTH, TOLERANCE, LAND_WEIGHT = 28, 2, 0.4, 0.01, 1e-4, 4.0
STOP = None
"""Command that brings the thrusts to zero."""


def plans():
    """All manoeuvres as lists of commands (left, right), the one that keeps the thrust first."""
    rows = []
    for steps in (2, 4, 8):
        for left in (0.0, 1.0, -1.0):
            for right in (0.0, -1.0, 1.0):
                for last in ((0.0, 0.0), (1.0, 1.0), STOP, (-1.0, -1.0)):
                    rows.append([(left, right)] * steps + [last] * (HORIZON - steps))
    return rows


def track(own, commands, seconds, rate=1000.0, **vessel):
    """Positions at the end of every control step, in the body frame of the start, and the last velocity."""
    params = VesselParams(dt=seconds / SUBSTEPS, substeps=SUBSTEPS, **vessel)
    _, _, u, v, r, left, right = own
    state, places = [0.0, 0.0, 0.0, u, v, r, u, v, r, left, right], []
    for command in commands:
        if command is STOP:
            command = [min(max(-thrust / (rate * seconds), -1.0), 1.0) for thrust in state[9:]]
        state = control_step(state, params, (rate * command[0], rate * command[1]), [], 1.0)
        places.append((state[0], state[1]))
    return places, state[3:5]


def shortfall(own, objects, contacts, margin, commands, seconds, shores, radius, **vessel):
    """By how much the gap of a plan to some object or shore falls short of what is asked for."""
    worst = 0.0
    places, (own_vx, own_vy) = track(own, commands[:HORIZON], seconds, **vessel)
    for (x, y, vx, vy, _), contact in zip(objects, contacts, strict=True):
        start = math.hypot(x, y)
        for number, (px, py) in enumerate(places, 1):
            time, wanted = number * seconds, min(start, contact + margin + number * GROWTH * radius)
            worst = max(worst, wanted - math.hypot(x + time * vx - px, y + time * vy - py))
        x, y = x + time * vx - px, y + time * vy - py
        way = x, y, x + time * (vx - own_vx), y + time * (vy - own_vy)
        worst = max(worst, wanted - distance((0.0, 0.0), way))
    for begin, end in shores:
        start = distance((0.0, 0.0), (*begin, *end))
        least = min(start, *(distance(place, (*begin, *end)) for place in places))
        worst = max(worst, LAND_WEIGHT * (min(start, radius + margin) - least))
    return worst


def guard(command, own, objects, contacts, radius, seconds, shores=(), **vessel):
    """A command after which an escape is left, and whether it is another one."""
    vessel |= {"shores": shores, "radius": radius}
    margin = MARGIN * radius
    everything = own, objects, contacts, margin
    after = [shortfall(*everything, [command, *plan], seconds, **vessel) for plan in plans()]
    now = [shortfall(*everything, plan, seconds, **vessel) for plan in plans()]
    if min(after) - min(now) <= TOLERANCE:
        return command, False
    far = [(plan[0][0] - command[0]) ** 2 + (plan[0][1] - command[1]) ** 2 for plan in plans()]
    safe = [number for number, short in enumerate(now) if short <= TOLERANCE]
    best = min(safe, key=far.__getitem__) if safe else min(range(len(now)), key=now.__getitem__)
    return plans()[best][0], True
