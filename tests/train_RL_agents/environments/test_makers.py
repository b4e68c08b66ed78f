"""Names and arguments of environments of others."""

import re

import gymnasium
import numpy as np
import pytest
import torch
import torchrl

from marinenav_env import GROUP, ConfigError
from marinenav_env.support import plugins
from tests.refusals import refusal
from tests.train_RL_agents.environments.helpers import Chase
from train_RL_agents.config.environment import EnvConfig
from train_RL_agents.environments.makers import make_env, read_options

CPU = torch.device("cpu")
HERE = "tests.train_RL_agents.environments.helpers"


@pytest.fixture(autouse=True)
def allowed():
    names = ("Chase", "Tutored", "Alone", "no_environment", "resets_late", "broken", "Harbour")
    plugins.allow(*(f"{HERE}:{name}" for name in names))


def base_of(name, num_envs=2, **settings):
    return make_env(EnvConfig(name, **settings), num_envs, CPU, 0).base


def test_a_batched_environment_is_taken_as_it_is():
    env = base_of(f"{HERE}:Chase", options=("ends=each",))
    assert isinstance(env, Chase) and env.ends == "each" and env.batch_size == (2,)


def test_a_single_environment_is_made_as_often_as_needed_with_other_seeds():
    env = base_of(f"{HERE}:Alone", 3)
    assert env.batch_size == (3,)
    speeds = env.reset()["speed"]
    assert len(set(speeds.tolist())) == 3
    assert base_of("gymnasium:CartPole-v1").reset()["observation"].shape == (2, 4)


@pytest.mark.parametrize(("choices", "num_actions"), [([3, 3], 9), ([3, 2], 6), ([[2, 2], [2, 2]], 16)])
def test_multi_discrete_actions_of_gymnasium_are_all_combinations(choices, num_actions):
    class Grid(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
        action_space = gymnasium.spaces.MultiDiscrete(choices)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(2, np.float32), {}

        def step(self, action):
            self.taken = np.asarray(action)
            return np.zeros(2, np.float32), float(self.taken.sum()), False, False, {}

    gymnasium.register("Grid-v0", entry_point=Grid, max_episode_steps=30)
    try:
        env = make_env(EnvConfig("gymnasium:Grid-v0"), 2, CPU, 0)
    finally:
        del gymnasium.registry["Grid-v0"]
    assert env.action_space.num_actions == num_actions
    step = env.reset()
    step = env.step(step.set((GROUP, "action"), torch.tensor([[0], [num_actions - 1]])))
    last = float((np.array(choices) - 1).sum())
    assert step["next", GROUP, "reward"].flatten().tolist() == [0.0, last]


def test_an_environment_that_seeds_the_global_generator_affects_no_other_and_not_the_program():
    config, program = EnvConfig(f"{HERE}:Tutored"), torch.get_rng_state()
    starts = []
    for evaluates in (False, True):
        training = make_env(config, 2, CPU, 5)
        training.reset()
        if evaluates:
            make_env(config, 2, CPU, 0).reset()
        starts.append(training.reset()["robots", "observation", "place"])
    assert torch.equal(*starts)
    assert not torch.equal(starts[0], make_env(config, 2, CPU, 6).reset()["robots", "observation", "place"])
    assert torch.equal(torch.get_rng_state(), program)


def test_options_are_json_or_text():
    options = read_options(EnvConfig("vmas:navigation", ("n_agents=4", "shared=true", "kind=wide"), 9))
    assert options == {"n_agents": 4, "shared": True, "kind": "wide"}


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("gymnasium:os:system", {}, "an ID without a module"),
        ("pettingzoo:../secret", {}, "a family and an environment"),
        ("vmas:../secret", {"max_steps": 5}, "a scenario, such as vmas:navigation"),
        ("tests.unknown_module:Env", {}, "does not load from files"),
        ("gymnasium:CartPole-v1", {"options": ("backend=antigravity",)}, "it cannot be made"),
        ("vmas:navigation", {"max_steps": 5, "options": ("max_steps=9",)}, "env.max_steps limits episodes"),
        (f"{HERE}:no_environment", {}, "a function that returns an EnvBase, not str"),
        pytest.param(f"{HERE}:resets_late", {}, "autoreset_mode='NEXT_STEP': must be", marks=pytest.mark.heavy),
        (f"{HERE}:Harbour", {}, r"such as make_env\(num_envs, device, seed\) with GymWrapper"),
        (f"{HERE}:broken", {}, r"it cannot be made \(OSError: no water, .*helpers\.py, line"),
        (f"{HERE}:Chase", {"options": ("speed=3",)}, "it cannot be made"),
        (f"{HERE}:Chase", {"options": ("ends",)}, "name=value"),
    ],
)
def test_names_and_options_that_cannot_be_used_get_a_sentence(name, settings, says):
    assert re.search(says, refusal(base_of, name, **settings))


@pytest.mark.parametrize("settings", [{"options": ("action=unbounded",)}, {"options": ("action=many",)}])
def test_an_environment_that_training_does_not_support_is_closed(settings, monkeypatch):
    closed = []
    monkeypatch.setattr(Chase, "close", lambda self, **_: closed.append(self))
    with pytest.raises(ConfigError, match=r"fleet\.action"):
        base_of(f"{HERE}:Chase", **settings)
    assert len(closed) == 1


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"name": "sea"}, "env.name"),
        ({"name": "vmas:"}, "env.name"),
        ({"name": "vmas:navigation"}, "env.max_steps"),
        ({"name": "gymnasium:CartPole-v1", "max_steps": -1}, "env.max_steps"),
    ],
)
def test_settings_without_sense_are_refused(settings, key):
    with pytest.raises(ConfigError, match=key):
        EnvConfig(**settings)


@pytest.mark.parametrize("parallel", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_number_of_threads_stays_what_was_asked_for(parallel, monkeypatch):
    """TorchRL raises it when it closes several environments, and lowers it when it starts their processes."""
    monkeypatch.setattr(torchrl, "_THREAD_POOL_INIT", 8)
    torch.set_num_threads(3)  # the fixture of all tests restores it
    env = make_env(EnvConfig(f"{HERE}:Alone", parallel=parallel), 2, CPU, 0)
    env.step(env.rand_action(env.reset()))
    stepping = torch.get_num_threads()
    env.close()
    assert (stepping, torch.get_num_threads()) == (3, 3)
