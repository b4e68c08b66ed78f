"""An episode in the whole world (world specification, all sections)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .angles import wrap_two_pi
from .colregs import ColregsParams, turn_angle
from .contact import touches
from .current import Core
from .dynamics import State, VesselParams, control_step
from .perception import ObjectNoise, Obstacle, Robot, Sensor, goal_distance, observe, reached
from .reward import RewardParams, endings, reward

Values = Sequence[float]
# (number of control steps taken, index of the ego) -> noise as perception.sightings takes it
NoiseSource = Callable[[int, int], Sequence[ObjectNoise]]

FULL_RATE = 1000.0  # N/s that a continuous command of 1 stands for


@dataclass(frozen=True)
class Member:
    """The fixed parameters of one robot, but for those of Robot."""

    vessel: VesselParams
    sensor: Sensor
    goal_radius: float
    power_coefficient: float


def initial_state(pose: Values, velocity: Values, thrust: Values, current: Values) -> State:
    """State after reset: the initial velocity is through the water; v_g adds the current."""
    v_x, v_y, yaw_rate = velocity
    over_ground = (v_x + current[0], v_y + current[1], yaw_rate)
    return [*pose[:2], wrap_two_pi(pose[2]), *velocity, *over_ground, *thrust]


@dataclass
class World:
    """All robots of one episode; `robots[i].active` is false from the step that ended robot i."""

    members: list[Member]
    robots: list[Robot]
    cores: list[Core]
    core_radius: float
    obstacles: list[Obstacle]
    rewards: RewardParams
    noise: NoiseSource

    def __post_init__(self) -> None:
        self.has_collided = [False] * len(self.members)
        self.has_reached = [False] * len(self.members)

    def perceive(self, t: int, i: int) -> dict[str, Any]:
        """What active robot i perceives after t control steps, and its COLREGs term."""
        sensor, radius = self.members[i].sensor, self.robots[i].radius
        self_state, objects, mask = observe(i, self.robots, self.obstacles, sensor, self.noise(t, i))
        own_velocity = (self_state[2], self_state[3])
        applies, phi = turn_angle(objects, mask, own_velocity, radius, ColregsParams())
        return {
            "self_obs": self_state,
            "objects": objects,
            "mask": mask,
            "colregs": applies,
            "phi": phi,
            "collided": touches(i, self.robots, self.obstacles),
        }

    def nothing(self, i: int) -> dict[str, Any]:
        """The observation of a robot that had ended."""
        size = self.members[i].sensor.max_objects
        return {
            "self_obs": [0.0] * 7,
            "objects": [[0.0] * 5 for _ in range(size)],
            "mask": [False] * size,
            "colregs": False,
            "phi": 0.0,
        }

    def step(self, t: int, actions: Sequence[Any], max_steps: int) -> list[dict[str, Any]]:
        """Control step number t (the first is 1): all robots move, then all perceive, then end."""
        was_active = [robot.active for robot in self.robots]
        before = [goal_distance(robot) for robot in self.robots]
        for i, robot in enumerate(self.robots):
            if was_active[i]:
                member = self.members[i]
                rates = FULL_RATE * actions[i][0], FULL_RATE * actions[i][1]
                robot.state = control_step(robot.state, member.vessel, rates, self.cores, self.core_radius)
        # Robots that end in this step are still seen in it, so nobody is deactivated yet.
        rows = [self.perceive(t, i) if was_active[i] else self.nothing(i) for i in range(len(before))]
        for i, (robot, row) in enumerate(zip(self.robots, rows, strict=True)):
            row["reward"], row["energy"] = 0.0, 0.0
            if was_active[i]:
                self.settle(t, i, before[i], row, max_steps)
            row["done"] = not robot.active
            row["collision"] = self.has_collided[i]
            row["reach_goal"] = self.has_reached[i]
            row["deactivated"] = self.has_collided[i] or self.has_reached[i]
        return rows

    def settle(self, t: int, i: int, before: float, row: dict[str, Any], max_steps: int) -> None:
        """Reward, energy and ending of a robot that was active in step t."""
        robot, member = self.robots[i], self.members[i]
        arrived = reached(robot, member.goal_radius)
        after = goal_distance(robot)
        row["reward"] = reward(before, after, row["phi"], row["collided"], arrived, self.rewards)
        duration = member.vessel.dt * member.vessel.substeps
        thrust = abs(robot.state[9]) + abs(robot.state[10])
        row["energy"] = member.power_coefficient * thrust * duration
        ending = endings(row["collided"], arrived, t, max_steps)
        self.has_collided[i] = row["collided"]
        self.has_reached[i] = arrived and not row["collided"]
        robot.active = not (ending.terminated or ending.truncated)
