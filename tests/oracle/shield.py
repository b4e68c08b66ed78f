"""The safety shield of one vessel: manoeuvres, their shortfalls, and the choice among them."""

import math

from .dynamics import VesselParams, control_step
from .shores import distance

HORIZON, SUBSTEPS, MARGIN, TOLERANCE, LAND_WEIGHT = 28, 2, 0.4, 1e-4, 4.0
STOP = None
"""Command that brings the thrusts to zero."""


def plans():
    """All manoeuvres as lists of commands (left, right), the one that keeps the thrust first."""
    rows = []
    for steps in (2, 4):
        for left in (0.0, 1.0, -1.0):
            for right in (0.0, -1.0, 1.0):
                for last in ((0.0, 0.0), (1.0, 1.0), STOP):
                    if (left, right, last) != (-1.0, -1.0, (0.0, 0.0)):
                        rows.append([(left, right)] * steps + [last] * (HORIZON - steps))
    return rows


def track(own, commands, seconds, rate=1000.0, **vessel):
    """Positions at the end of every control step, in the body frame of the start."""
    params = VesselParams(dt=seconds / SUBSTEPS, substeps=SUBSTEPS, **vessel)
    _, _, u, v, r, left, right = own
    state, places = [0.0, 0.0, 0.0, u, v, r, u, v, r, left, right], []
    for command in commands:
        if command is STOP:
            command = [min(max(-thrust / (rate * seconds), -1.0), 1.0) for thrust in state[9:]]
        state = control_step(state, params, (rate * command[0], rate * command[1]), [], 1.0)
        places.append((state[0], state[1]))
    return places


def shortfall(own, objects, contacts, margin, commands, seconds, shores=(), radius=0.0, **vessel):
    """By how much the gap of a plan to some object or shore falls short of what is asked for."""
    worst = 0.0
    places = track(own, commands[:HORIZON], seconds, **vessel)
    for (x, y, vx, vy, _), contact in zip(objects, contacts, strict=True):
        start = math.hypot(x, y)
        least = start
        for number, (px, py) in enumerate(places, 1):
            time = number * seconds
            least = min(least, math.hypot(x + time * vx - px, y + time * vy - py))
        worst = max(worst, min(start, contact + margin) - least)
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
