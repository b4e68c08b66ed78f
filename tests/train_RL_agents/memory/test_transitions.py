"""Multi-step transitions against one robot's stream at a time, in plain Python."""

import io
import random
from dataclasses import dataclass

import pytest
import torch
from tensordict import TensorDict
from torch.utils._pytree import tree_leaves

from marinenav_env import GROUP
from tests.host_reads import no_host_reads
from train_RL_agents.memory.column_layout import ColumnLayout
from train_RL_agents.memory.transitions import MultiStep, example_transition, to_batch

GAMMA, SCALE = 0.9, 0.1


@dataclass
class Step:
    """One step of one robot. Observations are numbers that never occur twice."""

    seen: float = 0.0
    active: bool = False
    action: int = 0
    reward: float = 0.0
    after: float = 0.0
    terminated: bool = False
    truncated: bool = False


class Stream:
    """A made-up world: robots terminate, episodes are cut, slots stay empty, resets follow."""

    def __init__(self, envs, robots, seed, death=0.15, cut=0.06, absent=0.2):
        self.random = random.Random(seed)
        self.shape, self.rates = (envs, robots), (death, cut, absent)
        self.count = 0
        self.now = [self._fresh() for _ in range(envs)]

    def _unique(self):
        self.count += 1
        return float(self.count)

    def _fresh(self):
        """Present robots (at least one) with their first observation; None for the others."""
        present = [self.random.random() >= self.rates[2] for _ in range(self.shape[1])]
        present[self.random.randrange(self.shape[1])] = True
        return {"present": present, "seen": [self._unique() if p else None for p in present]}

    def step(self):
        """One vector step, [E][R] of Step."""
        death, cut, _ = self.rates
        rows = []
        for e, env in enumerate(self.now):
            row = []
            for r, seen in enumerate(env["seen"]):
                if seen is None:  # absent or ended: the flag of ended ones stays up
                    row.append(Step(action=-1, terminated=env["present"][r]))
                    continue
                ends = self.random.random() < death
                row.append(
                    Step(
                        seen,
                        True,
                        self.random.randrange(25),
                        self.random.uniform(-5.0, 5.0),
                        self._unique(),
                        terminated=ends,
                    )
                )
            alive = [step.active and not step.terminated for step in row]
            over = not any(alive) or self.random.random() < cut
            for step, goes_on in zip(row, alive, strict=True):
                step.truncated = over and not step.terminated and (goes_on or not step.active)
            env["seen"] = [step.after if goes_on else None for step, goes_on in zip(row, alive, strict=True)]
            if over:
                self.now[e] = self._fresh()
            rows.append(row)
        return rows


def observation(values):
    """A tag for each robot, spread over all parts of its observation."""
    own = values[..., None].expand(*values.shape, 7)
    bits = torch.stack([(values // 2**k) % 2 == 1 for k in range(5)], -1)
    return {
        "self_state": own.clone(),
        "objects_state": -own[..., :5, None].expand(*values.shape, 5, 5).clone(),
        "objects_mask": bits,
    }


def collected(steps):
    """What a collector would make of T vector steps: a batch [E, T]."""

    def column(name, dtype):
        values = [[[getattr(s, name) for s in row] for row in step] for step in steps]
        return torch.tensor(values, dtype=dtype).transpose(0, 1).contiguous()

    seen, after = column("seen", torch.float64), column("after", torch.float64)
    terminated, truncated = column("terminated", torch.bool), column("truncated", torch.bool)
    batch = [*seen.shape[:2]]
    following = {
        "observation": TensorDict(observation(after), seen.shape),
        "reward": column("reward", torch.float64)[..., None],
        "terminated": terminated[..., None],
        "truncated": truncated[..., None],
        "done": (terminated | truncated)[..., None],
    }
    return TensorDict(
        {
            GROUP: TensorDict(
                {
                    "observation": TensorDict(observation(seen), seen.shape),
                    "mask": column("active", torch.bool),
                    "action": column("action", torch.int64),
                },
                seen.shape,
            ),
            "next": TensorDict({GROUP: TensorDict(following, seen.shape)}, batch),
        },
        batch,
    )


def expected_rows(steps, n):
    """Rows by the tag of their first observation, from each robot's own episodes.

    Each comes with the number of the vector step in which it closes.
    """
    rows = {}
    for e in range(len(steps[0])):
        for r in range(len(steps[0][0])):
            episode = []
            for t, vector in enumerate(steps):
                step = vector[e][r]
                if not step.active:
                    continue
                episode.append((t, step))
                if step.terminated or step.truncated:
                    rows |= windows(episode, n, complete=True)
                    episode = []
            rows |= windows(episode, n, complete=False)
    return rows


def windows(episode, n, complete):
    """Rows of one episode of one robot; windows still open at the end only if it is complete."""
    rows = {}
    for first in range(len(episode)):
        part = episode[first : first + n]
        if len(part) < n and not complete:
            continue
        reward = sum(GAMMA**k * SCALE * step.reward for k, (_, step) in enumerate(part))
        closing, last = part[-1]
        discount = 0.0 if last.terminated else GAMMA ** len(part)
        start = part[0][1]
        rows[start.seen] = (closing, start.action, reward, discount, last.after)
    return rows


class Streams:
    """Multi-step rows batch by batch, with the windows that stay open between them."""

    def __init__(self, n, gamma=GAMMA, scale=SCALE):
        self.settings, self.multi_step, self.windows = (n, gamma, scale), None, None

    def begin(self, batch):
        """Open no window yet, for batches such as this one."""
        robots = batch[GROUP, "mask"][:, 0].shape
        self.multi_step = MultiStep(example_transition(batch[:, 0]), robots, *self.settings)
        self.windows = self.multi_step.closed_windows()
        return self

    def rows(self, batch):
        if self.multi_step is None:
            self.begin(batch)
        self.windows, rows = self.multi_step.advance(self.windows, batch)
        return rows

    def state_dict(self):
        return self.multi_step.state_dict(self.windows)

    def load_state_dict(self, state):
        self.windows = self.multi_step.windows_from_state(state)


def stored(streams, batch):
    """The rows that a batch closes, as replay would keep them."""
    packed, marked = streams.rows(batch)
    rows = ColumnLayout(example_transition(batch[:, 0])).unpack(packed)
    return rows if marked is None else rows[marked]


def as_dictionary(rows, closing):
    """Rows as expected_rows has them; every part of an observation must agree."""
    found = {}
    for row in rows:
        tags = []
        for name in ("observation", "next_observation"):
            tag = row[name, "self_state"][0]
            whole = observation(tag)
            for part, value in whole.items():
                assert torch.equal(row[name, part], value), (name, part)
            tags.append(float(tag))
        assert tags[0] not in found, "stored twice"
        values = (int(row["action"]), float(row["reward"]), float(row["discount"]))
        found[tags[0]] = (closing, *values, tags[1])
    return found


def check_equal(found, expected):
    assert found.keys() == expected.keys()
    for tag, (closing, action, reward, discount, after) in expected.items():
        assert found[tag][0] == closing
        assert found[tag][1] == action
        assert found[tag][2] == pytest.approx(reward, abs=1e-12)
        assert found[tag][3] == pytest.approx(discount, abs=1e-12)
        assert found[tag][4] == after


def one_robot(*steps):
    """A stream of a single environment with a single robot."""
    return [[[step]] for step in steps]


def run(steps, n, per_batch=1):
    """All rows of a stream, with the vector step in which each closed."""
    streams, one_by_one, found = Streams(n), Streams(n), {}
    for begin in range(0, len(steps), per_batch):
        batch = collected(steps[begin : begin + per_batch])
        rows = stored(streams, batch)
        counts = [len(stored(one_by_one, batch[:, t : t + 1])) for t in range(batch.shape[1])]
        for offset, part in enumerate(rows.split(counts)):
            closed = as_dictionary(part, begin + offset)
            assert not closed.keys() & found.keys(), "stored twice"
            found |= closed
    return found


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("per_batch", [1, 4])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_random_streams(n, per_batch, seed, either_way):
    world = Stream(envs=3, robots=3, seed=seed)
    steps = [world.step() for _ in range(84)]
    found = run(steps, n, per_batch)
    check_equal(found, expected_rows(steps, n))
    # The streams hold what matters: terminations, time-outs, and windows cut short by both.
    ends = [step for vector in steps for row in vector for step in row if step.active]
    assert sum(step.terminated for step in ends) > 20
    assert sum(step.truncated for step in ends) > 5


@pytest.mark.parametrize(("end", "discount"), [("terminated", 0.0), ("truncated", 1.0)])
@pytest.mark.parametrize("n", [1, 3])
def test_ends_bootstrap_from_the_last_observation_before_the_reset_or_not_at_all(n, end, discount):
    steps = one_robot(
        Step(1.0, True, 4, 10.0, 2.0),
        Step(2.0, True, 5, 20.0, 3.0, **{end: True}),
        Step(40.0, True, 6, 99.0, 50.0),  # the next episode
    )
    found = run(steps, n)
    assert found[2.0] == (1, 5, pytest.approx(2.0), pytest.approx(0.9 * discount), 3.0)
    if n == 1:
        assert found[1.0] == (0, 4, pytest.approx(1.0), pytest.approx(0.9), 2.0)
    else:
        assert found[1.0] == (1, 4, pytest.approx(1.0 + 0.9 * 2.0), pytest.approx(0.81 * discount), 3.0)


@pytest.mark.parametrize(("n", "split"), [(1, 17), (5, 1), (5, 17)])
def test_resumed_streams_give_identical_rows(n, split):
    world = Stream(envs=3, robots=2, seed=5)
    steps = [world.step() for _ in range(40)]
    whole = Streams(n)
    rows = [stored(whole, collected([step])) for step in steps]
    first = Streams(n)
    for step in steps[:split]:
        first.rows(collected([step]))
    stream = io.BytesIO()
    torch.save(first.state_dict(), stream)
    stream.seek(0)
    first.rows(collected([steps[split]]))  # what was saved must not follow
    second = Streams(n).begin(collected(steps[:1]))
    second.load_state_dict(torch.load(stream, weights_only=True))
    layouts = [[leaf.stride() for leaf in tree_leaves(each.windows) if leaf is not None] for each in (whole, second)]
    assert layouts[0] == layouts[1]
    for step, expected in zip(steps[split:], rows[split:], strict=True):
        same = stored(second, collected([step])) == expected
        assert all(bool(leaf.all()) for leaf in same.values(True, True))


@pytest.mark.parametrize(("n", "per_batch"), [(1, 4), (3, 1), (3, 4)])
def test_where_the_host_must_not_ask_all_rows_are_made(n, per_batch, monkeypatch):
    """As many in every batch, and those that close are the same in the same order."""
    world = Stream(envs=2, robots=3, seed=4)
    batches = [collected([world.step() for _ in range(per_batch)]) for _ in range(9)]
    streams = Streams(n)
    few = [streams.rows(batch) for batch in batches]
    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
    streams = Streams(n)
    for batch, (expected, marked) in zip(batches, few, strict=True):
        packed, closing = streams.rows(batch)
        assert marked is None and closing.shape == (per_batch * n * 2 * 3,)
        torch.testing.assert_close({k: each[closing] for k, each in packed.items()}, expected)


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 3])
def test_generated_code_makes_the_same_rows(n, never_ask):
    torch.compiler.reset()
    stream = Stream(3, 2, seed=1)
    fast, plain = (Streams(n).begin(collected([stream.step()])) for _ in range(2))
    fast.multi_step.advance = torch.compile(fast.multi_step.advance, fullgraph=True, dynamic=False)
    for _ in range(12):
        batch = collected([stream.step()])
        ours, expected = (each.rows(batch) for each in (fast, plain))
        torch.testing.assert_close(tuple(ours), tuple(expected))
    torch.compiler.reset()


def test_rows_have_the_columns_of_an_example_row():
    """Whatever the order in which a step names its entries."""
    world = Stream(envs=1, robots=1, seed=1, death=0.0, cut=0.0)
    batch, turned = (collected([world.step()]) for _ in range(2))
    for group in (turned[GROUP], turned["next", GROUP]):
        entries = group["observation"].to_dict()
        group["observation"] = {name: entries[name] for name in sorted(entries, reverse=True)}
    row, streams = example_transition(batch[:, 0]), Streams(1)
    assert row.batch_size == ()
    streams.begin(batch)
    found = as_dictionary(ColumnLayout(row).unpack(streams.rows(turned).matrices), 0)
    assert [*found] == [2.0]


def test_loading_an_untouched_state_forgets_open_windows():
    world = Stream(envs=1, robots=2, seed=1, death=0.0, cut=0.0)
    steps = [world.step() for _ in range(6)]
    streams = Streams(3)
    for step in steps[:3]:
        streams.rows(collected([step]))
    streams.load_state_dict(Streams(3).begin(collected(steps[:1])).state_dict())
    assert not len(stored(streams, collected([steps[3]])))


@pytest.mark.parametrize("n", [1, 3])
def test_no_host_reads(n, never_ask):
    world = Stream(envs=2, robots=2, seed=2)
    batches = [collected([world.step() for _ in range(2)]) for _ in range(4)]
    streams = Streams(n)
    with no_host_reads():
        kept = [streams.rows(batch).mask for batch in batches]
    assert torch.cat(kept).any() and {len(each) for each in kept} == {2 * n * 2 * 2}


def test_batch_of_puts_every_field_in_its_place():
    steps = one_robot(Step(1.0, True, 4, 10.0, 2.0, truncated=True))
    batch = to_batch(stored(Streams(1), collected(steps)))
    assert batch.action.tolist() == [4]
    assert batch.reward.tolist() == pytest.approx([1.0])
    assert batch.discount.tolist() == pytest.approx([0.9])
    assert batch.weights is None
    for inputs, tag in ((batch.observation, 1.0), (batch.next_observation, 2.0)):
        assert inputs["self_state"].tolist() == [[tag] * 7]
        assert inputs["objects_state"].tolist() == [[[-tag] * 5] * 5]
        assert inputs["objects_mask"].tolist() == [[tag == 1.0, tag == 2.0, False, False, False]]
