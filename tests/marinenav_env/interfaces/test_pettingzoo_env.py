import warnings

import numpy as np
import pytest

from marinenav_env import ConfigError, Curriculum, Level, WorldConfig

PAIR = Curriculum((Level(2, 0, 1, 20.0),))
SHORT = WorldConfig(max_steps=5)


@pytest.fixture
def make():
    pytest.importorskip("pettingzoo", reason="needs the extra pettingzoo")
    from marinenav_env.interfaces.pettingzoo_env import MarineNavParallelEnv

    return MarineNavParallelEnv


@pytest.mark.parametrize("continuous", [True, False])
def test_pettingzoo_finds_nothing_to_complain_about(make, continuous):
    from pettingzoo.test import parallel_api_test

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        parallel_api_test(make(SHORT, scenarios=PAIR, continuous=continuous), num_cycles=8)


def test_agents_are_the_robots_of_the_scenario(make):
    env = make(SHORT, scenarios=Curriculum((Level(3, 0, 0, 20.0), Level(1, 0, 0, 20.0))))
    assert env.possible_agents == ["robot_0", "robot_1", "robot_2"]
    counts = {len(env.reset(seed=seed)[0]) for seed in range(8)}
    assert counts == {1, 3}


def test_agents_that_end_leave_with_a_last_observation(make):
    one_near = WorldConfig(vessel=type(SHORT.vessel)(goal_distance=(100.0, 2.0)))
    env = make(one_near, scenarios=PAIR)
    env.reset(seed=0)
    idle = {name: np.zeros(2, np.float32) for name in env.agents}
    observations, rewards, terminated, truncated, infos = env.step(idle)
    assert terminated == {"robot_0": True, "robot_1": False}
    assert env.agents == ["robot_1"]
    assert observations["robot_0"]["self_state"].any()
    assert infos["robot_0"]["is_success"]
    assert not any(truncated.values())
    observations, rewards, *_ = env.step({"robot_1": np.zeros(2, np.float32)})
    assert list(observations) == list(rewards) == ["robot_1"]


def test_every_agent_steers_its_own_vessel(make):
    env = make(SHORT, scenarios=PAIR)
    env.reset(seed=0)
    actions = {"robot_1": np.array([1.0, -0.5]), "robot_0": np.array([0.0, 0.25])}
    seen = env.step(actions)[0]
    # 1000 N/s for 0.5 s at full command.
    assert seen["robot_0"]["self_state"][5:].tolist() == [0.0, 125.0]
    assert seen["robot_1"]["self_state"][5:].tolist() == [500.0, -250.0]


def test_all_agents_leave_when_time_is_up(make):
    env = make(SHORT, scenarios=PAIR, continuous=False)
    env.reset(seed=0)
    for number in range(1, 6):
        _, rewards, terminated, truncated, infos = env.step({"robot_0": 0, "robot_1": 0})
        assert rewards == pytest.approx({"robot_0": -0.1, "robot_1": -0.1})
        assert not any(terminated.values())
        assert list(truncated.values()) == [number == 5] * 2
        assert infos["robot_0"] == {"is_success": False, "is_collision": False, "is_grounding": False, "energy": 0.0}
    assert env.agents == []
    assert len(env.reset(seed=0)[0]) == 2


def test_a_seed_gives_the_same_episode(make):
    env = make(SHORT, scenarios=PAIR, flat=True)
    first, second, again = (env.reset(seed)[0]["robot_0"] for seed in (3, None, 3))
    assert first.shape == (37,) and first in env.observation_space("robot_0")
    assert np.array_equal(first, again) and not np.array_equal(first, second)


def test_a_step_before_the_reset_is_refused(make):
    with pytest.raises(ConfigError, match=r"^step: must come after reset$"):
        make(SHORT, scenarios=PAIR).step({"robot_0": np.zeros(2)})


@pytest.mark.parametrize("extra", [None, {"robot_9": np.zeros(2)}])
def test_actions_of_other_agents_are_refused(make, extra):
    env = make(SHORT, scenarios=PAIR)
    env.reset(seed=0)
    actions = None if extra is None else dict.fromkeys(env.agents, np.zeros(2)) | extra
    with pytest.raises(ConfigError, match=r"^actions=.*: must be a dictionary .* robot_0, robot_1"):
        env.step(actions)


def test_an_action_that_is_none_is_refused(make):
    env = make(SHORT, scenarios=PAIR)
    env.reset(seed=0)
    assert env.agents == ["robot_0", "robot_1"]
    fine, robots = np.zeros(2), r"\['robot_1'\]"
    with pytest.raises(ConfigError, match=rf"^actions{robots}\.shape=\[\]: must be \[2\]$"):
        env.step({"robot_0": fine, "robot_1": 0.5})
    with pytest.raises(ConfigError, match=rf"^actions=\['robot_0'\]: must be .* also {robots}$"):
        env.step({"robot_0": fine})
    env.step({"robot_0": fine, "robot_1": fine})
