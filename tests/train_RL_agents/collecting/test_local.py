"""The collector of this process as users of TorchRL know collectors."""

import pytest
import torch
from torchrl.collectors import BaseCollector

from marinenav_env import GROUP, Curriculum, Level, MarineNavEnv
from train_RL_agents.collecting.local import LocalCollector

POOL = Curriculum((Level(num_robots=3),), pool_size=8, refresh_size=8)


def world(seed=4):
    return MarineNavEnv(num_envs=2, scenarios=POOL, seed=seed)


def ahead(step):
    return step.set((GROUP, "action"), torch.ones(*step.batch_size, 3, 2))


def poses(batch):
    return batch["next", GROUP, "observation", "self_state"]


@pytest.mark.parametrize("steps", [1, 4])
def test_batches_are_iterated_like_those_of_torchrl(steps):
    collector = LocalCollector(world(), ahead, steps)
    assert isinstance(collector, BaseCollector)
    for _, batch in zip(range(3), collector, strict=False):
        assert batch.batch_size == (2, steps)
    assert collector.env.env_steps == 3 * 2 * steps


def test_a_restored_collector_goes_on_with_the_same_steps():
    collector = LocalCollector(world(), ahead, 5)
    collector.collect()
    state = collector.state_dict()
    expected = poses(collector.collect())
    other = LocalCollector(world(seed=9), ahead, 5)
    other.collect()
    other.load_state_dict(state)
    assert torch.equal(poses(other.collect()), expected)


def test_the_same_seed_gives_the_same_steps():
    first, second = (LocalCollector(world(seed), ahead, 5) for seed in (1, 2))
    assert not torch.equal(poses(first.collect()), poses(second.collect()))
    first, second = (LocalCollector(world(seed), ahead, 5) for seed in (1, 2))
    assert first.set_seed(7) == second.set_seed(7)
    assert torch.equal(poses(first.collect()), poses(second.collect()))


def test_shutdown_closes_the_world_unless_it_is_to_stay_open(monkeypatch):
    collector, closed = LocalCollector(world(), ahead), []
    monkeypatch.setattr(collector.env, "close", lambda **options: closed.append(options))
    collector.shutdown(close_env=False)
    assert not closed
    collector.shutdown()
    assert len(closed) == 1
