"""Plans by sampling: the model that predicts them, and the rules in their cost."""

import math

import pytest
import torch

from marinenav_env import WorldConfig
from marinenav_env.physics.thrust import ThrustController
from marinenav_env.vessels import scaled_world
from tests.oracle import dynamics, roles
from tests.train_RL_agents.observed import observations
from train_RL_agents.baselines import mppi
from train_RL_agents.baselines.mppi import MPPI, NUM_SEGMENTS, SEGMENT_STEPS, MPPIRules, gives_way

WORLD = WorldConfig()
STEPS = SEGMENT_STEPS * NUM_SEGMENTS


def test_plans_are_predicted_as_the_scalar_model_moves(monkeypatch):
    monkeypatch.setattr(mppi, "SUBSTEPS", WORLD.substeps)
    own = observations(goal=(15.0, -9.0), velocity=(1.2, 0.1))["self_state"]
    plan = torch.tensor([[0.5, 2.0], [-0.4, 1.0], [0.0, 2.5], [1.0, 0.3]])
    found = MPPI(WORLD)._simulate(own, plan[None, None, None])[:, 0, 0, 0]
    controller, vessel = ThrustController.from_world(WORLD), dynamics.VesselParams()
    state = [0.0, 0.0, 0.0, 1.2, 0.1, 0.0, 1.2, 0.1, 0.0, 400.0, 400.0]
    for step in range(STEPS):
        x, y, heading = state[:3]
        ground, thrust = state[6:9], state[9:11]
        course, speed = plan[step // SEGMENT_STEPS].tolist()
        towards = math.atan2(-9.0 - y, 15.0 - x) + course - heading
        wanted = torch.tensor([speed * math.cos(towards), speed * math.sin(towards)])
        u, v = dynamics.to_body(heading, ground[0], ground[1])
        seen = torch.tensor([0.0, 0.0, u, v, ground[2], *thrust])
        rates = WORLD.vessel.max_thrust_rate * controller(seen, wanted)
        state = dynamics.control_step(state, vessel, tuple(rates.tolist()), [], 0.5)
        assert found[step].tolist() == pytest.approx(state[:2], abs=2e-3)


@pytest.mark.filterwarnings("ignore:MPPI. its distances")
def test_the_thrusters_of_plans_are_as_far_apart_as_those_of_the_vessel():
    world = scaled_world("otter")
    assert world.vessel.width != world.vessel.actuators.spacing
    assert MPPI(world).vessel.width.item() == pytest.approx(world.vessel.actuators.spacing)


def test_who_gives_way_is_that_of_the_scalar_roles():
    generator = torch.Generator().manual_seed(5)
    place = 24.0 * torch.rand(400, 2, generator=generator) - 12.0
    velocity = 4.0 * torch.rand(400, 2, generator=generator) - 2.0
    rows = torch.cat((place, velocity, torch.ones(400, 1)), -1)
    seen = observations(velocity=(1.5, 0.2)) | {
        "objects_state": rows[None, None],
        "objects_mask": torch.ones(1, 1, 400, dtype=torch.bool),
    }
    expected = []
    for x, y, vx, vy, _ in rows.tolist():
        met = roles.meet((0.0, 0.0, 0.0, 1.5, 0.2), (x, y, math.atan2(vy, vx), vx, vy))
        risk = met.tcpa > 0.0 and abs(met.dcpa) < 16.0 and math.hypot(vx, vy) > 0.3
        expected.append(risk and roles.role(met) in ("head-on", "give-way"))
    assert gives_way(seen)[0, 0].tolist() == expected
    assert 20 < sum(expected) < 380


@pytest.mark.heavy
@pytest.mark.parametrize("near", [mppi.NEARNESS_COST, 0.0])  # without it, collisions alone cost
def test_objects_that_are_not_there_are_not_avoided(monkeypatch, near):
    monkeypatch.setattr(mppi, "NEARNESS_COST", near)
    empty, ahead = observations(), observations((9.0, 0.0, 0.0, 0.0, 1.0))
    masked = ahead | {"objects_mask": torch.zeros_like(ahead["objects_mask"])}
    for kind in (MPPI, MPPIRules):
        controller = kind(WORLD)
        free, none, away = map(controller.desired_velocity, (empty, masked, ahead))
        assert torch.equal(free, none)
        assert (away - free).norm() > 0.2


@pytest.mark.parametrize("kind", [MPPI, MPPIRules])
def test_alone_the_goal_is_all(kind):
    wanted = kind(WORLD).desired_velocity(observations(goal=(12.0, 16.0)))[0, 0]
    assert math.atan2(wanted[1], wanted[0]) == pytest.approx(math.atan2(16.0, 12.0), abs=0.15)
    assert wanted.norm() > 2.0


def test_what_is_ahead_is_avoided():
    wanted = MPPI(WORLD).desired_velocity(observations((12.0, 0.3, 0.0, 0.0, 2.0)))[0, 0]
    assert abs(math.atan2(wanted[1], wanted[0])) > 0.1


@pytest.mark.parametrize(
    "other", [(16.0, 0.0, -2.0, 0.0, 2.8), (13.0, 12.0, 0.0, -2.0, 2.8)], ids=["ahead", "starboard"]
)
def test_the_rules_turn_a_vessel_that_gives_way_to_starboard(other):
    wanted = MPPIRules(WORLD).desired_velocity(observations(other))[0, 0]
    assert math.atan2(wanted[1], wanted[0]) > math.radians(5.0)
