"""Multi-step transitions against one robot's stream at a time, in plain Python."""

import pytest
import torch

from marinenav_env import GROUP
from tests.host_reads import no_host_reads
from tests.train_RL_agents.learning.helpers import Robots
from train_RL_agents.learning.replay import STORED_MASK
from train_RL_agents.learning.transitions import MultiStep, example_transition

GAMMA, SCALE = 0.9, 0.1


def observation(values):
    """A tag for each robot, spread over all parts of its observation."""
    own = values[..., None].expand(*values.shape, 7)
    bits = torch.stack([(values // 2**k) % 2 == 1 for k in range(5)], -1)
    return {
        "self_state": own.clone(),
        "objects_state": -own[..., :5, None].expand(*values.shape, 5, 5).clone(),
        "objects_mask": bits,
    }


def expected_rows(steps, n):
    """Rows by the tag of their first observation, from each robot's own episodes.

    Each comes with the number of the vector step in which it closes.
    """
    rows = {}
    for e, environment in enumerate(steps[0][0]):
        for r in range(len(environment)):
            episode = []
            for t, parts in enumerate(steps):
                seen, active, action, reward, after, terminated, truncated = (part[e][r] for part in parts)
                if not active:
                    continue
                episode.append((t, seen, action, reward, after, terminated))
                if terminated or truncated:
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
        _, seen, action, *_ = part[0]
        closing, *_, after, terminated = part[-1]
        reward = sum(GAMMA**k * SCALE * step[3] for k, step in enumerate(part))
        rows[seen] = (closing, action, reward, 0.0 if terminated else GAMMA ** len(part), after)
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
    """All rows of steps, with the vector step in which each closed."""
    streams, one_by_one, found = Streams(n), Streams(n), {}
    for begin in range(0, len(steps), per_batch):
        batch = torch.cat(steps[begin : begin + per_batch], 1)
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
    world = Robots((3, 3), seed, observation)
    steps = [world.step() for _ in range(84)]
    found, expected = run(steps, n, per_batch), expected_rows(world.steps, n)
    assert found == {tag: pytest.approx(row, rel=0.0, abs=1e-12) for tag, row in expected.items()}
    # The steps hold what matters: terminations, time-outs, and windows cut short by both.
    active, terminated, truncated = (torch.tensor([parts[k] for parts in world.steps]) for k in (1, 5, 6))
    assert (active & terminated).sum() > 20
    assert (active & truncated).sum() > 5


@pytest.mark.parametrize("n", [1, 3])
def test_no_host_reads(n, reads_cost_time):
    world = Robots((2, 2), 2, observation)
    batches = [torch.cat([world.step() for _ in range(2)], 1) for _ in range(4)]
    streams = Streams(n)
    with no_host_reads():
        masks = [streams.rows(batch)[STORED_MASK] for batch in batches]
    assert torch.cat(masks).any() and {len(each) for each in masks} == {2 * n * 2 * 2}
