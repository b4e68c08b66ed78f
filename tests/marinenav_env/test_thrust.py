import pytest
import torch

from marinenav_env import GROUP, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.thrust import ThrustController

WORLD = WorldConfig()
ALONE = Curriculum((Level(1, 0, 0, 40.0),), pool_size=1, refresh_size=1)


@pytest.mark.parametrize("wanted", [(2.0, 0.0), (0.8, 0.0), (0.0, 1.5), (-1.0, -1.0), (0.0, 0.0)])
def test_controller_tracks_a_velocity(wanted):
    """A fixed velocity in the world frame, from rest."""
    env = MarineNavEnv(WORLD, scenarios=ALONE)
    step, controller = env.reset(), ThrustController.of(WORLD)
    course = torch.tensor(wanted)
    for _ in range(100):
        theta = env.state.pose[..., 2]
        cos, sin = theta.cos(), theta.sin()
        body = torch.stack((cos * course[0] + sin * course[1],
                            cos * course[1] - sin * course[0]), -1)  # fmt: skip
        action = controller(step[GROUP, "observation", "self_state"], body)
        assert action.abs().max() <= 1.0
        step = env.step(step.set((GROUP, "action"), action))["next"].exclude((GROUP, "reward"))
    # Sway is hardly damped, so a sideways drift from the turn dies out slowly.
    assert torch.allclose(env.state.velocity_ground[0, 0, :2], course, atol=0.3)
    assert env.state.velocity_ground[0, 0, 2].abs() < 0.15


def test_numbers_and_tensors_of_the_same_vessels_steer_alike():
    env = MarineNavEnv(WORLD, 16, scenarios=ALONE)
    own = env.reset().get((GROUP, "observation", "self_state"))
    wanted = torch.randn(16, 1, 2, generator=torch.Generator().manual_seed(0))
    numbers = ThrustController.of(WORLD)
    tensors = ThrustController(env.constants.vessel, numbers.seconds)
    torch.testing.assert_close(tensors(own, wanted), numbers(own, wanted))
