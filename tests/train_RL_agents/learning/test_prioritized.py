"""Prioritised sampling against plain Python, and through the replay buffer."""

import random

import pytest
import torch
from tensordict import TensorDict

from tests.host_reads import no_host_reads
from tests.train_RL_agents.helpers import seeded
from tests.train_RL_agents.learning.helpers import insert_rows
from train_RL_agents.learning.prioritized import BlockSums
from train_RL_agents.learning.replay import SLOT_KEY, STORED_MASK, WEIGHTS_KEY, Replay

pytestmark = pytest.mark.usefixtures("either_way")
CPU = torch.device("cpu")
close = pytest.approx


def rows_of(ids, stored=None):
    ids = torch.as_tensor(ids)
    stored = torch.ones(ids.shape, dtype=torch.bool) if stored is None else torch.as_tensor(stored)
    return TensorDict({"action": ids, STORED_MASK: stored}, ids.shape)


def replay_of(capacity, ids=(), batch_size=1000, alpha=1.0, seed=0):
    example = TensorDict({"action": torch.zeros((), dtype=torch.int64)})
    replay = Replay(example, capacity, batch_size, seeded(seed), alpha)
    for identity in ids:
        insert_rows(replay, rows_of([identity]))
    return replay


def set_priorities(replay, slots, priorities):
    drawn = TensorDict({SLOT_KEY: torch.tensor(slots)}, [len(slots)])
    replay.update_priority(drawn, torch.tensor(priorities))


def counted(replay, batches=50):
    """How often each transition is drawn, by id."""
    ids = torch.cat([replay.sample()["action"] for _ in range(batches)])
    return dict(zip(*(each.tolist() for each in ids.unique(return_counts=True)), strict=True))


@pytest.mark.parametrize("size", [5, 33, 20_000])
def test_sums_against_a_list(size):
    chance, sums, numbers = random.Random(size), BlockSums(size, CPU), [0.0] * size
    for _ in range(20):
        index = [chance.randrange(size) for _ in range(chance.randint(1, 40))]
        index = list(dict.fromkeys(index))
        values = [chance.choice([0.0, 0.5, 1.0, 3.0]) for _ in index]
        sums.write(torch.tensor(index), torch.tensor(values))
        for where, value in zip(index, values, strict=True):
            numbers[where] = value
    assert sums.values.tolist()[:size] == numbers
    total = sum(numbers)
    shares = [1.0 - chance.random() for _ in range(300)]
    shares += [sum(numbers[:k]) / total for k in range(1, size, max(1, size // 50))]
    shares = [share for share in shares if share > 0.0]
    found = sums.find(torch.tensor(shares, dtype=torch.float64)).tolist()
    for share, where in zip(shares, found, strict=True):
        below = sum(numbers[:where])
        assert below < share * total <= below + numbers[where]  # so it is not a number that is 0


def test_never_finds_zeros_at_the_upper_end():
    sums = BlockSums(1000, CPU)
    sums.write(torch.arange(300), torch.full((300,), 0.1))
    share = torch.tensor([1.0, 1.0 - 1e-16, 1.0 - 1e-15], dtype=torch.float64)
    assert sums.find(share).tolist() == [299] * 3


def test_never_finds_zeros_at_the_borders_of_blocks():
    """Rounding may leave nothing for the next block, or more than the block holds."""
    numbers = torch.rand(5000, dtype=torch.float64, generator=seeded(1))
    numbers[::32] = 0.0  # the first of every block
    numbers[31::64] = 0.0  # the last of every other
    sums = BlockSums(5000, CPU)
    sums.write(torch.arange(5000), numbers)
    borders = sums.values.view(-1, 32).sum(-1).cumsum(0)
    shares = borders[:-1] / borders[-1]
    below = torch.full((), -1.0, dtype=torch.float64)
    for share in (shares, torch.nextafter(shares, below), torch.nextafter(shares, -below)):
        assert (numbers[sums.find(share)] > 0).all()


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_transitions_are_drawn_in_proportion(alpha):
    ids, priorities = [10, 11, 12, 13], [1.0, 4.0, 0.25, 9.0]
    replay = replay_of(8, ids, alpha=alpha)
    set_priorities(replay, [0, 1, 2, 3], priorities)
    counts, draws = counted(replay), 50_000
    raised = [priority**alpha for priority in priorities]
    for identity, weight in zip(ids, raised, strict=True):
        # Strata make it less random than independent draws would be.
        assert counts[identity] / draws == close(weight / sum(raised), abs=0.003)


def test_importance_weights_by_hand():
    replay = replay_of(8, [10, 11, 12], alpha=1.0)
    set_priorities(replay, [0, 1, 2], [1.0, 2.0, 5.0])
    for beta in (1.0, 0.0, 0.5):
        if beta < 1.0:  # which it is at first
            replay.set_beta(beta)
        drawn = replay.sample()
        raw = {10: (3 / 8) ** -beta, 11: (6 / 8) ** -beta, 12: (15 / 8) ** -beta}
        for identity, weight in zip(drawn["action"].tolist(), drawn[WEIGHTS_KEY].tolist(), strict=True):
            assert weight == close(raw[identity] / max(raw.values()), rel=1e-5)
        assert drawn[WEIGHTS_KEY].dtype == torch.float32
        assert set(drawn["action"].tolist()) == {10, 11, 12}


def test_new_transitions_come_with_the_highest_priority():
    assert set(counted(replay_of(8, [10, 11]), batches=1)) == {10, 11}
    replay = replay_of(8, [10, 11])
    set_priorities(replay, [0, 1], [0.5, 4.0])
    set_priorities(replay, [1], [2.0])
    insert_rows(replay, rows_of([12, 99], [True, False]))
    counts = counted(replay)
    assert set(counts) == {10, 11, 12}
    assert counts[12] / counts[11] == close(2.0, rel=0.02)  # 4, not 2


def test_nothing_stored_gives_blank_rows_with_harmless_weights():
    """As when learning starts before the first n-step window has closed."""
    replay = replay_of(5, alpha=0.5)
    insert_rows(replay, rows_of([9, 9], [False, False]))
    replay.set_beta(0.4)
    drawn = replay.sample()
    assert not drawn["action"].any()
    assert drawn[WEIGHTS_KEY].tolist() == [1.0] * 1000
    replay.update_priority(drawn, torch.zeros(1000))
    insert_rows(replay, rows_of([3]))
    assert counted(replay) == {3: 50_000}


def test_no_host_reads(reads_cost_time):
    replay = replay_of(200, batch_size=16, alpha=0.5)
    batches = [rows_of(range(100 * k, 100 * k + 100), torch.arange(100) % 3 > 0) for k in range(5)]
    with no_host_reads():
        for batch in batches:
            insert_rows(replay, batch)
            replay.set_beta(0.5)
            drawn = replay.sample()
            replay.update_priority(drawn, drawn["action"].float())
            replay.update_priority(drawn, None)
    assert drawn[WEIGHTS_KEY].isfinite().all()


def test_a_state_with_a_priority_below_0_is_refused():
    replay, other = replay_of(4, [1, 2, 3]), replay_of(4, [7])
    state = replay.state_dict()
    priorities = state["sampler"]["priorities"]
    priorities[1] = -1e-9
    with pytest.raises(RuntimeError, match="priorities below 0"):
        other.load_state_dict(state)
    priorities[1] = 0.0
    other.load_state_dict(state)
    assert set(counted(other)) == {1, 3}


@pytest.mark.parametrize("broken", [float("nan"), float("inf"), -float("inf")])
def test_one_error_that_is_no_number_does_not_spoil_the_others(broken):
    replay = replay_of(8, range(8))
    set_priorities(replay, [0, 1, 2, 3], [1.0, broken, 1.0, 2.0])
    assert replay.sampler.priorities.values[1] == pytest.approx(1e6 if broken > 0 else 1e-6)
    set_priorities(replay, [1], [1.0])
    assert replay.sampler.priorities.values.isfinite().all()
    assert set(counted(replay)) == set(range(8))
    assert replay.sample()[WEIGHTS_KEY].isfinite().all()
