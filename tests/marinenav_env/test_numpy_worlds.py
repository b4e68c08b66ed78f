"""Worlds in numpy: spaces, results, and the episodes that follow."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marinenav_env import ConfigError, Curriculum, Level, WorldConfig
from marinenav_env.config import SensorConfig
from marinenav_env.numpy_worlds import NumpyWorlds

PAIR = Curriculum((Level(2, 0, 1, 20.0),))


def worlds(flat: bool = False, continuous: bool = True, num_envs: int = 1) -> NumpyWorlds:
    config = WorldConfig(max_steps=2, sensor=SensorConfig(scan_beams=4))
    return NumpyWorlds(config, PAIR, continuous, flat, None, num_envs=num_envs)


def test_spaces_are_those_of_the_entries() -> None:
    found = worlds().observation_space()
    assert isinstance(found, spaces.Dict)
    shapes = {name: each.shape for name, each in found.items()}
    assert shapes == {"self_state": (7,), "objects_state": (5, 5), "objects_mask": (5,),
                      "scan": (4,)}  # fmt: skip
    assert isinstance(found["objects_mask"], spaces.MultiBinary)
    assert worlds(flat=True).observation_space().shape == (7 + 25 + 5 + 4,)
    assert worlds().action_space() == spaces.Box(-1.0, 1.0, (2,))
    assert worlds(continuous=False).action_space() == spaces.Discrete(25)


def test_results_of_steps_and_the_episode_that_follows() -> None:
    several = worlds(num_envs=3)
    several.restart(seed=0)
    for over in (False, True):
        several.act(torch.zeros(3, 2, 2))
        observation, reward, terminated, truncated, info = several.result(1)
        assert observation in spaces.Dict({
            name: spaces.Box(-np.inf, np.inf, (3, *each.shape), each.dtype)
            for name, each in several.observation_space().items()
        })  # fmt: skip
        assert [reward.shape, info["energy"].shape] == [(3,), (3,)]
        assert (truncated | terminated).tolist() == [over] * 3
    several.begin_next(np.array([True, False, True]))
    assert several.env.state.steps.tolist() == [0, 2, 0]


def test_the_only_world_is_taken_out_of_its_batch() -> None:
    batch = ({"a": np.ones((1, 2)), "b": np.array([True])}, np.array([0.5]))
    observation, reward = NumpyWorlds.only(batch)
    assert observation["a"].tolist() == [1.0, 1.0]
    assert (observation["b"], reward) == (True, 0.5)


def test_unknown_ways_to_draw_are_refused() -> None:
    with pytest.raises(ConfigError, match="render_mode='ansi': must be rgb_array or human"):
        NumpyWorlds(None, PAIR, True, False, "ansi")
