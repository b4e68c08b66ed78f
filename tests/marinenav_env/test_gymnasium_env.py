import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from marinenav_env import GROUP, ConfigError, Curriculum, Level, MarineNavEnv, WorldConfig
from marinenav_env.gymnasium_env import MarineNavGymEnv

PAIR = Curriculum((Level(2, 0, 1, 20.0),))
SHORT = WorldConfig(max_steps=5)


@pytest.mark.parametrize("continuous", [True, False])
def test_gymnasium_finds_nothing_to_complain_about(continuous):
    env = gymnasium.make("MarineNav-v0", config=SHORT, scenarios=PAIR, continuous=continuous)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        check_env(env.unwrapped)


def test_observation_flattens_to_a_vector():
    env = gymnasium.make("MarineNav-v0", config=SHORT, scenarios=PAIR)
    observation, _ = gymnasium.wrappers.FlattenObservation(env).reset(seed=0)
    assert observation.shape == (37,)


def test_it_is_the_first_vessel_of_the_batched_world():
    ours = MarineNavGymEnv(SHORT, scenarios=PAIR, others="idle")
    small = Curriculum(PAIR.levels, pool_size=1, refresh_size=1, refresh_interval=1)
    env = MarineNavEnv(SHORT, 1, scenarios=small)
    env.set_seed(3)
    step = env.reset()
    observation, _ = ours.reset(seed=3)
    for number in range(5):
        seen = step.get((GROUP, "observation"))[0, 0]
        for name, value in observation.items():
            np.testing.assert_array_equal(value, seen.get(name).numpy())
        action = np.array([0.3 * number - 0.5, 0.8], np.float32)
        joint = env.action_spec.zero()
        joint[GROUP, "action"][0, 0] = torch.from_numpy(action)
        step = env.step(step.exclude((GROUP, "reward")).update(joint)).get("next")
        observation, reward, terminated, truncated, info = ours.step(action)
        assert reward == float(step.get((GROUP, "reward"))[0, 0])
        assert info["energy"] == float(env.outcome.energy[0, 0])
    assert (terminated, truncated) == (False, True)


def test_every_episode_is_another_and_a_seed_brings_them_back():
    env = MarineNavGymEnv(SHORT, scenarios=PAIR)
    starts = [env.reset(seed=7)[0]["self_state"], *(env.reset()[0]["self_state"] for _ in range(3))]
    again = [env.reset(seed=7)[0]["self_state"], *(env.reset()[0]["self_state"] for _ in range(3))]
    np.testing.assert_array_equal(starts, again)
    assert len({tuple(start) for start in starts}) == 4


def test_others_follow_the_policy_given_but_the_agent_does_not():
    def full_ahead(step):
        actions = step.get((GROUP, "observation", "self_state"))[..., :2] * 0.0 + 1.0
        return step.set((GROUP, "action"), actions)

    env = MarineNavGymEnv(SHORT, scenarios=PAIR, others=full_ahead)
    env.reset(seed=0)
    env.step(np.zeros(2, np.float32))
    thrust = env._world.env.state.thrust[0]
    assert thrust[0].tolist() == [0.0, 0.0]
    assert thrust[1].tolist() == [500.0, 500.0]


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
