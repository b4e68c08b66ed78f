"""Environments of other libraries by their short names, where these are installed."""

import re

import gymnasium
import pytest
import torch
from torchrl.envs import check_env_specs

from marinenav_env import ConfigError
from tests.refusals import refusal
from tests.train_RL_agents.environments.helpers import Harbour
from train_RL_agents.config.environment import EnvConfig
from train_RL_agents.environments.makers import make_env

CASES = {
    "gymnasium:CartPole-v1": (None, {}, 1, 2),
    "gymnasium:Pendulum-v1": (None, {}, 1, 0),
    "pettingzoo:mpe2/simple_spread_v3": ("mpe2", {"options": ("continuous_actions=true",)}, 3, 0),
    "pettingzoo:mpe2/simple_reference_v3": ("mpe2", {}, 2, 50),
    "vmas:navigation": ("vmas", {"options": ("n_agents=2",), "max_steps": 20}, 2, 0),
    "vmas:transport": ("vmas", {"options": ("continuous_actions=false",), "max_steps": 20}, 4, 9),
}


@pytest.fixture
def _harbour(monkeypatch):
    """Harbour-v0 is an environment of Gymnasium."""
    spec = gymnasium.envs.registration.EnvSpec("Harbour-v0", Harbour)
    monkeypatch.setitem(gymnasium.registry, "Harbour-v0", spec)


@pytest.mark.usefixtures("_harbour")
@pytest.mark.parametrize("key", ["is_success", "success", ""])
def test_gymnasium_tells_success_in_its_info(key):
    env = make_env(EnvConfig("gymnasium:Harbour-v0", (f"key={key}",)), 2, torch.device("cpu"), 0)
    assert env.statistics == ("return", "length", *(("success",) if key else ()))
    step = env.reset()
    for _ in range(2):
        step["robots", "action"] = torch.tensor([[1], [0]])
        step, following = env.step_and_maybe_reset(step)
        last, step = step, following
    assert last["next", "done"].all()
    assert last["next", "episode_statistics"].tolist() == [
        [2.0, 2.0, *[1.0][: len(key)]],
        [2.0, 2.0, *[0.0][: len(key)]],
    ]


@pytest.mark.parametrize("name", CASES)
def test_an_environment_of_a_library_is_adapted(name):
    package, settings, robots, actions = CASES[name]
    if package is not None:
        pytest.importorskip(package)
    env = make_env(EnvConfig(name, **settings), 2, torch.device("cpu"), 0)
    assert (env.num_robots, env.action_space.num_actions) == (robots, actions)
    check_env_specs(env)
    step, ended = env.reset(), 0
    for _ in range(60):
        step, following = env.step_and_maybe_reset(env.rand_action(step))
        ended += int(step["next", "done"].sum())
        step = following
    assert ended > 0 or name == "gymnasium:Pendulum-v1"


@pytest.mark.usefixtures("_harbour")
@pytest.mark.parametrize("breaks", ["1", "2", "3", "step"])
def test_an_environment_of_gymnasium_that_fails_while_it_begins_gets_a_sentence(breaks):
    config = EnvConfig("gymnasium:Harbour-v0", (f'breaks="{breaks}"',))
    message = refusal(lambda: make_env(config, 2, torch.device("cpu"), 0).reset())
    assert re.search(r"Harbour-v0: .* failed|it cannot be made \(ValueError: the winch", message)


def test_a_tuple_of_observations_is_refused():
    with pytest.raises(ConfigError, match="observation='a Tuple of spaces': must be a Dict of them"):
        make_env(EnvConfig("gymnasium:Blackjack-v1"), 2, torch.device("cpu"), 0)


@pytest.mark.usefixtures("_harbour")
def test_actions_that_do_not_begin_at_0_are_refused_and_the_environment_is_closed(monkeypatch):
    closed: list[Harbour] = []
    monkeypatch.setattr(Harbour, "close", lambda env: closed.append(env))
    with pytest.raises(ConfigError, match="Harbour-v0: the first action=1: must be 0"):
        make_env(EnvConfig("gymnasium:Harbour-v0", ("start=1",)), 2, torch.device("cpu"), 0)
    assert len(closed) == 1
