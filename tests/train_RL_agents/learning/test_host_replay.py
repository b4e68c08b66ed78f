"""Replay on the host against replay on the device, whose batches are drawn as early."""

from collections import deque

import pytest
import torch
from torch.utils._pytree import tree_map_only

from marinenav_env import ConfigError
from tests.train_RL_agents.helpers import seeded
from tests.train_RL_agents.learning.helpers import example, held, insert_rows, rows_of
from tests.train_RL_agents.tiny_runs import differences
from train_RL_agents.learning.host_replay import NUM_PREFETCHED, HostReplay
from train_RL_agents.learning.replay import SLOT_KEY, WEIGHTS_KEY, Replay

pytestmark = pytest.mark.usefixtures("either_way")
CPU = torch.device("cpu")


class EarlyReplay:
    """Replay on the device; a batch is drawn when the one NUM_PREFETCHED before it is taken."""

    def __init__(self, replay):
        self.replay, self.drawn = replay, deque()

    def sample(self):
        while len(self.drawn) < NUM_PREFETCHED:
            self.drawn.append(self.replay.sample())
        self.drawn.append(self.replay.sample())
        return self.drawn.popleft()

    def __getattr__(self, name):
        return getattr(self.replay, name)


def both(alpha, capacity=40):
    host = HostReplay(Replay(example(), capacity, 16, seeded(3), alpha), CPU)
    return host, EarlyReplay(Replay(example(), capacity, 16, seeded(3), alpha))


def turn(replay, number):
    """Insert, draw twice and set priorities, all of it told by the turn's number."""
    generator = seeded(number)
    stored = torch.rand(9, generator=generator) < 0.6
    insert_rows(replay, rows_of(range(10 * number + 1, 10 * number + 10), stored))
    replay.set_beta(0.4 + 0.01 * number)
    drawn = []
    for _ in range(2):
        drawn.append(replay.sample())
        replay.update_priority(drawn[-1], torch.rand(16, generator=generator))
    return drawn


@pytest.mark.parametrize("alpha", [None, 0.5])
def test_rows_are_those_of_replay_on_the_device_drawn_as_early(alpha):
    host, device = both(alpha)
    for number in range(25):
        for row, expected in zip(turn(host, number), turn(device, number), strict=True):
            assert differences(row.to_dict(), expected.to_dict()) == []
            assert (WEIGHTS_KEY in row) == (alpha is not None)
        assert torch.equal(host.num_stored, device.num_stored)
    assert held(host) == held(device)


def test_errors_of_the_background_come_up(monkeypatch):
    def fail(replay, rows):
        raise RuntimeError("out of order")

    monkeypatch.setattr(Replay, "insert", fail)
    replay = HostReplay(Replay(example(), 40, 16, seeded()), CPU)
    with pytest.raises(RuntimeError, match="out of order"):
        insert_rows(replay, rows_of([1], [True]))
        replay.state_dict()


@pytest.mark.parametrize("slot", [-1, 40])
def test_drawn_rows_of_slots_that_there_are_not_are_refused(slot):
    replay = both(None)[0]
    turn(replay, 0)
    state = replay.state_dict()
    state["drawn"][1][SLOT_KEY][3] = slot
    with pytest.raises(ConfigError, match="replay drawn='slots': must be below 40"):
        replay.load_state_dict(state)
    state["drawn"][1][SLOT_KEY][3] = 39 if slot > 0 else 0
    replay.load_state_dict(state)


@pytest.mark.gpu
@pytest.mark.parametrize("alpha", [None, 0.5])
def test_batches_reach_the_gpu_and_are_those_of_the_cpu(alpha):
    device = torch.device("cuda", 0)
    host = HostReplay(Replay(example().to(device), 40, 16, seeded(3), alpha), device)
    here = HostReplay(Replay(example(), 40, 16, seeded(3), alpha), CPU)
    for number in range(25):
        there = turn(OnDevice(host, device), number)
        for row, expected in zip(there, turn(here, number), strict=True):
            assert row.device == device
            assert differences(row.cpu().to_dict(), expected.to_dict()) == []


class OnDevice:
    """Gives replay what turn makes, moved to a device."""

    def __init__(self, replay, device):
        self.replay, self.device = replay, device

    def insert(self, rows):
        rows = tree_map_only(torch.Tensor, lambda each: each.to(self.device), rows)
        torch.cuda.synchronize()
        with torch.cuda.device(self.device):
            torch.cuda.set_sync_debug_mode("error")
            try:
                self.replay.insert(rows)
            finally:
                torch.cuda.set_sync_debug_mode("default")

    def update_priority(self, drawn, priority):
        self.replay.update_priority(drawn, priority.to(self.device))

    def __getattr__(self, name):
        return getattr(self.replay, name)
