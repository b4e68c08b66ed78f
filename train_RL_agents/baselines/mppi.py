"""Model predictive path integral control (Williams, Aldrich and Theodorou, JGCD 40(2), 2017).

A plan has a course, relative to the direction to the goal, and a speed for every one of a few segments. Plans around
the current one are sampled, the vessel is simulated along every plan with the world's dynamics, but with ideal
thrusters, and the next plan is their mean, weighted by exp(-cost / temperature). Other objects keep their velocity.
Every step starts from the plan straight to the goal with the same samples, so that the controller needs neither memory
nor random numbers.

``MPPIRules`` adds the rules of the sea to the cost: a vessel that gives way, or meets another head-on, should pass on
the side that the rules require (see rules.roles). When overtaking, both sides are allowed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.physics.dynamics import move_ideal_vessels, thrust_rates_of_commands, wrap_to_pi
from marinenav_env.rules.roles import GIVE_WAY, HEAD_ON, RelativeMotion, roles
from marinenav_env.scenarios.parameters import build_parameters
from marinenav_env.scenarios.scenario import blank_scenarios
from marinenav_env.state import State
from marinenav_env.support.validation import require
from marinenav_env.vessels import HYDRODYNAMIC_COEFFICIENTS
from train_RL_agents.baselines.base import Baseline
from train_RL_agents.networks.observation import Observation

PLAN_SPEED = 2.5
"""Speed of the plan straight to the goal (m/s)."""
NUM_SEGMENTS = 4
"""Number of segments of a plan."""
NUM_SAMPLES = 96
"""Number of sampled plans."""
SAMPLE_FACTORS = (1.0, 0.5)
"""Factor on the samples in each update of the plan."""
SEGMENT_STEPS = 4
"""Number of control steps of a segment."""
COURSE_STD = 0.9
"""Standard deviation of the sampled courses (rad)."""
SPEED_STD = 1.0
"""Standard deviation of the sampled speeds (m/s)."""
SUBSTEPS = 4
"""Number of substeps of the simulation per control step."""
TEMPERATURE = 1.0
"""Difference of cost that changes the weight of a plan by a factor e (s)."""
COLLISION_COST = 100.0
"""Cost of a collision (s)."""
NEARNESS_COST = 6.0
"""Cost per second and metre by which a hull is closer than NEARNESS_MARGIN (1/m)."""
NEARNESS_MARGIN = 4.0
"""Gap between hulls that is kept (m), because others turn, too, and a vessel follows its plan with a delay."""
WRONG_SIDE_COST = 10.0
"""Cost per metre that is missing to SIDE_DISTANCE (s/m)."""
SIDE_DISTANCE = 8.0
"""Distance at which a vessel should be passed on the side that the rules require (m)."""
MAX_STATIC_SPEED = 0.3
"""Speed below which objects have no course (m/s)."""


class MPPI(Baseline):
    """Model predictive path integral controller."""

    def __init__(self, world: WorldConfig) -> None:
        super().__init__(world)
        self.step = world.control_step
        for name in HYDRODYNAMIC_COEFFICIENTS:
            value = getattr(world.vessel, name)
            is_shared = not isinstance(value, tuple)
            require(is_shared, f"world.vessel.{name}", value, "one number for all robots of a baseline that plans")
        reached = world.vessel.goal_distance
        self.goal_distance = max(reached) if isinstance(reached, tuple) else reached
        parameters, _ = build_parameters([world], 1, torch.device("cpu"), torch.float32)
        vessel, extras = parameters.vessel, parameters.extras
        # Ideal thrusters are as far apart as the hull is wide.
        self.vessel = vessel if extras is None else vessel.replace(width=extras.spacing)
        noise = torch.randn(NUM_SAMPLES // 2, NUM_SEGMENTS, 2, generator=torch.Generator().manual_seed(0))
        noise[0] = 0.0
        self.samples = torch.cat((noise, -noise)) * torch.tensor([COURSE_STD, SPEED_STD])

    def desired_velocity(self, observation: Observation) -> Tensor:
        """Return the velocity of the first segment of the updated plan."""
        state = observation["self_state"]
        plan = state.new_tensor([0.0, PLAN_SPEED]).expand(*state.shape[:2], 1, NUM_SEGMENTS, 2)
        for spread in SAMPLE_FACTORS:
            plans = plan + spread * self.samples.to(state)
            plans = torch.stack((plans[..., 0], plans[..., 1].clamp(0.0, PLAN_SPEED)), -1)
            weight = torch.softmax(-self._cost(observation, plans) / TEMPERATURE, -1)
            plan = (weight[..., None, None] * plans).sum(2, keepdim=True)
        return _plan_velocity(state[..., :2], plan[:, :, 0, 0])

    def _cost(self, observation: Observation, plans: Tensor) -> Tensor:
        """Return the cost [E, R, N] (s) of plans [E, R, N, NUM_SEGMENTS, 2]: time, and risk of collision."""
        positions = self._simulate(observation["self_state"], plans)
        goal = observation["self_state"][..., None, :2]
        distance = torch.linalg.vector_norm(goal - positions, dim=-1)
        arrived = (distance < self.goal_distance).cummax(0).values
        left = torch.where(arrived[-1], 0.0, distance[-1] / PLAN_SPEED)
        return self.step * (~arrived).sum(0) + left + self._risk(observation, positions, arrived)

    def _risk(self, observation: Observation, positions: Tensor, arrived: Tensor) -> Tensor:
        """Return the cost [E, R, N] of collisions and close passing (s), until the goal is reached.

        Args:
            observation: observations [E, R, ...].
            positions: [T, E, R, N, 2] positions along N plans, in the current body frame (m).
            arrived: [T, E, R, N] bool, whether the goal has been reached.
        """
        relative = _relative_positions(observation, positions, self.step)
        apart = torch.linalg.vector_norm(relative, dim=-1)
        gap = apart - (observation["objects_state"][..., 4] + self.own_radius)[:, :, None]
        seen = observation["objects_mask"][:, :, None] & ~arrived[..., None]
        close = ((NEARNESS_MARGIN - gap).clamp_min(0.0) * seen).amax(-1).sum(0) * self.step
        return NEARNESS_COST * close + COLLISION_COST * ((gap < 0.0) & seen).any(-1).any(0)

    def _simulate(self, initial: Tensor, plans: Tensor) -> Tensor:
        """Return positions along plans after every control step, in the current body frame (m).

        The water is assumed to be at rest, as the current is not observed.

        Args:
            initial: [E, R, 7] own states, see Observation.
            plans: [E, R, N, segments, 2] courses relative to the goal (rad) and speeds (m/s).

        Returns:
            Positions [T, E, R, N, 2].
        """
        size = plans.shape[:3]
        start = initial[:, :, None].expand(*size, -1).flatten(1, 2)
        zeros = torch.zeros_like(start[..., :3])
        flags, steps = zeros[..., 0].bool(), torch.zeros(size[0], device=initial.device)
        state = State(
            pose=zeros,
            velocity_water=start[..., 2:5],
            velocity_ground=start[..., 2:5],
            thrust=start[..., 5:],
            active=flags,
            collided=flags,
            arrived=flags,
            steps=steps,
            batch_size=[size[0]],
        )
        scenario = blank_scenarios(size[0], flags.shape[1], 0, 0, initial.device, initial.dtype)
        vessel, positions = self.vessel.to(initial.device), []
        for segment in plans.flatten(1, 2).unbind(-2):
            for _ in range(SEGMENT_STEPS):
                turn = -state.pose[..., 2]
                goal = start[..., :2] - state.pose[..., :2]
                ground = state.velocity_ground
                observed = (
                    _rotate(goal, turn),
                    _rotate(ground[..., :2], turn),
                    ground[..., 2:],
                    state.thrust,
                )
                desired = _rotate(_plan_velocity(goal, segment), turn)
                rates = thrust_rates_of_commands(self.controller(torch.cat(observed, -1), desired), vessel)
                moved = move_ideal_vessels(
                    state,
                    rates,
                    scenario,
                    vessel,
                    ground.new_ones(1),
                    self.step / SUBSTEPS,
                    SUBSTEPS,
                )
                state.pose, state.velocity_water, state.velocity_ground, state.thrust = moved
                positions.append(state.pose[..., :2].unflatten(1, size[1:]))
        return torch.stack(positions)


class MPPIRules(MPPI):
    """MPPI controller with the rules of the sea in its cost."""

    def _risk(self, observation: Observation, positions: Tensor, arrived: Tensor) -> Tensor:
        """Return the risk [E, R, N] of MPPI plus the cost of passing vessels on the wrong side (s)."""
        relative = _relative_positions(observation, positions, self.step)
        moves = relative.diff(dim=0)
        speed = torch.linalg.vector_norm(moves, dim=-1).clamp_min(1e-6)
        miss = (relative[1:, ..., 1] * moves[..., 0] - relative[1:, ..., 0] * moves[..., 1]) / speed
        closest = torch.linalg.vector_norm(relative[1:], dim=-1).argmin(0, keepdim=True)
        short = (SIDE_DISTANCE - miss.gather(0, closest)[0]).clamp_min(0.0)
        duty = gives_way(observation)[:, :, None]
        return super()._risk(observation, positions, arrived) + WRONG_SIDE_COST * (duty * short).sum(-1)


def gives_way(observation: Observation) -> Tensor:
    """Return a mask [E, R, K] of vessels that the own vessel meets head-on or gives way to, if they pass closely.

    A vessel's heading is assumed to be its course.
    """
    objects, state = observation["objects_state"], observation["self_state"]
    (x, y), (vx, vy) = objects[..., :2].unbind(-1), objects[..., 2:4].unbind(-1)
    wx, wy = vx - state[..., 2:3], vy - state[..., 3:4]
    speed = torch.sqrt(wx * wx + wy * wy).clamp_min(1e-6)
    course, bearing = torch.atan2(vy, vx), torch.atan2(y, x)
    motion = RelativeMotion(
        distance=torch.sqrt(x * x + y * y),
        tcpa=-(x * wx + y * wy) / speed.square(),
        dcpa=(y * wx - x * wy) / speed,
        bearing=bearing,
        aspect=wrap_to_pi(bearing + math.pi - course),
        relative_heading=course,
    )
    role = roles(motion)
    duty = (role == HEAD_ON) | (role == GIVE_WAY)
    moving = vx.square() + vy.square() > MAX_STATIC_SPEED**2
    near = (motion.tcpa > 0.0) & (motion.dcpa.abs() < 2.0 * SIDE_DISTANCE)
    return duty & moving & near & observation["objects_mask"]


def _relative_positions(observation: Observation, positions: Tensor, step: float) -> Tensor:
    """Return the positions [T, E, R, N, K, 2] of K objects relative to own positions (m), after T steps of ``step`` s.

    Objects keep their observed velocities; own positions are [T, E, R, N, 2].
    """
    objects = observation["objects_state"][:, :, None]
    time = step * torch.arange(1, len(positions) + 1, device=positions.device)
    later = objects[..., :2] + time.view(-1, 1, 1, 1, 1, 1) * objects[..., 2:4]
    return later - positions[..., None, :]


def _plan_velocity(goal: Tensor, plan: Tensor) -> Tensor:
    """Return the velocity [..., 2] (m/s) of plans [..., 2]: course relative to the goal (rad), speed (m/s)."""
    return _rotate(torch.nn.functional.normalize(goal, dim=-1) * plan[..., 1:], plan[..., 0])


def _rotate(vector: Tensor, angle: Tensor) -> Tensor:
    """Return vectors [..., 2] rotated by angles [...] (rad)."""
    (x, y), cos, sin = vector.unbind(-1), angle.cos(), angle.sin()
    return torch.stack((cos * x - sin * y, sin * x + cos * y), -1)
