"""A made-up world, rows for replay, and what tests of learners compare."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import torch
from tensordict import TensorDict
from torchrl.collectors import Collector

from marinenav_env import GROUP
from marinenav_env.runtime.host_reads import true_indices
from train_RL_agents import learning
from train_RL_agents.learning.replay import STORED_MASK


class Robots:
    """Robots that see every number once: they terminate, episodes are cut, slots stay empty, resets follow.

    Args:
        shape: environments and robots.
        observe: the observation of numbers.
    """

    def __init__(self, shape, seed=0, observe=lambda numbers: {"cue": numbers[..., None]}):
        self.random, self.shape, self.observe = torch.Generator().manual_seed(seed), shape, observe
        self.count = 0
        self.steps = []
        """Steps: observation, active robots, actions, rewards, next observation, and both flags."""
        self.seen = {}
        """Earlier numbers of the same episode for each number, the latest first."""
        self.now, self.present = self.look(), self.fresh()
        self.active = self.present

    def look(self):
        numbers = torch.arange(1.0, 1.0 + self.shape[0] * self.shape[1]).view(self.shape) + self.count
        self.count += numbers.numel()
        return numbers

    def chance(self, share, *shape):
        return torch.rand(shape or self.shape, generator=self.random) < share

    def fresh(self):
        """Who is there in new episodes: at least one robot."""
        present = self.chance(0.8)
        present[:, 0] |= ~present.any(1)
        return present

    def step(self):
        """One step [E, 1]; robots end, rest until their environment's episode is over, and begin again."""
        after, active = self.look(), self.active
        action = torch.randint(25, self.shape, generator=self.random)
        reward = 10.0 * torch.rand(self.shape, generator=self.random, dtype=torch.float64) - 5.0
        terminated = torch.where(active, self.chance(0.15), self.present)  # the flag of who has ended stays up
        alive = active & ~terminated
        over = ~alive.any(1, keepdim=True) | self.chance(0.06, self.shape[0], 1)
        truncated = over & ~terminated
        parts = (self.now, active, action, reward, after, terminated, truncated)
        self.steps.append([each.tolist() for each in parts])
        for now, then in zip(self.now[active].tolist(), after[active].tolist(), strict=True):
            self.seen[then] = [now, *self.seen.setdefault(now, [])]
        flags = {"terminated": terminated, "truncated": truncated, "done": terminated | truncated, "reward": reward}
        following = {name: each[..., None] for name, each in flags.items()}
        following["observation"] = TensorDict(self.observe(after), self.shape)
        group = {"observation": TensorDict(self.observe(self.now), self.shape), "mask": active, "action": action}
        group, following = (TensorDict(each, self.shape) for each in (group, following))
        step = TensorDict({GROUP: group, "next": {GROUP: following}}, self.shape[:1])
        self.now, fresh = torch.where(over, self.look(), after), self.fresh()
        self.present, self.active = torch.where(over, fresh, self.present), torch.where(over, fresh, alive)
        return step.unsqueeze(1)


def insert_rows(replay: Any, rows: TensorDict) -> None:
    """Insert the rows whose entry STORED_MASK is true: these alone, or all with a mask where the host must not ask."""
    index = true_indices(rows[STORED_MASK])
    replay.insert(rows if index is None else rows.exclude(STORED_MASK)[index])


def values_of(module):
    return [parameter.detach().clone() for parameter in module.parameters()]


def update_with_gradient(learner, batch):
    """The results of an update and the clipped gradient [N] that it applies."""
    with patch.object(learning.learner, "step_optimizer", wraps=learning.learner.step_optimizer) as step:
        results = learner.update(batch)
    return results, step.call_args.args[2]


def all_equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def assert_close_gradients(actual, expected, share):
    """Gradients differ by at most a share of their length."""
    assert (actual - expected).norm() < share * expected.norm()


def torchrl_collector(env: Any, policy: Any, frames: int) -> Iterator[TensorDict]:
    """Batches of so many frames by TorchRL's own collector."""
    options = dict.fromkeys(("use_buffers", "track_traj_ids", "auto_register_policy_transforms"), False)
    return iter(Collector(env, policy, frames_per_batch=frames, total_frames=-1, **options))


def example():
    """A nested row: a number, an index and a flag."""
    return TensorDict(
        {
            "observation": {"x": torch.zeros(2), "mask": torch.zeros(3, dtype=torch.bool)},
            "action": torch.zeros((), dtype=torch.int64),
        }
    )


def rows_of(ids, stored):
    """Rows whose every field can be told from their id; row i is kept where stored[i]."""
    ids = torch.as_tensor(ids)
    bits = torch.stack([ids % 2 == 0, ids % 3 == 0, ids % 5 == 0], -1)
    return TensorDict(
        {
            "observation": {"x": torch.stack([ids, -ids], -1).float(), "mask": bits},
            "action": ids,
            STORED_MASK: torch.as_tensor(stored),
        },
        ids.shape,
    )


def check_consistent(rows):
    """Every field of a row belongs to the same id."""
    ids = rows["action"]
    expected = rows_of(ids, torch.ones(ids.shape, dtype=torch.bool))
    assert torch.equal(rows["observation", "x"], expected["observation", "x"])
    assert torch.equal(rows["observation", "mask"], expected["observation", "mask"])


def held(replay):
    """Ids held, slot by slot."""
    state = replay.state_dict()
    check_consistent(TensorDict(state["rows"], [int(state["filled"])]))
    return state["rows"]["action"].tolist()
