import pytest
import torch

from marinenav_env import GROUP, Curriculum, Level, MarineNavEnv
from marinenav_env.config import VesselConfig
from marinenav_env.interfaces.scripted import SCRIPTED_POLICIES, write_actions
from marinenav_env.vessels import scaled_level, scaled_world

QUICK = {"pool_size": 8, "refresh_size": 8}


def make_env(continuous=True, vessel="published", **world):
    config = scaled_world(vessel, max_steps=200, **world)
    level = scaled_level(Level(1, 0, 0, 30.0), config.scenario.scale, config.scenario.speed_scale)
    return MarineNavEnv(config, 8, scenarios=Curriculum((level,), **QUICK), continuous=continuous, seed=0)


@pytest.mark.parametrize(("continuous", "vessel"), [(True, "published"), (False, "published"), (True, "roboboat")])
def test_straight_arrives_when_nothing_is_in_the_way(continuous, vessel):
    env = make_env(continuous, vessel)
    step = env.reset()
    for _ in range(180):
        if env.state.arrived.all():
            break
        step = env.step(write_actions(step, env, "straight")).get("next").exclude((GROUP, "reward"))
    assert env.state.arrived.all()


@pytest.mark.parametrize("continuous", [True, False])
def test_idle_stays_where_it_is(continuous):
    env = make_env(continuous)
    step = env.reset()
    before = env.state.pose.clone()
    env.step(write_actions(step, env, "idle"))
    torch.testing.assert_close(env.state.pose, before)


OTHER_COMMANDS = VesselConfig(
    left_thrust_change=(-900.0, 0.0, 900.0), right_thrust_change=(0.0, 400.0), max_thrust_rate=800.0
)


@pytest.mark.parametrize(
    ("vessel", "wanted", "pair"),
    [
        # 800 and -300 N/s are closest to the pair (1000, -500), whose indices are 4 and 1.
        (VesselConfig(), (0.8, -0.3), 4 * 5 + 1),
        # 720 and 160 N/s are closest to (900, 0).
        (OTHER_COMMANDS, (0.9, 0.2), 2 * 2 + 0),
    ],
)
def test_discrete_actions_are_the_nearest_pairs(vessel, wanted, pair, monkeypatch):
    env = make_env(continuous=False, vessel=vessel)
    step = env.reset()
    monkeypatch.setitem(SCRIPTED_POLICIES, "pair", lambda state, env: torch.tensor(wanted).expand(8, 1, 2))
    assert (write_actions(step, env, "pair").get((GROUP, "action")) == pair).all()
