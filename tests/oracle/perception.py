"""What one vessel perceives (world specification, section Perception)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .angles import to_body

Obstacle = tuple[float, float, float]  # x, y, radius
# Four standard normals (position x, y, velocity x, y; world axes) and one von Mises angle.
ObjectNoise = tuple[float, float, float, float, float]
NO_NOISE: ObjectNoise = (0.0, 0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Sensor:
    """One robot's perception; the defaults are those of the world specification."""

    range: float = 20.0
    angle: float = 2.0 * math.pi
    max_objects: int = 5
    pos_std: float = 0.05
    vel_std: float = 0.05
    r_mean_ratio: float = 0.8
    r_kappa: float = 1.0  # of the von Mises angle, which the caller draws


@dataclass
class Robot:
    """What perception and contact need to know of a vessel; state is laid out as in dynamics."""

    state: Sequence[float]
    goal: tuple[float, float]
    radius: float = 0.5 * math.hypot(5.0, 2.5)  # of contact
    detect_radius: float = 0.5 * math.hypot(5.0, 2.5)  # what the others observe
    active: bool = True


def sightings(
    ego_index: int,
    robots: Sequence[Robot],
    obstacles: Sequence[Obstacle],
    sensor: Sensor,
    noise: Sequence[ObjectNoise] | None = None,
) -> list[list[float]]:
    """Every seen object: the obstacles in order, then the other active robots in order.

    Of each p_x, p_y, v_x, v_y in the ego's body frame, and the radius.

    noise has one entry for each obstacle and then one for each robot (the ego's and those of
    inactive robots are not used), so that an object keeps its noise whichever others are present.
    None is zero noise, under which the radius is still scaled by r_mean_ratio.
    """
    ego = robots[ego_index]
    ego_x, ego_y, theta = ego.state[0], ego.state[1], ego.state[2]

    # x, y, velocity x, y, radius, index of the noise
    things = [(x, y, 0.0, 0.0, r, i) for i, (x, y, r) in enumerate(obstacles)]
    for j, robot in enumerate(robots):
        if j != ego_index and robot.active:
            s = robot.state
            things.append((s[0], s[1], s[6], s[7], robot.detect_radius, len(obstacles) + j))

    seen = []
    for x, y, v_x, v_y, observed_radius, index in things:
        n = NO_NOISE if noise is None else noise[index]
        noisy_x, noisy_y = x + sensor.pos_std * n[0], y + sensor.pos_std * n[1]
        noisy_v_x, noisy_v_y = v_x + sensor.vel_std * n[2], v_y + sensor.vel_std * n[3]
        ratio = sensor.r_mean_ratio
        radius = ratio * observed_radius + (1.0 - ratio) * observed_radius * n[4] / math.pi

        p_x, p_y = to_body(theta, noisy_x - ego_x, noisy_y - ego_y)
        body_v_x, body_v_y = to_body(theta, noisy_v_x, noisy_v_y)
        in_range = math.hypot(p_x, p_y) <= sensor.range + radius
        in_sector = abs(math.atan2(p_y, p_x)) <= sensor.angle / 2.0
        if in_range and in_sector:
            seen.append([p_x, p_y, body_v_x, body_v_y, radius])
    return seen


def observe(
    ego_index: int,
    robots: Sequence[Robot],
    obstacles: Sequence[Obstacle],
    sensor: Sensor,
    noise: Sequence[ObjectNoise] | None = None,
) -> tuple[list[float], list[list[float]], list[bool]]:
    """(self state, kept objects, mask); noise as for sightings."""
    ego = robots[ego_index]
    x, y, theta = ego.state[0], ego.state[1], ego.state[2]
    goal_x, goal_y = to_body(theta, ego.goal[0] - x, ego.goal[1] - y)
    u, v = to_body(theta, ego.state[6], ego.state[7])
    self_state = [goal_x, goal_y, u, v, ego.state[8], ego.state[9], ego.state[10]]

    objects = sightings(ego_index, robots, obstacles, sensor, noise)
    objects.sort(key=lambda o: math.hypot(o[0], o[1]) - o[4])
    objects = objects[: sensor.max_objects]
    missing = sensor.max_objects - len(objects)
    mask = [True] * len(objects) + [False] * missing
    return self_state, objects + [[0.0] * 5 for _ in range(missing)], mask


def goal_distance(robot: Robot) -> float:
    """Distance from the robot to its goal."""
    return math.hypot(robot.goal[0] - robot.state[0], robot.goal[1] - robot.state[1])


def reached(robot: Robot, goal_radius: float = 2.0) -> bool:
    """Whether the robot is at its goal."""
    return goal_distance(robot) <= goal_radius
