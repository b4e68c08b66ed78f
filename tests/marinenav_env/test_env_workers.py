"""The environment in TorchRL's workers: copies of one factory, in this process and in others."""

from contextlib import closing
from functools import partial

import pytest
import torch
from tensordict import TensorDict
from torchrl.envs import EnvCreator, ParallelEnv, RewardSum, SerialEnv, TransformedEnv, check_env_specs

from marinenav_env import GROUP, MarineNavEnv
from tests.marinenav_env.env_helpers import MIXTURE, SHORT, equal

OBSERVED = (GROUP, "observation", "self_state")
unseeded = partial(MarineNavEnv, SHORT, 3, scenarios=MIXTURE)


def transformed():
    keys = {"in_keys": [(GROUP, "reward")], "out_keys": [(GROUP, "episode_reward")]}
    return TransformedEnv(unseeded(), RewardSum(**keys, reset_keys=["_reset"]))


def in_processes(count, factory, method="fork"):
    return ParallelEnv(count, factory, mp_start_method=method)


WAYS = {
    "serial": SerialEnv,
    "processes": in_processes,
    "a creator": lambda count, factory: SerialEnv(count, EnvCreator(factory)),
    "a creator that copies": lambda count, factory: SerialEnv(count, EnvCreator(factory, share_memory=False)),
    "transformed": lambda count, factory: in_processes(count, transformed),
}
QUICK = [pytest.param(way, marks=[pytest.mark.slow] * (number > 2)) for number, way in enumerate(WAYS)]


@pytest.mark.parametrize("way", QUICK)
def test_workers_of_one_factory_differ_and_are_as_their_seed_and_specs(way):
    with closing(WAYS[way](2, unseeded)) as env:
        seen = env.rollout(12, break_when_any_done=False)
        assert seen.shape == (2, 3, 12) and not torch.equal(*seen[OBSERVED])
        check_env_specs(env, seed=0)
        starts = []
        for seed in (5, 5, 6):
            env.set_seed(seed)
            starts.append(env.reset()[OBSERVED].clone())
    first, again, other = starts
    assert torch.equal(first, again) and not torch.equal(first, other)
    assert not torch.equal(*first)


def test_the_state_of_workers_in_processes_is_saved_and_restored():
    """By states alone: the reset after load_state_dict returns before it is done in ParallelEnv of torchrl 0.14.1."""
    with closing(in_processes(2, unseeded)) as env:
        env.rollout(2, break_when_any_done=False)
        state = env.state_dict()
        env.rollout(2, break_when_any_done=False)
        assert not equal(TensorDict(env.state_dict()), TensorDict(state))
        env.load_state_dict(state)
        assert equal(TensorDict(env.state_dict()), TensorDict(state))


def test_without_a_seed_every_world_differs():
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
