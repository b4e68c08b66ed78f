"""Many worlds against Gymnasium's own vectors of single ones; seeds and limits."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv

from marinenav_env import ConfigError, Curriculum, Level, WorldConfig
from marinenav_env.interfaces.gymnasium_env import MarineNavGymEnv, MarineNavVectorEnv
from tests.marinenav_env.helpers import simple_episode

PAIR = Curriculum((Level(2, 0, 1, 20.0),))
SHORT = WorldConfig(max_steps=5)
WORLDS, STEPS = 3, 25


def given():
    """Without noise; some end by an arrival or a collision, others by the limit of steps."""
    episodes = []
    for number in range(20 * WORLDS):
        far = 4.0 + 1.5 * (number % 4) if number % 3 else 40.0
        obstacles = [(7.0, 5.0, 1.0)] if number % 5 == 2 else []
        episodes.append(simple_episode([(5.0, 5.0, 0.0)], [(5.0 + far, 5.0)], obstacles))
    return episodes


def alike(actual, expected):
    """Nested results; rounding depends on the number of worlds."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for name in expected:
            alike(actual[name], expected[name])
    elif isinstance(expected, np.ndarray) and expected.dtype == object:
        for mine, other in zip(actual, expected, strict=True):
            alike(mine, other)
    elif expected is None:
        assert actual is None
    else:
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_episodes_follow_one_another_as_in_gymnasium():
    config, episodes = WorldConfig(max_steps=7), given()
    actual = MarineNavVectorEnv(WORLDS, config, scenarios=episodes)
    expected = SyncVectorEnv(
        [lambda first=first: MarineNavGymEnv(config, scenarios=episodes[first::WORLDS]) for first in range(WORLDS)],
        autoreset_mode=actual.metadata["autoreset_mode"],
    )
    alike(actual.reset(seed=0)[0], expected.reset(seed=0)[0])
    ends = 0
    for _ in range(STEPS):
        actions = np.ones((WORLDS, 2), np.float32)
        mine, other = actual.step(actions), expected.step(actions)
        for column in range(4):
            alike(mine[column], other[column])
        over = other[2] | other[3]
        ends += int(over.sum())
        assert mine[4].keys() >= other[4].keys()
        for name in ("is_success", "is_collision", "is_grounding", "energy"):
            there = other[4].get(f"_{name}", np.zeros(WORLDS, np.bool_))
            if there.any():
                alike(mine[4][name][there], other[4][name][there])
        for name in ("final_obs", "_final_obs", "final_info", "_final_info"):
            alike(mine[4].get(name), other[4].get(name))
    assert ends >= 6


@pytest.mark.parametrize(("requested", "length"), [(3, 3), (99, 5)])
def test_episodes_may_be_made_shorter(requested, length):
    """As by gymnasium.make, which wraps a single world."""
    far = replace(PAIR, levels=(Level(1, 0, 0, 40.0),))
    options = {"config": SHORT, "scenarios": far, "max_episode_steps": requested}
    envs = gymnasium.make_vec("MarineNav-v0", num_envs=2, **options)
    one = gymnasium.make("MarineNav-v0", **options)
    for env, action in ((envs, np.zeros((2, 2))), (one, np.zeros(2))):
        env.reset(seed=0)
        ends = [np.all(env.step(action)[3]) for _ in range(length)]
        assert ends == [False] * (length - 1) + [True]


@pytest.mark.parametrize("requested", [0, 2.5, True, "5"])
@pytest.mark.parametrize("name", ["num_envs", "max_episode_steps"])
def test_a_number_that_is_none_is_refused(name, requested):
    with pytest.raises(ConfigError, match=rf"^{name}=.*: must be a whole number, at least 1$"):
        MarineNavVectorEnv(**{name: requested})


def starts(envs, seed):
    """The own state of each world at its start."""
    found = envs.reset(seed=seed)[0]["self_state"].tolist()
    return found


def test_a_list_has_a_seed_for_each_world():
    envs = MarineNavVectorEnv(np.int64(3), SHORT, scenarios=PAIR)
    first = starts(envs, [1, 2, 3])
    assert len({tuple(each) for each in first}) == 3
    for same in ((1, 2, 3), np.array([1, 2, 3]), [np.int64(1), 2, np.uint8(3)]):
        assert starts(envs, same) == first
    for other in ([1, 2, 4], [3, 2, 1], 1, [1, 1, 1], [2**64 - 1, 0, 0]):
        assert starts(envs, other) != first
    alone = starts(MarineNavVectorEnv(1, SHORT, scenarios=PAIR), [1])
    assert len({tuple(each) for each in starts(envs, [1, 1, 1])} | set(map(tuple, alone))) == 4


@pytest.mark.parametrize(
    ("seed", "sentence"),
    [
        ([1, 2], r"^seed=\[1, 2\]: must be one, or a list of 3$"),
        ([1, None, 3], r"^seed=\[1, None, 3\]: must be given for all worlds or for none$"),
        ([1, 2, -3], r"^seed\[2\]=-3: must be a whole number from 0 to 2\^64 - 1$"),
    ],
)
def test_seeds_that_are_none_are_refused(seed, sentence):
    envs = MarineNavVectorEnv(3, SHORT, scenarios=PAIR)
    with pytest.raises(ConfigError, match=sentence):
        envs.reset(seed=seed)
