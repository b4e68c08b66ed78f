"""Random worlds, for the kernels as tensors and for the oracle as plain numbers."""

import copy
import json
import math
import random
from dataclasses import astuple, dataclass, fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from marinenav_env.config import RewardConfig, ScenarioConfig, SensorConfig, VesselConfig, WorldConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.episode import Episode, stack_episodes
from marinenav_env.sensing.perception import draw_perception_noise, look_up_quantile
from marinenav_env.state import Parameters, Scenario, State
from tests.oracle.current import current_at
from tests.oracle.dynamics import VesselParams
from tests.oracle.episode import Member, initial_state
from tests.oracle.episode import World as OracleWorld
from tests.oracle.perception import Robot, Sensor
from tests.oracle.reward import RewardParams

DATA = Path(__file__).parents[1] / "data"
CPU = torch.device("cpu")
QUIET = SensorConfig(pos_std=0.0, vel_std=0.0, r_mean_ratio=1.0)

# Between these bounds, so that no coefficient is zero and the mass matrix is well conditioned.
VESSEL_BOUNDS = {
    "length": (3.0, 7.0),
    "width": (1.5, 3.5),
    "radius": (1.5, 3.5),
    "detect_radius": (1.0, 4.0),
    "goal_distance": (1.0, 4.0),
    "power_coefficient": (0.5, 2.0),
    "min_thrust": (-700.0, -300.0),
    "max_thrust": (600.0, 1200.0),
    "m": (300.0, 500.0),
    "Izz": (300.0, 600.0),
    "xDotU": (5.0, 50.0),
    "yDotV": (-90.0, -10.0),
    "yDotR": (-60.0, 60.0),
    "nDotR": (-1200.0, -500.0),
    "nDotV": (-60.0, 60.0),
    "xU": (-200.0, -50.0),
    "xUU": (-200.0, -50.0),
    "yV": (-200.0, -50.0),
    "yVV": (-200.0, -50.0),
    "yR": (-80.0, 80.0),
    "yRV": (-80.0, 80.0),
    "yVR": (-80.0, 80.0),
    "yRR": (-80.0, 80.0),
    "nR": (-1200.0, -600.0),
    "nRR": (-1200.0, -600.0),
    "nV": (-80.0, 80.0),
    "nVV": (-80.0, 80.0),
    "nRV": (-80.0, 80.0),
    "nVR": (-80.0, 80.0),
}
SENSOR_BOUNDS = {
    "range": (5.0, 20.0),
    "angle": (0.5, 2.0 * math.pi),
    "pos_std": (0.02, 0.3),
    "vel_std": (0.02, 0.3),
    "r_mean_ratio": (0.6, 0.9),
    "r_kappa": (0.0, 5.0),
}


def drawn(rng, bounds, count):
    """One number per robot for every name."""
    return {name: tuple(rng.uniform(*bounds[name]) for _ in range(count)) for name in bounds}


def random_episode(rng, robots, obstacles, cores, size=30.0):
    """An episode in which every parameter differs from robot to robot and from the defaults."""

    def rows(count, *bounds):
        return [[rng.uniform(*bound) for bound in bounds] for _ in range(count)]

    span, turn = (0.0, size), (-math.pi, 3.0 * math.pi)
    vessel = drawn(rng, VESSEL_BOUNDS, robots)
    sensor = drawn(rng, SENSOR_BOUNDS, robots)
    # Half of them see all around.
    sensor["angle"] = tuple(rng.choice((a, 2.0 * math.pi)) for a in sensor["angle"])
    sensor["max_objects"] = tuple(rng.randint(1, 5) for _ in range(robots))
    start = rows(robots, span, span)
    return Episode(
        start=start,
        goal=[[x + rng.uniform(-8.0, 8.0), y + rng.uniform(-8.0, 8.0)] for x, y in start],
        heading=[row[0] for row in rows(robots, turn)],
        velocity=rows(robots, (-3.0, 3.0), (-3.0, 3.0), (-1.0, 1.0)),
        thruster_angle=rows(robots, (-1.0, 1.0), (-1.0, 1.0)),
        thrust=rows(robots, (-300.0, 600.0), (-300.0, 600.0)),
        obstacles=rows(obstacles, span, span, (0.5, 2.0)),
        cores=[[*row, rng.choice((-1, 1)) * rng.uniform(2.0, 9.0)] for row in rows(cores, span, span)],
        world=WorldConfig(
            vessel=VesselConfig(**vessel),
            sensor=SensorConfig(**sensor),
            reward=RewardConfig(
                timestep_penalty=rng.uniform(-1.0, 0.0),
                COLREGs_penalty=rng.uniform(-1.0, 0.0),
                collision_penalty=rng.uniform(-9.0, -1.0),
                goal_reward=rng.uniform(1.0, 20.0),
            ),
            scenario=ScenarioConfig(core_radius=rng.uniform(0.3, 3.0)),
            dt=0.04,
            substeps=7,
        ),
        seed=rng.randrange(1000),
    )


def of_robot(value, robot):
    """A robot's number, of a value that is one for all or one for each."""
    return value[robot] if isinstance(value, tuple) else value


def oracle_vessel(episode, robot):
    """The oracle's parameters of a robot."""
    left, right = episode.thruster_angle[robot]
    names = {item.name for item in fields(VesselParams)} & {item.name for item in fields(VesselConfig)}
    return VesselParams(
        dt=episode.world.dt,
        substeps=episode.world.substeps,
        left_angle=left,
        right_angle=right,
        **{name: of_robot(getattr(episode.world.vessel, name), robot) for name in names},
    )


def oracle_member(episode, robot):
    """A robot as the oracle's world has it."""
    world, names = episode.world, (item.name for item in fields(Sensor))
    return Member(
        oracle_vessel(episode, robot),
        Sensor(**{name: of_robot(getattr(world.sensor, name), robot) for name in names}),
        of_robot(world.vessel.goal_distance, robot),
        of_robot(world.vessel.power_coefficient, robot),
    )


def oracle_cores(episode):
    """The oracle's cores."""
    return [(x, y, gamma > 0.0, abs(gamma)) for x, y, gamma in episode.cores]


def oracle_obstacles(episode):
    """The oracle's obstacles."""
    return [(x, y, radius) for x, y, radius in episode.obstacles]


@dataclass
class World:
    """Episodes, and what the kernels take for them."""

    episodes: list[Episode]
    scenario: Scenario
    parameters: Parameters
    quantiles: Tensor
    state: State

    def robots(self, environment):
        """The oracle's robots of an environment, as they are in the state."""
        episode, state = self.episodes[environment], self.state[environment]
        rows = oracle_states(state)
        return [
            Robot(
                rows[i],
                (goal[0], goal[1]),
                of_robot(episode.world.vessel.radius, i),
                of_robot(episode.world.vessel.detect_radius, i),
                bool(state.active[i]),
            )
            for i, goal in enumerate(episode.goal)
        ]

    def oracle_world(self, environment, noise):
        """The oracle's world at the start of an environment's episode."""
        episode, robots = self.episodes[environment], self.robots(environment)
        cores, core_radius = oracle_cores(episode), episode.world.scenario.core_radius
        for i, robot in enumerate(robots):
            x, y = episode.start[i]
            pose, current = (x, y, episode.heading[i]), current_at(x, y, cores, core_radius)
            robot.state = initial_state(pose, episode.velocity[i], episode.thrust[i], current)
        members = [oracle_member(episode, i) for i in range(len(robots))]
        rewards = RewardParams(*astuple(episode.world.reward)[:4])
        return OracleWorld(members, robots, cores, core_radius, oracle_obstacles(episode), rewards, noise)

    def noise(self, seed):
        """Noise of one observation."""
        environments, robots = self.scenario.robot_mask.shape
        objects = robots + self.scenario.obstacle_mask.shape[1]
        source = RandomSource.from_seed(seed, environments, CPU)
        return draw_perception_noise(source, robots, objects, torch.float64)

    def oracle_noise(self, noise, environment, robot):
        """The same for the oracle: of the obstacles first and then of the robots."""
        row = self.parameters.sensor.table_row[environment, robot]
        angle = look_up_quantile(self.quantiles, row, noise.uniform[environment, robot])
        normal = (each[environment, robot] for each in noise.normal)
        columns = torch.stack((*normal, angle), -1).tolist()
        slots = self.scenario.robot_mask.shape[1]
        episode = self.episodes[environment]
        own = columns[: len(episode.start)]
        return [tuple(c) for c in (*columns[slots : slots + len(episode.obstacles)], *own)]


def oracle_states(state):
    """The oracle's state of every robot of one environment."""
    parts = (state.pose, state.velocity_water, state.velocity_ground, state.thrust)
    return torch.cat(parts, -1).tolist()


def random_world(seed, sizes, size=30.0, inactive=0.2, changed=lambda config, rng: config):
    """Random episodes of (robots, obstacles, cores), padded, with some robots inactive, in changed worlds."""
    rng = random.Random(seed)
    episodes = [random_episode(rng, *counts, size=size) for counts in sizes]
    episodes = [replace(episode, world=changed(episode.world, rng)) for episode in episodes]
    scenario, parameters, quantiles = stack_episodes(episodes, CPU, torch.float64)
    return World(episodes, scenario, parameters, quantiles, random_state(scenario, seed, inactive))


def random_state(scenario, seed, inactive=0.0):
    """A state of robots at their starts, with some of them inactive."""
    (envs, robots), generator = scenario.robot_mask.shape, torch.Generator().manual_seed(seed)

    def uniform(low, high, width):
        unit = torch.rand(envs, robots, width, generator=generator, dtype=torch.float64)
        return low + (high - low) * unit

    return State(
        pose=torch.cat((scenario.start, uniform(0.0, 2.0 * math.pi, 1)), -1),
        velocity_water=uniform(-3.0, 3.0, 3),
        velocity_ground=uniform(-3.0, 3.0, 3),
        thrust=uniform(-500.0, 1000.0, 2),
        active=scenario.robot_mask & (uniform(0.0, 1.0, 1)[..., 0] >= inactive),
        collided=torch.zeros_like(scenario.robot_mask),
        arrived=torch.zeros_like(scenario.robot_mask),
        steps=torch.zeros(envs, dtype=torch.int64),
        batch_size=[envs],
    )


def simple_episode(poses, goals, obstacles=(), sensor=QUIET):
    """Default vessels at rest at (x, y, yaw), without noise."""
    count = len(poses)
    return Episode(
        start=[[x, y] for x, y, _ in poses],
        goal=[list(goal) for goal in goals],
        heading=[yaw for _, _, yaw in poses],
        velocity=[[0.0] * 3 for _ in range(count)],
        thruster_angle=[[0.0, 0.0] for _ in range(count)],
        thrust=[[0.0, 0.0] for _ in range(count)],
        obstacles=[list(obstacle) for obstacle in obstacles],
        world=WorldConfig(sensor=sensor),
    )


@cache
def recordings():
    """Entry and arrays of every recorded episode by key."""
    entries = json.loads((DATA / "episodes.json").read_text())
    arrays = {entry["key"]: {} for entry in entries}
    with np.load(DATA / "episodes.npz") as file:
        for path in file.files:
            key, name = path.split("/")
            arrays[key][name] = file[path]
    return {entry["key"]: (entry, arrays[entry["key"]]) for entry in entries}


def recorded_entry(key="ep032"):
    """A fresh copy of a recorded episode's configuration: 6 robots, 8 cores, 8 obstacles."""
    return copy.deepcopy(recordings()[key][0]["config"])


def normal_cdf(x):
    """Distribution function of the standard normal distribution."""
    return 0.5 * (1.0 + np.vectorize(math.erf)(x / math.sqrt(2.0)))


# Kolmogorov-Smirnov: the distance between distribution functions, and its bound at 0.1 %.


def ks_distance(sample, cdf):
    """Largest distance of a sample's distribution function from a given one."""
    ordered, count = np.sort(sample), len(sample)
    expected = cdf(ordered)
    above = (np.arange(1, count + 1) / count - expected).max()
    below = (expected - np.arange(count) / count).max()
    return float(max(above, below))


def ks_bound(*counts):
    """What the distance exceeds with a probability of 0.1 %, for one sample or for two."""
    return 1.95 * math.sqrt(sum(1.0 / count for count in counts))
