"""Worlds in numpy: spaces, results, and the episodes that follow."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marinenav_env import Curriculum, Level, WorldConfig
from marinenav_env.config import SensorConfig
from marinenav_env.interfaces.numpy_worlds import NumpyWorlds
from tests.marinenav_env.helpers import simple_episode

PAIR = Curriculum((Level(2, 0, 1, 20.0),))


def worlds(flat: bool = False, continuous: bool = True, num_envs: int = 1) -> NumpyWorlds:
    config = WorldConfig(max_steps=2, sensor=SensorConfig(scan_beams=4))
    return NumpyWorlds(config, PAIR, continuous, flat, None, num_envs=num_envs)


def test_spaces_are_those_of_the_entries() -> None:
    found = worlds().observation_space()
    assert isinstance(found, spaces.Dict)
    shapes = {name: each.shape for name, each in found.items()}
    assert shapes == {"self_state": (7,), "objects_state": (5, 5), "objects_mask": (5,), "scan": (4,)}
    assert found["objects_mask"] == spaces.MultiBinary(5)
    assert worlds(flat=True).observation_space().shape == (7 + 25 + 5 + 4,)
    assert worlds().action_space() == spaces.Box(-1.0, 1.0, (2,))
    assert worlds(continuous=False).action_space() == spaces.Discrete(25)


def test_results_of_steps_and_the_episode_that_follows() -> None:
    several = worlds(num_envs=3)
    several.reset(seed=0)
    for over in (False, True):
        several.step_all(torch.zeros(3, 2, 2))
        observation, reward, terminated, truncated, info = several.result(1)
        assert observation in spaces.Dict(
            {
                name: spaces.Box(-np.inf, np.inf, (3, *each.shape), each.dtype)
                for name, each in several.observation_space().items()
            }
        )
        assert [reward.shape, info["energy"].shape] == [(3,), (3,)]
        assert (truncated | terminated).tolist() == [over] * 3
    several.start_episodes(np.array([True, False, True]))
    assert several.env.state.steps.tolist() == [0, 2, 0]


def test_the_only_world_is_taken_out_of_its_batch() -> None:
    batch = ({"a": np.ones((1, 2)), "b": np.array([True])}, np.array([0.5]))
    observation, reward = NumpyWorlds.remove_batch_dimension(batch)
    assert observation["a"].tolist() == [1.0, 1.0]
    assert (observation["b"], reward) == (True, 0.5)


def starts(given: NumpyWorlds) -> list[list[float]]:
    """Where the first robot of each world starts."""
    return given.env.scenario.start[:, 0].tolist()


def test_every_episode_of_one_world_has_a_scenario_of_its_own() -> None:
    one = NumpyWorlds(None, PAIR, True, False, None)
    one.reset(seed=0)
    seen = starts(one)
    for _ in range(12):
        one.reset()
        seen += starts(one)
    assert len(set(map(tuple, seen))) == 13
    assert one.env.reset_pool.states.batch_size == (1,)


def test_several_worlds_share_the_pool_that_was_asked_for() -> None:
    several = worlds(num_envs=4)
    several.reset(seed=0)
    assert several.env.reset_pool.states.batch_size == (PAIR.pool_size,)
    assert len(set(map(tuple, starts(several)))) == 4


def test_a_seed_begins_its_stream_of_episodes_again() -> None:
    one = worlds()
    seen = []
    for seed in (3, None, 3, None, 4):
        one.reset(seed)
        seen += starts(one)
    assert seen[:2] == seen[2:4] and seen[0] != seen[1] and seen[4] not in seen[:4]


def test_restarts_without_a_seed_go_on_with_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def randbits(bits: int) -> int:
        drawn.append(bits)
        return 7

    monkeypatch.setattr("secrets.randbits", randbits)
    unseeded, seeded = worlds(), worlds()
    assert len(drawn) == 2
    unseeded.reset()
    seeded.reset(seed=7)
    assert starts(unseeded) == starts(seeded)
    for each in (unseeded, seeded):
        each.reset()
    assert starts(unseeded) == starts(seeded) and len(drawn) == 2


@pytest.mark.parametrize("mode", [None, "rgb_array", "human"])
def test_pictures_are_drawn_as_the_mode_says(mode: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    one = NumpyWorlds(WorldConfig(), PAIR, True, False, mode, render_fps=12.0)
    calls: list[tuple[Any, ...]] = []

    def render(*given: Any) -> Any:
        calls.append(given)
        return np.zeros((2, 2, 3), np.uint8)

    monkeypatch.setattr(one.env, "render", render)
    one.reset(seed=0)
    one.step_all(torch.zeros(1, 2, 2))
    assert calls == ([("human", 12.0)] * 2 if mode == "human" else [])
    picture = one.render()
    assert (picture is not None) == (mode == "rgb_array")
    assert len(calls) == {None: 0, "rgb_array": 1, "human": 2}[mode]


def test_a_robot_that_collides_says_so() -> None:
    given = simple_episode([(20.0, 20.0, 0.0), (5.0, 5.0, 0.0)], [(50.0, 50.0), (6.0, 5.0)], [(21.0, 20.0, 1.0)])
    one = NumpyWorlds(None, [given], True, True, None)
    one.reset(seed=0)
    one.step_all(torch.ones(1, 2, 2))
    infos = [one.result(robot)[4] for robot in range(2)]
    assert [info["is_collision"].tolist() for info in infos] == [[True], [False]]
    assert [info["is_success"].tolist() for info in infos] == [[False], [True]]
    assert [one.result(robot)[2].tolist() for robot in range(2)] == [[True], [True]]
    # Both thrusters reach 500 N within the step of 0.5 s: 1 * 2 * 500 N * 0.5 s.
    assert [info["energy"].tolist() for info in infos] == [[500.0]] * 2
    observation = one.result(0)[0]
    assert observation.shape == (1, 37) and observation.dtype == np.float32


def test_closing_closes_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []
    renderer = SimpleNamespace(render=lambda *given: None, close=lambda: closed.append(True))
    monkeypatch.setattr("marinenav_env.env.make_renderer", lambda *given: renderer)
    one = worlds(num_envs=2)
    one.env.render()
    one.close()
    assert closed == [True]
