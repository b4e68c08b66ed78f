"""Worlds in numpy: the episodes that follow one another."""

from marinenav_env import Curriculum, Level
from marinenav_env.interfaces.numpy_worlds import NumpyWorlds

PAIR = Curriculum((Level(2, 0, 1, 20.0),))


def starts(given):
    """Where the first robot of each world starts."""
    return given.env.scenario.start[:, 0].tolist()


def test_every_episode_of_one_world_has_a_scenario_of_its_own():
    one = NumpyWorlds(None, PAIR, True, False, None)
    one.reset(seed=0)
    seen = starts(one)
    for _ in range(12):
        one.reset()
        seen += starts(one)
    assert len(set(map(tuple, seen))) == 13
    assert one.env.reset_pool.states.batch_size == (1,)


def test_several_worlds_share_the_pool_that_was_asked_for():
    several = NumpyWorlds(None, PAIR, True, False, None, num_envs=4)
    several.reset(seed=0)
    assert several.env.reset_pool.states.batch_size == (PAIR.pool_size,)
    assert len(set(map(tuple, starts(several)))) == 4


def test_a_seed_begins_its_stream_of_episodes_again():
    one = NumpyWorlds(None, PAIR, True, False, None)
    seen = []
    for seed in (3, None, 3, None, 4):
        one.reset(seed)
        seen += starts(one)
    assert seen[:2] == seen[2:4] and seen[0] != seen[1] and seen[4] not in seen[:4]
