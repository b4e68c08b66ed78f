"""The environment in TorchRL's workers: copies of one factory, in this process and in others."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs import EnvBase, EnvCreator, ParallelEnv, RewardSum, SerialEnv, TransformedEnv, check_env_specs

from marinenav_env import GROUP, MarineNavEnv
from tests.marinenav_env.env_helpers import MIXTURE, SHORT, equal

OBSERVED = (GROUP, "observation", "self_state")
unseeded = partial(MarineNavEnv, SHORT, 3, scenarios=MIXTURE)


def transformed() -> EnvBase:
    keys: Any = {"in_keys": [(GROUP, "reward")], "out_keys": [(GROUP, "episode_reward")]}
    return TransformedEnv(unseeded(), RewardSum(**keys, reset_keys=["_reset"]))


def in_processes(count: int, factory: Callable[[], EnvBase], method: str = "fork") -> EnvBase:
    return ParallelEnv(count, factory, mp_start_method=method)


WAYS = {
    "serial": SerialEnv,
    "processes": in_processes,
    "a creator": lambda count, factory: SerialEnv(count, EnvCreator(factory)),
    "a creator that copies": lambda count, factory: SerialEnv(count, EnvCreator(factory, share_memory=False)),
    "transformed": lambda count, factory: in_processes(count, transformed),
}
QUICK = [pytest.param(way, marks=[pytest.mark.slow] * (way == "transformed")) for way in WAYS]


@pytest.mark.parametrize("way", QUICK)
def test_a_seed_gives_every_worker_a_stream_of_its_own(way: str) -> None:
    starts = []
    for seed in (5, 5, 6):
        with closing(WAYS[way](2, unseeded)) as env:
            env.set_seed(seed)
            starts.append(env.reset()[OBSERVED].clone())
    first, again, other = starts
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(first[0], first[1])


@pytest.mark.parametrize("way", QUICK)
def test_specs_hold_in_workers_of_one_factory_which_differ(way: str) -> None:
    with closing(WAYS[way](2, unseeded)) as env:
        seen = env.rollout(12, break_when_any_done=False)
        assert seen.shape == (2, 3, 12) and not torch.equal(*seen[OBSERVED])
        check_env_specs(env, seed=0)


def test_the_state_of_workers_in_processes_is_saved_and_restored() -> None:
    """By states alone: the reset after load_state_dict returns before it is done in ParallelEnv of torchrl 0.14.1."""
    with closing(in_processes(2, unseeded)) as env:
        env.rollout(4, break_when_any_done=False)
        state = env.state_dict()
        env.rollout(2, break_when_any_done=False)
        assert not equal(TensorDict(env.state_dict()), TensorDict(state))
        env.load_state_dict(state)
        assert equal(TensorDict(env.state_dict()), TensorDict(state))


def test_without_a_seed_every_world_differs() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first, second = unseeded(), unseeded(seed=None)
    assert torch.equal(torch.get_rng_state(), before)
    assert not equal(first.reset(), second.reset())
    first.set_seed(3)
    expected = first.reset().clone()
    first.set_seed(None)
    assert not equal(first.reset(), expected)
    first.set_seed(3)
    assert equal(first.reset(), expected)
