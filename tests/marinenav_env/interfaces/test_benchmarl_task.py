"""The world as a task of BenchMARL, of which only the base class stands in here."""

import sys
from types import ModuleType

import pytest
import torch

from marinenav_env import GROUP, Curriculum, Level, WorldConfig

MODULE = "marinenav_env.interfaces.benchmarl_task"
WORLD = {
    "config": WorldConfig(max_steps=7),
    "scenarios": Curriculum((Level(3, 0, 1, 20.0),), pool_size=4, refresh_size=4),
}


class TaskClass:
    """What a task of BenchMARL knows of itself."""

    def __init__(self, name, config):
        self.name, self.config = name, config


@pytest.fixture
def task(monkeypatch):
    stand_in = ModuleType("benchmarl.environments.common")
    stand_in.TaskClass = TaskClass
    for name in ("benchmarl", "benchmarl.environments"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, stand_in.__name__, stand_in)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    import marinenav_env.interfaces.benchmarl_task as module

    yield module.MarineNavTask("anything", WORLD)
    sys.modules.pop(MODULE)


@pytest.mark.parametrize("continuous", [False, True])
def test_specs_are_those_of_one_world(task, continuous):
    env = task.get_env_fun(2, continuous, None, "cpu")()
    assert env.batch_size == (2,)
    assert task.group_map(env) == {GROUP: [f"robot_{each}" for each in range(3)]}
    assert task.max_steps(env) == 7
    step = env.rand_step(env.reset())
    seen = step[GROUP, "observation"]
    assert isinstance(seen, torch.Tensor)  # flat
    spec = task.observation_spec(env)
    assert list(spec.keys(True, True)) == [(GROUP, "observation")]
    assert spec[GROUP, "observation"].shape == seen.shape[1:] and spec[GROUP].shape == (3,)
    action = task.action_spec(env)[GROUP, "action"]
    assert action.shape == ((3, 2) if continuous else (3,))
    assert action.dtype == (torch.float32 if continuous else torch.int64)
    assert step[GROUP, "action"].shape == (2, *action.shape)


def test_worlds_of_one_seed_are_the_same(task):
    first, again, none, other = (task.get_env_fun(2, True, seed, "cpu")().reset()[GROUP] for seed in (5, 5, None, 6))
    assert torch.equal(first["observation"], again["observation"])
    drawn = task.get_env_fun(2, True, None, "cpu")().reset()[GROUP]
    assert not torch.equal(none["observation"], drawn["observation"])
    for each in (none, other):
        assert not torch.equal(first["observation"], each["observation"])
