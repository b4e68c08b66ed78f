"""From what the collector yields to the rows that replay stores, with multi-step returns."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from marinenav_env import GROUP
from marinenav_env.layout import copy_in
from marinenav_env.reset_pool import restore
from train_RL_agents.agents.base import Batch
from train_RL_agents.memory.replay import STORED, WEIGHTS, copied
from train_RL_agents.networks.observation import observation_of


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
        compile: whether the windows are advanced by generated code.
    """

    def __init__(
        self, n_steps: int, gamma: float, reward_scale: float, compile: bool = False
    ) -> None:
        self.n_steps, self.gamma, self.reward_scale = n_steps, gamma, reward_scale
        self.in_place = False
        """Whether open windows stay in the same memory, as a captured step needs."""
        self._open: TensorDictBase | None = None
        self._advance: Any = partial(advance_windows, gamma=gamma, reward_scale=reward_scale)
        if compile:
            self._advance = torch.compile(self._advance, fullgraph=True, dynamic=False)

    @property
    def made(self) -> bool:
        """Whether there are windows, if any are needed."""
        return self.n_steps == 1 or self._open is not None

    def rows(self, batch: TensorDictBase) -> TensorDictBase:
        """Rows that close during a batch.

        Args:
            batch: [E, T] from the collector.

        Returns:
            [T * n * E * R] rows; STORED tells which are real.
        """
        steps = [self._step(batch[:, t]) for t in range(batch.shape[1])]
        return steps[0] if len(steps) == 1 else torch.cat(steps)

    def _step(self, step: TensorDictBase) -> TensorDictBase:
        """Rows [n * E * R] that close in one vector step [E]."""
        group, following = step.get(GROUP), step.get(("next", GROUP))
        reward = following.get("reward").squeeze(-1)
        opening = TensorDict(
            {
                "observation": group.get("observation"),
                "action": group.get("action"),
                "reward": torch.zeros_like(reward),
                "discount": torch.ones_like(reward),
                STORED: group.get("mask"),
            },
            reward.shape,
        )
        if self._open is None and self.n_steps > 1:
            self._open = opening.apply(
                lambda leaf: leaf.new_zeros(self.n_steps, *leaf.shape),
                batch_size=[self.n_steps, *opening.shape],
            )
        rows, windows = self._advance(opening, following, self._open)
        if self.in_place and self.n_steps > 1:
            copy_in(self._open, windows)
        elif self.n_steps > 1:
            self._open = windows
        return rows

    def state_dict(self) -> dict[str, Any]:
        """The open windows."""
        return {"open": None if self._open is None else copied(self._open).to_dict()}

    def load_state_dict(self, state: dict[str, Any], blank: TensorDictBase) -> None:
        """Restore them.

        Args:
            state: what ``state_dict`` gave.
            blank: windows [n, E, R] of the same shapes and types, which become the open ones.

        Raises:
            KeyError: when there are none, but are needed.
            RuntimeError: when they are of another shape or type.
        """
        # States of before have none where none are needed.
        given = state.get("open") if self.n_steps == 1 else state["open"]
        if given is not None:
            restore(blank, given)
        self._open = None if given is None else blank

    def restart(self) -> None:
        """Drop the open windows."""
        self._open = None


def advance_windows(
    opening: TensorDictBase,
    following: TensorDictBase,
    before: TensorDictBase | None,
    *,
    gamma: float,
    reward_scale: float,
) -> tuple[TensorDictBase, TensorDictBase]:
    """Take all windows of all robots one step further.

    Args:
        opening: [E, R] windows that open at this step, with nothing in them yet.
        following: [E, R] what the step led to.
        before: [n, E, R] windows after the last step, the youngest first; None if n is 1.
        gamma: discount per step.
        reward_scale: factor on rewards.

    Returns:
        Rows [n * E * R], of which STORED marks those that close; and the windows [n, E, R], of
        which it marks those that stay open. They may share memory, with n = 1 also with what is
        given.
    """
    # Age k = 0 opens now; the window of age n - 1 closes at the end of this step.
    if before is None:
        windows = opening[None]
    else:
        windows = opening.apply(
            lambda new, old: torch.cat((new[None], old[:-1])), before, batch_size=before.batch_size
        )
    n_steps, ended = windows.shape[0], following.get("done").squeeze(-1)
    reward = reward_scale * following.get("reward").squeeze(-1)
    discount = windows.get("discount")
    windows.set("reward", windows.get("reward") + discount * reward)
    windows.set("discount", discount * gamma)
    age = torch.arange(n_steps, device=ended.device)[:, None, None]
    open_now = windows.get(STORED)

    rows = windows.clone(recurse=False)
    alive = ~following.get("terminated").squeeze(-1)
    rows.set("discount", windows.get("discount") * alive)
    rows.set("next_observation", following.get("observation").expand(windows.shape))
    rows.set(STORED, open_now & (ended | (age == n_steps - 1)))
    windows.set(STORED, open_now & ~ended)
    return rows.reshape(-1), windows


def example_row(step: TensorDictBase, streams: MultiStep) -> TensorDictBase:
    """A row of replay without batch dimensions, for shapes and types.

    Args:
        step: of the world, [E].
        streams: like those that will make the rows; its windows are left alone.
    """
    fresh = MultiStep(streams.n_steps, streams.gamma, streams.reward_scale)
    return fresh.rows(step[:, None])[0].exclude(STORED)


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
