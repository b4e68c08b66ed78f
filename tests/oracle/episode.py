"""A scenario-file config in the whole world (world specification, all sections)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .angles import wrap_two_pi
from .colregs import ColregsParams, turn_angle
from .contact import touches
from .current import Core, current_at
from .dynamics import State, VesselParams, control_step
from .perception import ObjectNoise, Obstacle, Robot, Sensor, goal_distance, observe, reached
from .reward import RewardParams, endings, reward

Config = dict[str, Any]
# (number of control steps taken, index of the ego) -> noise as perception.sightings takes it
NoiseSource = Callable[[int, int], Sequence[ObjectNoise]]

FULL_RATE = 1000.0  # N/s that a continuous command of 1 stands for

# fmt: off
HYDRODYNAMICS = (
    "m", "Izz", "xDotU", "yDotV", "yDotR", "nDotV", "nDotR",
    "xU", "xUU", "yV", "yVV", "yR", "yRV", "yVR", "yRR",
    "nR", "nRR", "nV", "nVV", "nRV", "nVR",
)
# fmt: on


@dataclass(frozen=True)
class Member:
    """The fixed parameters of one robot of a scenario file."""

    vessel: VesselParams
    sensor: Sensor
    goal: tuple[float, float]
    radius: float
    detect_radius: float
    goal_radius: float
    power_coefficient: float


def read_member(robots: Config, i: int) -> Member:
    """Robot i of the `robots` part of a scenario file."""
    hydrodynamics = {name: float(robots[name][i]) for name in HYDRODYNAMICS}
    vessel = VesselParams(
        dt=robots["dt"][i],
        substeps=robots["N"][i],
        length=robots["length"][i],
        width=robots["width"][i],
        left_angle=robots["init_left_pos"][i],
        right_angle=robots["init_right_pos"][i],
        min_thrust=robots["min_thrust"][i],
        max_thrust=robots["max_thrust"][i],
        **hydrodynamics,
    )
    seen = robots["perception"]
    sensor = Sensor(
        range=seen["range"][i],
        angle=seen["angle"][i],
        max_objects=seen["max_obj_num"][i],
        pos_std=seen["pos_std"][i],
        vel_std=seen["vel_std"][i],
        r_mean_ratio=seen["r_mean_ratio"][i],
        r_kappa=seen["r_kappa"][i],
    )
    return Member(
        vessel=vessel,
        sensor=sensor,
        goal=tuple(robots["goal"][i]),
        radius=robots["r"][i],
        detect_radius=robots["detect_r"][i],
        goal_radius=robots["goal_dis"][i],
        power_coefficient=robots["power_coefficient"][i],
    )


def read_cores(env: Config) -> list[Core]:
    """The cores of the `env` part of a scenario file."""
    c = env["cores"]
    rows = zip(c["positions"], c["clockwise"], c["Gamma"], strict=True)
    return [(x, y, bool(clockwise), gamma) for (x, y), clockwise, gamma in rows]


def read_obstacles(env: Config) -> list[Obstacle]:
    """The obstacles of the `env` part of a scenario file."""
    o = env["obstacles"]
    return [(x, y, r) for (x, y), r in zip(o["positions"], o["r"], strict=True)]


def initial_state(robots: Config, i: int, cores: Sequence[Core], core_radius: float) -> State:
    """State after reset: the initial velocity is through the water; v_g adds the current."""
    x, y = robots["start"][i]
    v_x, v_y, yaw_rate = robots["init_velocity_r"][i]
    current_x, current_y = current_at(x, y, cores, core_radius)
    through_water = [v_x, v_y, yaw_rate]
    over_ground = [v_x + current_x, v_y + current_y, yaw_rate]
    thrust = [robots["init_left_thrust"][i], robots["init_right_thrust"][i]]
    return [x, y, wrap_two_pi(robots["init_theta"][i]), *through_water, *over_ground, *thrust]


class World:
    """All robots of one episode; `robots[i].active` is false from the step that ended robot i."""

    def __init__(self, config: Config, noise: NoiseSource | None = None) -> None:
        env, robots = config["env"], config["robots"]
        self.cores, self.core_radius = read_cores(env), env["r"]
        self.obstacles = read_obstacles(env)
        self.rewards = RewardParams(
            env["timestep_penalty"], env["COLREGs_penalty"], env["collision_penalty"], env["goal_reward"]
        )
        self.noise = noise
        self.members = [read_member(robots, i) for i in range(env["num_robots"])]
        self.robots = [
            Robot(
                initial_state(robots, i, self.cores, self.core_radius), member.goal, member.radius, member.detect_radius
            )
            for i, member in enumerate(self.members)
        ]
        self.has_collided = [False] * len(self.members)
        self.has_reached = [False] * len(self.members)

    def perceive(self, t: int, i: int) -> dict[str, Any]:
        """What active robot i perceives after t control steps, and its COLREGs term."""
        member = self.members[i]
        noise = None if self.noise is None else self.noise(t, i)
        args = (i, self.robots, self.obstacles, member.sensor, noise)
        self_state, objects, mask = observe(*args)
        own_velocity = (self_state[2], self_state[3])
        applies, phi = turn_angle(objects, mask, own_velocity, member.radius, ColregsParams())
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
