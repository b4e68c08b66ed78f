import math
import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from marinenav_env import GROUP, ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.interfaces.gymnasium_env import MarineNavGymEnv, MarineNavVectorEnv
from marinenav_env.scenarios.scenario import ScenarioSampler
from marinenav_env.vessels import scaled_world
from tests.marinenav_env.helpers import CPU

PAIR = Curriculum((Level(2, 0, 1, 20.0),))
SHORT = WorldConfig(max_steps=5)


@pytest.mark.parametrize("continuous", [True, False])
def test_gymnasium_finds_nothing_to_complain_about(continuous):
    env = gymnasium.make("MarineNav-v0", config=SHORT, scenarios=PAIR, continuous=continuous)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_env(env.unwrapped)


def test_it_is_drawn():
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    env = gymnasium.make("MarineNav-v0", config=SHORT, scenarios=PAIR, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (640, 640, 3)
    assert MarineNavGymEnv(SHORT, scenarios=PAIR).render() is None
    with pytest.raises(ConfigError, match="render_mode='ansi': must be rgb_array or human"):
        MarineNavGymEnv(SHORT, render_mode="ansi")


def test_it_is_the_first_vessel_of_the_batched_world():
    actual = MarineNavGymEnv(SHORT, scenarios=PAIR, others="idle")
    small = Curriculum(PAIR.levels, pool_size=1, refresh_size=1, refresh_interval=1)
    env = MarineNavEnv(SHORT, 1, scenarios=small, seed=0)
    env.set_seed(3)
    step = env.reset()
    observation, _ = actual.reset(seed=3)
    for number in range(5):
        seen = step.get((GROUP, "observation"))[0, 0]
        for name, value in observation.items():
            np.testing.assert_array_equal(value, seen.get(name).numpy())
        action = np.array([0.3 * number - 0.5, 0.8], np.float32)
        joint = env.action_spec.zero()
        joint[GROUP, "action"][0, 0] = torch.from_numpy(action)
        step = env.step(step.exclude((GROUP, "reward")).update(joint)).get("next")
        observation, reward, terminated, truncated, info = actual.step(action)
        assert reward == float(step.get((GROUP, "reward"))[0, 0])
        assert info["energy"] == float(env.outcome.energy[0, 0])
    assert (terminated, truncated) == (False, True)


def test_others_follow_the_policy_given_but_the_agent_does_not():
    seen = []

    def full_ahead(step):
        seen.append(step.get((GROUP, "observation", "self_state"))[0].tolist())
        actions = step.get((GROUP, "observation", "self_state"))[..., :2] * 0.0 + 1.0
        return step.set((GROUP, "action"), actions)

    env = MarineNavGymEnv(SHORT, scenarios=PAIR, others=full_ahead)
    env.reset(seed=0)
    for _ in range(2):
        env.step(np.zeros(2, np.float32))
    assert [own[5:] for own in seen[1]] == [[0.0, 0.0], [500.0, 500.0]]


def test_arrival_ends_the_episode_for_the_agent():
    wide = WorldConfig(vessel=type(SHORT.vessel)(goal_distance=100.0))
    env = MarineNavGymEnv(wide, scenarios=PAIR)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(np.zeros(2, np.float32))
    assert (terminated, truncated, info["is_success"]) == (True, False, True)
    assert reward > 9.0


def test_unknown_others_are_refused():
    with pytest.raises(ConfigError, match="others='drunk': must be a policy, or one of idle, str"):
        MarineNavGymEnv(SHORT, scenarios=PAIR, others="drunk")


def test_many_worlds_have_the_spaces_of_gymnasium():
    env = gymnasium.make_vec("MarineNav-v0", num_envs=3, config=SHORT, scenarios=PAIR)
    observation, _ = env.reset(seed=0)
    assert observation in env.observation_space
    assert observation["objects_state"].shape == (3, 5, 5)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
    assert observation in env.observation_space
    assert [each.shape for each in (reward, terminated, truncated, info["energy"])] == [(3,)] * 4
    flat = MarineNavVectorEnv(3, SHORT, scenarios=PAIR, flat=True, continuous=False)
    assert flat.reset()[0].shape == (3, 37)
    assert flat.step(flat.action_space.sample())[0] in flat.observation_space


def test_an_agent_that_cannot_act_is_refused():
    sampler = ScenarioSampler(WorldConfig().scenario, PAIR.levels, CPU, torch.float32)
    given = sampler.sample(torch.zeros(2, dtype=torch.int64), torch.Generator().manual_seed(0))
    given.scripted = torch.zeros_like(given.robot_mask)
    MarineNavGymEnv(SHORT, scenarios=given).reset()
    given.scripted[:, 0] = True
    with pytest.raises(ConfigError, match="in each episode there must be a first vessel, the age"):
        MarineNavGymEnv(SHORT, scenarios=given).reset()


@pytest.mark.parametrize(
    ("continuous", "action", "message"),
    [
        (True, [math.nan, 0.0], r"^action\[0, 0\]=\[nan, 0\.0\]: must be finite$"),
        (True, 0.5, r"^action\.shape=\[\]: must be \[2\]$"),
        (True, ["1", "0"], r"^action\.dtype=dtype\('<U1'\): must be a type of numbers$"),
        (False, 25, r"^action\[0, 0\]=25: must be an index from 0 to 24$"),
        (False, 12.7, r"^action\.dtype=dtype\('float64'\): must be a type of whole numbers$"),
    ],
)
def test_an_action_that_is_none_is_refused(continuous, action, message):
    env = MarineNavGymEnv(SHORT, scenarios=PAIR, continuous=continuous)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=message):
        env.step(action)
    several = MarineNavVectorEnv(2, SHORT, scenarios=PAIR, continuous=continuous)
    several.reset(seed=0)
    with pytest.raises(ConfigError, match=r"^actions?[\[.]"):
        several.step([action, action])
    with pytest.raises(ConfigError, match=r"^actions\.shape=\["):
        several.step(env.action_space.sample())
    env.step(np.int64(3) if not continuous else (1, 0))
    assert np.isfinite(several.step(several.action_space.sample())[1]).all()


@pytest.mark.parametrize(
    ("others", "message"),
    [
        (lambda step: step, r"^action=None: must be"),
        (lambda step: step.set((GROUP, "action"), torch.zeros(1, 2)), r"^action\.shape=.*: must be"),
        (
            lambda step: step.set((GROUP, "action"), torch.full((1, 2, 2), math.nan)),
            r"^action\[0, 1\]=\[nan, nan\]: must be finite$",
        ),
    ],
)
def test_others_that_write_no_such_actions_are_refused(others, message):
    env = MarineNavGymEnv(SHORT, scenarios=PAIR, others=others)
    env.reset(seed=0)
    with pytest.raises(ConfigError, match=message):
        env.step([0.0, 0.0])


def test_a_step_before_the_reset_is_refused():
    with pytest.raises(ConfigError, match=r"^step: must come after reset$"):
        MarineNavGymEnv(SHORT, scenarios=PAIR).step([0.0, 0.0])


@pytest.mark.heavy
def test_others_with_one_thruster_do_not_go_straight():
    settings = {"scenarios": Curriculum((Level(2, 0, 0, 5.0),), pool_size=8, refresh_size=8)}
    with pytest.raises(ConfigError, match="others='straight': must be a policy, or idle, for vessels with a rudder"):
        MarineNavGymEnv(scaled_world("cybership2"), **settings)
    assert MarineNavGymEnv(scaled_world("cybership2"), others="idle", **settings).reset(seed=0)
    assert MarineNavGymEnv(scaled_world("otter"), **settings).reset(seed=0)
