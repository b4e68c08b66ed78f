"""The VecEnv of stable-baselines3; needs the extra ``sb3``."""

import gymnasium
import numpy as np
import pytest

from marinenav_env import ConfigError, Curriculum, Level, WorldConfig
from marinenav_env.interfaces.gymnasium_env import MarineNavVectorEnv

PAIR = Curriculum((Level(2, 0, 1, 20.0),))
SHORT = WorldConfig(max_steps=5)


@pytest.fixture
def make():
    pytest.importorskip("stable_baselines3", reason="needs the extra sb3")
    from marinenav_env.interfaces.sb3_vec_env import MarineNavVecEnv

    return lambda count=3, **options: MarineNavVecEnv(count, **{"config": SHORT, "scenarios": PAIR} | options)


@pytest.mark.parametrize(
    ("continuous", "flat", "scaled"), [(True, True, True), (True, False, False), (False, False, True)]
)
def test_worlds_are_those_of_gymnasium_but_for_scales(make, continuous, flat, scaled):
    options = {"continuous": continuous, "flat": flat}
    actual = make(scaled=scaled, **options)
    reference = MarineNavVectorEnv(3, SHORT, scenarios=PAIR, **options)
    assert actual.action_space == reference.single_action_space
    assert actual.seed(7) == [7, 8, 9]
    seen, expected = actual.reset(), reference.reset(seed=[7, 8, 9])[0]

    def check(mine, other):
        parts = mine if isinstance(mine, dict) else {"": mine}
        others = other if isinstance(other, dict) else {"": other}
        for name, each in parts.items():
            scale = actual.scales.get(name, 1.0)
            np.testing.assert_allclose(each * scale, others[name], rtol=1e-5, atol=1e-5)
            assert each.dtype == others[name].dtype

    for _ in range(12):
        check(seen, expected)
        actions = np.stack([actual.action_space.sample() for _ in range(3)])
        seen, reward, done, infos = actual.step(actions)
        expected, other_reward, terminated, truncated, info = reference.step(actions)
        assert (reward == other_reward).all() and (done == (terminated | truncated)).all()
        for row, mine in enumerate(infos):
            assert mine["TimeLimit.truncated"] == (truncated[row] and not terminated[row])
            assert mine["energy"] == pytest.approx(info["energy"][row])
            assert ("terminal_observation" in mine) == done[row]
            if done[row]:
                check(mine["terminal_observation"], info["final_obs"][row])
                assert mine["terminal_observation"] in actual.observation_space
        assert all(
            {key: each[row] for key, each in seen.items()} in actual.observation_space
            if isinstance(seen, dict)
            else seen[row] in actual.observation_space
            for row in range(3)
        )


def test_scaled_numbers_are_about_one(make):
    env = make(64, flat=True, config=None, scenarios=None)
    seen = [env.reset()]
    seen += [env.step(np.zeros((64, 2), np.float32))[0] for _ in range(20)]
    spread = np.concatenate(seen).std(0)
    assert spread.max() < 3.0 and np.median(spread) > 0.1


def test_seeds_hold_for_the_next_reset_only(make):
    env = make()
    env.seed(3)
    first, second = (env.reset()["self_state"] for _ in range(2))
    env.seed(3)
    assert (env.reset()["self_state"] == first).all() and (second != first).any()
    env.seed()
    assert (env.reset()["self_state"] != first).any()


def test_attributes_and_methods_are_those_of_the_batch(make):
    env = make(render_mode="rgb_array")
    assert env.get_attr("num_envs") == [3] * 3 and env.get_attr("num_envs", 1) == [3]
    env.set_attr("mark", 5)
    assert env.get_attr("mark", [0, 2]) == [5, 5]
    assert env.env_method("reset", seed=1, indices=[0])[0][0]["self_state"].shape == (3, 7)
    assert env.env_is_wrapped(gymnasium.Wrapper) == [False] * 3
    assert not env.has_attr("nothing")
    env.reset()
    assert env.render().shape == (640, 640, 3)
    env.close()
    with pytest.raises(ConfigError, match="others="):
        make(others="drunk")
    with pytest.raises(ConfigError, match=r"^actions\.shape="):
        env.step(np.zeros(2))


@pytest.mark.slow
def test_stable_baselines3_trains_and_is_repeated(make):
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecMonitor

    for kind, policy, options in (
        (PPO, "MlpPolicy", {"flat": True}),
        (PPO, "MultiInputPolicy", {}),
        (DQN, "MultiInputPolicy", {"continuous": False}),
    ):
        rewards = []
        for _ in range(2):
            env = VecMonitor(make(16, **options))
            more = {"n_steps": 16} if kind is PPO else {"learning_starts": 64}
            model = kind(policy, env, seed=0, device="cpu", **more)
            model.learn(512)
            assert len(model.ep_info_buffer) > 10
            rewards.append([each["r"] for each in model.ep_info_buffer])
        assert rewards[0] == rewards[1]
        mean, _ = evaluate_policy(model, env, n_eval_episodes=20)
        assert np.isfinite(mean)
