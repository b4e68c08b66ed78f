"""Multi-step transitions against one robot's stream at a time, in plain Python."""

import random
from dataclasses import dataclass

import pytest
import torch
from tensordict import TensorDict

from marinenav_env import GROUP
from tests.host_reads import no_host_reads
from train_RL_agents.memory.replay import STORED_MASK
from train_RL_agents.memory.transitions import MultiStep, example_transition

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
    rows = streams.rows(batch)
    return rows[rows.get(STORED_MASK)] if STORED_MASK in rows else rows


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
@pytest.mark.parametrize("n", [1, 3])
def test_random_streams(n, per_batch, seed, either_way):
    world = Stream(envs=3, robots=3, seed=seed)
    steps = [world.step() for _ in range(84)]
    found, expected = run(steps, n, per_batch), expected_rows(steps, n)
    assert found == {tag: pytest.approx(row, rel=0.0, abs=1e-12) for tag, row in expected.items()}
    # The streams hold what matters: terminations, time-outs, and windows cut short by both.
    ends = [step for vector in steps for row in vector for step in row if step.active]
    assert sum(step.terminated for step in ends) > 20
    assert sum(step.truncated for step in ends) > 5


@pytest.mark.parametrize("n", [1, 3])
def test_no_host_reads(n, reads_cost_time):
    world = Stream(envs=2, robots=2, seed=2)
    batches = [collected([world.step() for _ in range(2)]) for _ in range(4)]
    streams = Streams(n)
    with no_host_reads():
        masks = [streams.rows(batch)[STORED_MASK] for batch in batches]
    assert torch.cat(masks).any() and {len(each) for each in masks} == {2 * n * 2 * 2}
