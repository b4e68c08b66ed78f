"""What vessels do that nobody controls, one vessel at a time (docs/world.md, vessels that misbehave)."""

import math

from .dynamics import State, VesselParams

TURN, TURN_SECONDS, SPEED, FULL, SLOW = math.radians(60.0), 8.0, 2.0, 10.0, 0.6


def commands(
    state: State, wanted: tuple[float, float], vessel: VesselParams, seconds: float, full: float
) -> list[float]:
    """Thrust rates (N/s) towards a velocity in the body frame: yaw first, surge with what is left."""
    theta, (vx, vy, r), (left, right) = state[2], state[6:9], state[9:11]
    u, v = math.cos(theta) * vx + math.sin(theta) * vy, math.cos(theta) * vy - math.sin(theta) * vx
    speed = math.hypot(*wanted)
    off = math.atan2(wanted[1] - 0.5 * v, wanted[0]) * min(speed / 0.2, 1.0)
    yaw_rate = min(max(1.2 * off, -0.8), 0.8)
    surge = speed * max(math.cos(off), 0.0)
    force = (vessel.m - vessel.xDotU) * (surge - u) / 0.75 - (vessel.xU + vessel.xUU * abs(u)) * u
    moment = (vessel.Izz - vessel.nDotR) * (yaw_rate - r) / 0.75 - (vessel.nR + vessel.nRR * abs(r)) * r
    least, most = vessel.min_thrust, vessel.max_thrust
    difference = min(max(2.0 * moment / vessel.width, least - most), most - least)
    total = min(max(force, 2.0 * least + abs(difference)), 2.0 * most - abs(difference))
    change = full * seconds
    sides = (((total + sign * difference) / 2.0 - now) / change for sign, now in ((1.0, left), (-1.0, right)))
    return [full * min(max(side, -1.0), 1.0) for side in sides]


def rates(
    name: str,
    time: float,
    onset: float,
    state: State,
    goal: tuple[float, float],
    first_heading: float,
    first_speed: float,
    vessel: VesselParams,
    full: float,
) -> list[float]:
    """Thrust rates (N/s) of a vessel with a behaviour, at a time since the start of the episode (s)."""
    if name == "keep" or (time < onset and name != "see_nothing"):
        return [0.0, 0.0]
    x, y, theta = state[:3]
    seconds = vessel.dt * vessel.substeps
    speed = first_speed if first_speed > 0.0 else SPEED

    def towards(course: float, speed: float) -> list[float]:
        wanted = speed * math.cos(course - theta), speed * math.sin(course - theta)
        return commands(state, wanted, vessel, seconds, full)

    if name == "lose_left":
        return [-state[9] / seconds, 0.0]
    if name == "lose_right":
        return [0.0, -state[10] / seconds]
    if name == "stop":
        ahead = math.cos(theta) * state[6] + math.sin(theta) * state[7]
        return [-full, -full] if ahead > SLOW else towards(0.0, 0.0)
    if name == "speed_up":
        return towards(first_heading, FULL)
    turn = {"act_late": TURN, "turn_wrong": -TURN}.get(name)
    if turn is not None and time - onset < TURN_SECONDS:
        return towards(first_heading + turn, speed)
    return towards(math.atan2(goal[1] - y, goal[0] - x), speed)
