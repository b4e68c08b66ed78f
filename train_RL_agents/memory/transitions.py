"""From what the collector yields to the rows that replay stores, with multi-step returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.utils._pytree import tree_map_only

from marinenav_env import GROUP
from marinenav_env.runtime.host_reads import rows_where
from marinenav_env.stepping.reset_pool import restore
from train_RL_agents.agents.base import Batch
from train_RL_agents.memory.column_layout import STORED, ColumnLayout, Packed, Rows, kind_of
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

    first: ColumnLayout
    last: ColumnLayout

    @classmethod
    def of(cls, row: TensorDictBase) -> _Packings:
        """Return the packings of a robot's observation and action."""
        seen = {"observation": row.get("observation")}
        return cls(*map(ColumnLayout, (TensorDict(seen | {"action": row.get("action")}), TensorDict(seen))))


class MultiStep:
    """Builds n-step transitions along each robot's own stream.

    A window opens at every step of an active robot and closes n steps later, or when the robot
    ends or its episode is cut: then all its open windows close at once. A closed window is one
    row: first observation and action, discounted sum of rewards, last observation, and the
    discount of its value, which is 0 only if the robot terminated. Time-outs thus bootstrap.

    Args:
        row: an example row, see ``example_row``.
        robots: shape [E, R] of the robots.
        n_steps: n.
        gamma: discount per step.
        reward_scale: factor on rewards.
    """

    def __init__(
        self,
        row: TensorDictBase,
        robots: Sequence[int],
        n_steps: int,
        gamma: float,
        reward_scale: float,
    ) -> None:
        self._row, self._shape = row, (n_steps, *robots)
        self._packings = _Packings.of(row)
        self.n_steps, self.gamma, self.reward_scale = n_steps, gamma, reward_scale

    def rows(self, windows: Windows | None, batch: TensorDictBase) -> tuple[Windows | None, Rows]:
        """Take all windows of all robots through a batch of steps.

        Args:
            windows: before the batch; None if n is 1.
            batch: [E, T] from the collector.

        Returns:
            The windows after the batch, and the rows that close during it, with the columns of
            ``example_row``. Where host reads are free there are only those that close; else
            [T * n * E * R] rows, of which ``stored`` tells which close.
        """
        group, following = batch.get(GROUP), batch.get(("next", GROUP))
        steps = []
        for t in range(batch.shape[1]):
            rows, windows = advance_windows(
                self._packings,
                group[:, t],
                following[:, t],
                windows,
                gamma=self.gamma,
                reward_scale=self.reward_scale,
            )
            steps.append(rows)
        windows = windows if self.n_steps > 1 else None
        if len(steps) == 1:
            return windows, steps[0]
        packed, stored = zip(*steps, strict=True)
        return windows, Rows(
            {kind: torch.cat([each[kind] for each in packed]) for kind in packed[0]},
            None if stored[0] is None else torch.cat(stored),
        )

    def blank(self) -> Windows | None:
        """Return windows of which none is open; None if n is 1."""
        if self.n_steps == 1:
            return None
        reward = self._row.get("reward")
        first = self._packings.first.zeros(self._shape, reward.device)
        none = reward.new_zeros(self._shape)
        return Windows(first, none, none.clone(), none.to(torch.bool))

    def state_dict(self, windows: Windows | None) -> dict[str, Any]:
        """Return windows under the names of their parts, to save."""
        if windows is None:
            return {"open": None}
        first, reward, discount, opened = windows
        parts = self._packings.first.unpack(first).to_dict()
        parts |= {"reward": reward, "discount": discount, STORED: opened}
        copies: dict[str, Any] = tree_map_only(Tensor, _dense, parts)
        return {"open": copies}

    def restored(self, state: dict[str, Any]) -> Windows | None:
        """Return the windows of a ``state_dict``.

        Raises:
            KeyError: when there are none, but are needed.
            RuntimeError: when they are of another shape or type.
        """
        # States of earlier versions have none where none are needed.
        given = state.get("open") if self.n_steps == 1 else state["open"]
        if given is None or self.n_steps == 1:
            return self.blank()
        row = self._row.exclude("next_observation").set(STORED, torch.tensor(False))
        blank = row.expand(*self._shape).clone()
        restore(blank, given)
        numbers = (blank.get(name) for name in ("reward", "discount", STORED))
        first = self._packings.first.pack(blank)
        return Windows({kind: each.contiguous() for kind, each in first.items()}, *numbers)


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

    rows = rows_where(closes)
    stored = closes if rows is None else None
    chosen = torch.arange(len(closes), device=closes.device) if rows is None else rows
    parts = {kind: [each.flatten(0, 2).index_select(0, chosen)] for kind, each in first.items()}
    parts.setdefault(kind_of(numbers), []).append(numbers.flatten(0, 2).index_select(0, chosen))
    robot = chosen % ended.numel()
    for kind, each in last.items():
        parts.setdefault(kind, []).append(each.flatten(0, 1).index_select(0, robot))
    packed = {kind: torch.cat(each, -1) for kind, each in parts.items()}
    return Rows(packed, stored), Windows(first, reward, discount, opened & ~ended)


def _each(following: TensorDictBase, name: str) -> Tensor:
    """Return a number of each robot, [E, R]."""
    value: Tensor = following.get(name)
    return value.squeeze(-1)


def _pushed(opening: Windows, before: Windows | None) -> Windows:
    """Return the windows of which the youngest are new and the oldest gone."""

    def push(new: Tensor, old: Tensor | None) -> Tensor:
        return new[None] if old is None else torch.cat((new[None], old[:-1]))

    old_first, *olds = before or ({}, None, None, None)
    first = {kind: push(each, old_first.get(kind)) for kind, each in opening.first.items()}
    return Windows(first, *(push(new, old) for new, old in zip(opening[1:], olds, strict=True)))


def _dense(tensor: Tensor) -> Tensor:
    """Return a copy that is no view of a larger tensor."""
    return tensor.clone(memory_format=torch.contiguous_format)


def example_row(step: TensorDictBase) -> TensorDict:
    """Return a row of replay without batch dimensions, for shapes and types.

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
    """Return the rows drawn from replay, as agents want them."""
    return Batch(
        observation_of(rows.get("observation")),
        rows.get("action"),
        rows.get("reward"),
        rows.get("discount"),
        observation_of(rows.get("next_observation")),
        rows.get(WEIGHTS, None),
    )
