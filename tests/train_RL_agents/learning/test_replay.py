"""Replay against a ring kept in Python lists."""

import io

import pytest
import torch
from tensordict import TensorDict

from tests.train_RL_agents.helpers import seeded
from tests.train_RL_agents.learning.helpers import check_consistent, example, held, insert_rows, rows_of
from train_RL_agents.learning.replay import Replay
from train_RL_agents.utils.memory import tree_bytes

pytestmark = pytest.mark.usefixtures("either_way")


class Ring:
    """The same ring, one row at a time."""

    def __init__(self, capacity):
        self.slots, self.cursor, self.capacity = [], 0, capacity

    def extend(self, ids, stored):
        for identity, keep in zip(ids, stored, strict=True):
            if keep and len(self.slots) < self.capacity:
                self.slots.append(identity)
            elif keep:
                self.slots[self.cursor] = identity
            self.cursor = (self.cursor + bool(keep)) % self.capacity


def filled_replay(capacity, ids, batch_size=64, seed=0):
    replay = Replay(example(), capacity, batch_size, seeded(seed))
    for identity in ids:
        insert_rows(replay, rows_of([identity], [True]))
    return replay


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("capacity", [7, 32])
def test_ring_matches_the_list(capacity, seed):
    generator = seeded(seed)
    replay, ring = Replay(example(), capacity, 4, seeded()), Ring(capacity)
    written = 1
    for turn in range(60):
        count = int(torch.randint(1, capacity + 1, (), generator=generator))
        share = (0.0, 1.0, 0.1, 0.5, 0.9)[turn % 5]  # all masked, all stored, some
        stored = (torch.rand(count, generator=generator) < share).tolist()
        ids = list(range(written, written + count))
        written += count
        insert_rows(replay, rows_of(ids, stored))
        ring.extend(ids, stored)
        assert held(replay) == ring.slots
        assert replay.num_stored.item() == len(ring.slots) and replay.num_stored.dtype == torch.int64
    assert written > 10 * capacity  # it went round many times


@pytest.mark.parametrize("stored", [3, 8, 11])
def test_filled_slots_are_drawn_alike_with_float64(stored):
    """float32 numbers cannot reach every slot of a large buffer."""
    replay = filled_replay(8, range(stored), seed=2)
    insert_rows(replay, rows_of([1000, 1001], [False, False]))
    drawn = replay.sample()
    check_consistent(drawn)
    chance = torch.rand(64, generator=seeded(2), dtype=torch.float64)
    slots = (min(stored, 8) * chance).long().tolist()
    assert drawn["action"].tolist() == [held(replay)[slot] for slot in slots]


@pytest.mark.parametrize("stored", [0, 3, 13])
def test_state_holds_filled_slots_only_and_restores_everything(stored):
    capacity = 8
    replay = filled_replay(capacity, range(1, stored + 1), seed=4)
    state = replay.state_dict()
    leaves = list(TensorDict(state["rows"]).values(True, True))
    assert all(tensor.shape[0] == min(stored, capacity) for tensor in leaves)
    # Views of the whole storage would be written to disk in full.
    storages = {each.data_ptr(): each.nbytes() for each in map(torch.Tensor.untyped_storage, leaves)}
    assert sum(storages.values()) == min(stored, capacity) * tree_bytes(example())
    stream = io.BytesIO()
    torch.save(state, stream)
    stream.seek(0)
    # The other one has been used before: nothing of that may be left.
    other = filled_replay(capacity, range(100, 111), seed=4)
    other.load_state_dict(torch.load(stream, weights_only=True))
    assert held(other) == held(replay)
    for each in (replay, other):
        insert_rows(each, rows_of([50, 51, 52], [True, False, True]))
    assert held(other) == held(replay)
    assert torch.equal(other.sample()["action"], replay.sample()["action"])


def test_a_state_keeps_the_sign_of_zero():
    """A resumed run is to have the same bits."""
    replay, rows = filled_replay(8, []), rows_of([0], [True])
    rows["observation", "x"].fill_(-0.0)
    insert_rows(replay, rows)
    assert replay.state_dict()["rows"]["observation"]["x"].signbit().all()
