"""Many worlds against Gymnasium's own vectors of single ones; seeds, limits and autoreset."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from marinenav_env import ConfigError, Curriculum, Episode, Level, WorldConfig
from marinenav_env.interfaces.gymnasium_env import MarineNavGymEnv, MarineNavVectorEnv
from tests.marinenav_env.helpers import simple_episode

PAIR = Curriculum((Level(2, 0, 1, 20.0),))
SHORT = WorldConfig(max_steps=5)
WORLDS, STEPS = 3, 25


def given() -> list[Episode]:
    """Without noise; some end by an arrival or a collision, others by the limit of steps."""
    episodes = []
    for number in range(20 * WORLDS):
        far = 4.0 + 1.5 * (number % 4) if number % 3 else 40.0
        obstacles = [(7.0, 5.0, 1.0)] if number % 5 == 2 else []
        episodes.append(simple_episode([(5.0, 5.0, 0.0)], [(5.0 + far, 5.0)], obstacles))
    return episodes


def vectors(mode: AutoresetMode) -> tuple[MarineNavVectorEnv, SyncVectorEnv]:
    """The same worlds as one batch, and one by one."""
    config, episodes = WorldConfig(max_steps=7), given()
    ours = MarineNavVectorEnv(WORLDS, config, scenarios=episodes, autoreset_mode=mode)
    theirs = SyncVectorEnv(
        [lambda first=first: MarineNavGymEnv(config, scenarios=episodes[first::WORLDS]) for first in range(WORLDS)],
        autoreset_mode=mode,
    )
    return ours, theirs


def alike(ours: Any, theirs: Any) -> None:
    """Nested results; rounding depends on the number of worlds."""
    if isinstance(theirs, dict):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            alike(ours[name], theirs[name])
    elif isinstance(theirs, np.ndarray) and theirs.dtype == object:
        for mine, other in zip(ours, theirs, strict=True):
            alike(mine, other)
    elif theirs is None:
        assert ours is None
    else:
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", AutoresetMode)
def test_episodes_follow_one_another_as_in_gymnasium(mode: AutoresetMode) -> None:
    ours, theirs = vectors(mode)
    assert ours.metadata["autoreset_mode"] == mode
    alike(ours.reset(seed=0)[0], theirs.reset(seed=0)[0])
    ends = 0
    for _ in range(STEPS):
        actions = np.ones((WORLDS, 2), np.float32)
        mine, other = ours.step(actions), theirs.step(actions)
        for column in range(4):
            alike(mine[column], other[column])
        over = other[2] | other[3]
        ends += int(over.sum())
        assert mine[4].keys() >= other[4].keys()
        for name in ("is_success", "is_collision", "energy"):
            there = other[4].get(f"_{name}", np.zeros(WORLDS, np.bool_))
            if there.any():
                alike(mine[4][name][there], other[4][name][there])
        if mode == AutoresetMode.SAME_STEP and over.any():
            for name in ("final_obs", "_final_obs", "final_info", "_final_info"):
                alike(mine[4][name], other[4][name])
        elif mode == AutoresetMode.DISABLED and over.any():
            options = [{"reset_mask": over.copy()} for _ in range(2)]
            alike(ours.reset(options=options[0])[0], theirs.reset(options=options[1])[0])
    assert ends >= 6


def test_without_autoreset_an_episode_that_is_over_has_to_be_reset() -> None:
    ours, _ = vectors(AutoresetMode.DISABLED)
    ours.reset(seed=0)
    actions = np.ones((WORLDS, 2), np.float32)
    while not (over := np.logical_or(*ours.step(actions)[2:4])).any():
        pass
    with pytest.raises(ConfigError, match=r"^reset='of worlds \["):
        ours.step(actions)
    for mask in (over[:2], over.astype(int), list(over)):
        with pytest.raises(ConfigError, match=r"^reset_mask=.*: must be an array of 3 truth val"):
            ours.reset(options={"reset_mask": mask})
    with pytest.raises(ConfigError, match="without a seed"):
        ours.reset(seed=1, options={"reset_mask": over})
    ours.reset(options={"reset_mask": over})
    ours.step(actions)


@pytest.mark.parametrize("mode", [AutoresetMode.SAME_STEP, AutoresetMode.DISABLED.value])
def test_the_mode_is_chosen_by_make_vec(mode: Any) -> None:
    options: dict[str, Any] = {"config": SHORT, "scenarios": PAIR}
    envs = gymnasium.make_vec("MarineNav-v0", 2, autoreset_mode=mode, **options)
    assert envs.metadata["autoreset_mode"] == AutoresetMode(mode)


@pytest.mark.parametrize(("asked", "length"), [(3, 3), (99, 5)])
def test_episodes_may_be_made_shorter(asked: int | None, length: int) -> None:
    """As by gymnasium.make, which wraps a single world."""
    far = replace(PAIR, levels=(Level(1, 0, 0, 40.0),))
    options: dict[str, Any] = {"config": SHORT, "scenarios": far, "max_episode_steps": asked}
    envs = gymnasium.make_vec("MarineNav-v0", num_envs=2, **options)
    one = gymnasium.make("MarineNav-v0", **options)
    for env, action in ((envs, np.zeros((2, 2))), (one, np.zeros(2))):
        env.reset(seed=0)
        ends = [np.all(env.step(action)[3]) for _ in range(length)]
        assert ends == [False] * (length - 1) + [True]


@pytest.mark.parametrize("asked", [0, -1, 2.5, True, "5"])
def test_a_length_that_is_none_is_refused(asked: Any) -> None:
    with pytest.raises(ConfigError, match=r"^max_episode_steps=.*: must be a whole number, at le"):
        gymnasium.make_vec("MarineNav-v0", num_envs=2, max_episode_steps=asked)


@pytest.mark.parametrize("asked", [0, -1, 2.5, True, "5", None])
def test_a_number_of_worlds_that_is_none_is_refused(asked: Any) -> None:
    with pytest.raises(ConfigError, match=r"^num_envs=.*: must be a whole number, at least 1$"):
        MarineNavVectorEnv(asked)
    assert MarineNavVectorEnv(np.int64(2)).num_envs == 2


def starts(envs: MarineNavVectorEnv, seed: Any) -> list[list[float]]:
    """The own state of each world at its start."""
    found: list[list[float]] = envs.reset(seed=seed)[0]["self_state"].tolist()
    return found


def test_a_list_has_a_seed_for_each_world() -> None:
    envs = MarineNavVectorEnv(3, SHORT, scenarios=PAIR)
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
        ([1, 2.5, 3], r"^seed\[1\]=2\.5: must be a whole number"),
        ([True] * 3, r"^seed\[0\]=True: must be a whole number"),
        (2**64, r"^seed=18446744073709551616: must be a whole number"),
        ("1", r"^seed='1': must be a whole number"),
    ],
)
def test_seeds_that_are_none_are_refused(seed: Any, sentence: str) -> None:
    envs = MarineNavVectorEnv(3, SHORT, scenarios=PAIR)
    with pytest.raises(ConfigError, match=sentence):
        envs.reset(seed=seed)
