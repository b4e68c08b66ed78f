"""From what the collector yields to the rows that replay stores, with multi-step returns."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from marinenav_env import GROUP
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.layout import copy_all
from marinenav_env.stepping.reset_pool import restore
from train_RL_agents.agents.base import Batch
from train_RL_agents.memory.packing import STORED, Packed, Packing, Rows, kind_of
from train_RL_agents.memory.replay import WEIGHTS
from train_RL_agents.networks.observation import observation_of


class Windows(NamedTuple):
    """Windows [n, E, R], the youngest first."""

    first: Packed
    """First observation and action, [n, E, R, W]."""
    reward: Tensor
    """Discounted sum of the rewards so far."""
    discount: Tensor
    """Discount of the next reward."""
    open: Tensor
    """Whether the window is open, bool."""


class _Packings(NamedTuple):
    """Packings of the two ends of a window."""

    first: Packing
    last: Packing

    @classmethod
    def of(cls, row: TensorDictBase) -> _Packings:
        """Packings of a robot's observation and action."""
        seen = {"observation": row.get("observation")}
        return cls(
            *map(Packing, (TensorDict(seen | {"action": row.get("action")}), TensorDict(seen)))
        )


class MultiStep:
    """Builds n-step transitions along each robot's own stream.

    A window opens at every step of an active robot and closes n steps later, or when the robot
    ends or its episode is cut: then all its open windows close at once. A closed window is one
    row: first observation and action, discounted sum of rewards, last observation, and the
    discount of its value, which is 0 only if the robot terminated. Time-outs thus bootstrap.

    Args:
        n_steps: n.
        gamma: discount per step.
        reward_scale: factor on rewards.
        compile: whether the windows are advanced by generated code, where host reads are not free.
    """

    def __init__(
        self, n_steps: int, gamma: float, reward_scale: float, compile: bool = False
    ) -> None:
        self.n_steps, self.gamma, self.reward_scale = n_steps, gamma, reward_scale
        self.in_place = False
        """Whether open windows stay in the same memory, as a captured step needs."""
        self._open: Windows | None = None
        self._packings: _Packings | None = None
        self._advance: Any = partial(advance_windows, gamma=gamma, reward_scale=reward_scale)
        if compile:
            self._advance = torch.compile(self._advance, fullgraph=True, dynamic=False)

    @property
    def made(self) -> bool:
        """Whether the first step has set up packings and windows."""
        return self._packings is not None and (self.n_steps == 1 or self._open is not None)

    def rows(self, batch: TensorDictBase) -> Rows:
        """Rows that close during a batch.

        Args:
            batch: [E, T] from the collector.

        Returns:
            Rows with the columns of ``example_row``. Where host reads are free, only those that
            close; else [T * n * E * R] rows, of which ``stored`` tells which close.
        """
        group, following = batch.get(GROUP), batch.get(("next", GROUP))
        steps = [self._step(group[:, t], following[:, t]) for t in range(batch.shape[1])]
        if len(steps) == 1:
            return steps[0]
        packed, stored = zip(*steps, strict=True)
        return Rows(
            {kind: torch.cat([each[kind] for each in packed]) for kind in packed[0]},
            None if stored[0] is None else torch.cat(stored),
        )

    def _step(self, group: TensorDictBase, following: TensorDictBase) -> Rows:
        """Rows that close in one vector step [E, R]."""
        if self._packings is None:
            self._packings = _Packings.of(group[0, 0])
        before = self._open
        if before is None and self.n_steps > 1:
            before = self._blank(following.get("reward").squeeze(-1))
        rows, windows = self._advance(self._packings, group, following, before)
        if self.in_place and before is not None:
            copy_all(tree_leaves(before), tree_leaves(windows))
            windows = before
        self._open = windows if self.n_steps > 1 else None
        return rows

    def _blank(self, reward: Tensor) -> Windows:
        """Windows of which none is open, for rewards [E, R]."""
        assert self._packings is not None
        shape = self.n_steps, *reward.shape
        first, none = self._packings.first.zeros(shape, reward.device), reward.new_zeros(shape)
        return Windows(first, none, none.clone(), none.to(torch.bool))

    def state_dict(self) -> dict[str, Any]:
        """The open windows."""
        if self._open is None or self._packings is None:
            return {"open": None}
        first, reward, discount, opened = self._open
        windows = self._packings.first.unpack(first).to_dict()
        windows |= {"reward": reward, "discount": discount, STORED: opened}
        copies: dict[str, Any] = tree_map_only(Tensor, _dense, windows)
        return {"open": copies}

    def load_state_dict(self, state: dict[str, Any], blank: TensorDictBase) -> None:
        """Restore them.

        Args:
            state: what ``state_dict`` gave.
            blank: windows [n, E, R] of the same shapes and types; the state is written to them.

        Raises:
            KeyError: when there are none, but are needed.
            RuntimeError: when they are of another shape or type.
        """
        # States of before have none where none are needed.
        given = state.get("open") if self.n_steps == 1 else state["open"]
        self._open = None
        if given is not None:
            restore(blank, given)
            self._packings = _Packings.of(blank[0, 0, 0])
            numbers = (blank.get(name) for name in ("reward", "discount", STORED))
            first = self._packings.first.pack(blank)
            # As the first step makes them: those of a captured step stay where they are.
            first = {kind: each.contiguous() for kind, each in first.items()}
            self._open = Windows(first, *numbers)

    def restart(self) -> None:
        """Drop the open windows."""
        self._open = None


def advance_windows(
    packings: _Packings,
    group: TensorDictBase,
    following: TensorDictBase,
    before: Windows | None,
    *,
    gamma: float,
    reward_scale: float,
) -> tuple[Rows, Windows]:
    """Take all windows of all robots one step further.

    Args:
        packings: of the ends of windows.
        group: [E, R] what the step started from.
        following: [E, R] what it led to.
        before: [n, E, R] windows after the last step; None if n is 1.
        gamma: discount per step.
        reward_scale: factor on rewards.

    Returns:
        Rows, see ``MultiStep.rows``, and the windows that stay open.
    """
    gained, ended = reward_scale * _each(following, "reward"), _each(following, "done")
    none, one = torch.zeros_like(gained), torch.ones_like(gained)
    opening = Windows(packings.first.pack(group), none, one, group.get("mask"))
    first, reward, discount, opened = _pushed(opening, before)
    reward, discount = reward + discount * gained, discount * gamma
    # The window of age n - 1 closes at the end of this step.
    age = torch.arange(len(opened), device=ended.device)[:, None, None]
    closes = (opened & (ended | (age == len(opened) - 1))).flatten()
    numbers = torch.stack((reward, discount * ~_each(following, "terminated")), -1)
    last = packings.last.pack(following)

    if host_reads_are_free(closes.device):
        chosen, stored = closes.nonzero().squeeze(-1), None  # host: see host_reads_are_free
    else:
        chosen, stored = torch.arange(len(closes), device=closes.device), closes
    parts = {kind: [each.flatten(0, 2).index_select(0, chosen)] for kind, each in first.items()}
    parts.setdefault(kind_of(numbers), []).append(numbers.flatten(0, 2).index_select(0, chosen))
    robot = chosen % ended.numel()
    for kind, each in last.items():
        parts.setdefault(kind, []).append(each.flatten(0, 1).index_select(0, robot))
    packed = {kind: torch.cat(each, -1) for kind, each in parts.items()}
    return Rows(packed, stored), Windows(first, reward, discount, opened & ~ended)


def _each(following: TensorDictBase, name: str) -> Tensor:
    """A number of each robot, [E, R]."""
    value: Tensor = following.get(name)
    return value.squeeze(-1)


def _pushed(opening: Windows, before: Windows | None) -> Windows:
    """Windows of which the youngest are new and the oldest gone."""

    def push(new: Tensor, old: Tensor | None) -> Tensor:
        return new[None] if old is None else torch.cat((new[None], old[:-1]))

    old_first, *olds = before or ({}, None, None, None)
    first = {kind: push(each, old_first.get(kind)) for kind, each in opening.first.items()}
    return Windows(first, *(push(new, old) for new, old in zip(opening[1:], olds, strict=True)))


def _dense(tensor: Tensor) -> Tensor:
    """A copy that is no view of a larger tensor."""
    return tensor.clone(memory_format=torch.contiguous_format)


def example_row(step: TensorDictBase) -> TensorDict:
    """A row of replay without batch dimensions, for shapes and types.

    Args:
        step: of the world, [E].
    """
    group, following = step.get(GROUP)[0, 0], step.get(("next", GROUP))[0, 0]
    reward = following.get("reward").squeeze(-1)
    return TensorDict(
        {
            "observation": group.get("observation"),
            "action": group.get("action"),
            "reward": reward,
            "discount": torch.ones_like(reward),
            "next_observation": following.get("observation"),
        }
    )


def batch_of(rows: TensorDictBase) -> Batch:
    """Rows drawn from replay, as agents want them."""
    return Batch(
        observation_of(rows.get("observation")),
        rows.get("action"),
        rows.get("reward"),
        rows.get("discount"),
        observation_of(rows.get("next_observation")),
        rows.get(WEIGHTS, None),
    )
