"""Conversion of collected steps into transitions of replay, with multi-step returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor
from torch.utils._pytree import tree_map_only

from marinenav_env import GROUP
from marinenav_env.runtime.host_reads import true_indices
from marinenav_env.support.tensors import restore_tensors
from train_RL_agents.agents.batches import Batch
from train_RL_agents.memory.column_layout import STORED_MASK, ColumnLayout, PackedTensors, PackedTransitions, dtype_name
from train_RL_agents.memory.replay import WEIGHTS_KEY
from train_RL_agents.networks.observation import to_observation


class NStepWindows(NamedTuple):
    """Unfinished n-step transitions (windows) of every robot, tensors [n, E, R], the most recently begun first."""

    first: PackedTensors
    """First observation and action of each window, packed [n, E, R, W]."""
    reward: Tensor
    """Discounted sum of the rewards of each window so far."""
    discount: Tensor
    """Discount factor of the next reward of each window, gamma to the power of its steps so far."""
    is_open: Tensor
    """Mask of the windows that are not finished; the other entries of finished ones have no meaning."""


class MultiStep:
    """Builder of the n-step transitions of every robot.

    A window opens at every step of an active robot and closes n steps later; when the robot terminates or its episode
    is truncated, all its open windows close at once. A closed window is one transition: first observation and action,
    discounted sum of rewards, last observation, and the discount factor of its value, 0 only if the robot terminated.
    Time-outs thus bootstrap. ``shape`` are the numbers (E, R) of environments and of robots of each.
    """

    def __init__(
        self, example: TensorDictBase, shape: Sequence[int], n_steps: int, gamma: float, reward_scale: float
    ) -> None:
        self._example, self._shape = example, (n_steps, *shape)
        last = {"observation": example.get("observation")}
        self._first = ColumnLayout(TensorDict(last | {"action": example.get("action")}))
        self._last = ColumnLayout(TensorDict(last))
        self.n_steps, self.gamma, self.reward_scale = n_steps, gamma, reward_scale

    def advance(
        self, windows: NStepWindows | None, batch: TensorDictBase
    ) -> tuple[NStepWindows | None, PackedTransitions]:
        """Return the windows (None if n is 1) after steps [E, T], and the transitions of those that close during them.

        On a CPU, only these are returned; on other devices [T * n * E * R] transitions, of which the mask marks those
        to store.
        """
        group, following = batch.get(GROUP), batch.get(("next", GROUP))
        steps = []
        for t in range(batch.shape[1]):
            rows, windows = self._advance_one_step(group[:, t], following[:, t], windows)
            steps.append(rows)
        windows = windows if self.n_steps > 1 else None
        if len(steps) == 1:
            return windows, steps[0]
        packed, stored = zip(*steps, strict=True)
        return windows, PackedTransitions(
            {kind: torch.cat([matrices[kind] for matrices in packed]) for kind in packed[0]},
            None if stored[0] is None else torch.cat(stored),
        )

    def _advance_one_step(
        self, group: TensorDictBase, following: TensorDictBase, before: NStepWindows | None
    ) -> tuple[PackedTransitions, NStepWindows]:
        gained, ended = self.reward_scale * _squeezed_entry(following, "reward"), _squeezed_entry(following, "done")
        zeros, ones = torch.zeros_like(gained), torch.ones_like(gained)
        opening = NStepWindows(self._first.pack(group), zeros, ones, group.get("mask"))
        first, reward, discount, opened = _push_windows(opening, before)
        reward, discount = reward + discount * gained, discount * self.gamma
        # The window of age n - 1 closes at the end of this step.
        age = torch.arange(len(opened), device=ended.device)[:, None, None]
        closes = (opened & (ended | (age == len(opened) - 1))).flatten()
        numbers = torch.stack((reward, discount * ~_squeezed_entry(following, "terminated")), -1)
        last = self._last.pack(following)

        rows = true_indices(closes)
        stored = closes if rows is None else None
        chosen = torch.arange(len(closes), device=closes.device) if rows is None else rows
        parts = {kind: [matrix.flatten(0, 2).index_select(0, chosen)] for kind, matrix in first.items()}
        parts.setdefault(dtype_name(numbers), []).append(numbers.flatten(0, 2).index_select(0, chosen))
        robot = chosen % ended.numel()
        for kind, matrix in last.items():
            parts.setdefault(kind, []).append(matrix.flatten(0, 1).index_select(0, robot))
        packed = {kind: torch.cat(matrices, -1) for kind, matrices in parts.items()}
        return PackedTransitions(packed, stored), NStepWindows(first, reward, discount, opened & ~ended)

    def closed_windows(self) -> NStepWindows | None:
        """Return windows that are all closed; None if n is 1."""
        if self.n_steps == 1:
            return None
        reward = self._example.get("reward")
        first = self._first.zeros(self._shape, reward.device)
        zeros = reward.new_zeros(self._shape)
        return NStepWindows(first, zeros, zeros.clone(), zeros.to(torch.bool))

    def state_dict(self, windows: NStepWindows | None) -> dict[str, Any]:
        """Return a dict with the only key ``open``: copies of the tensors of windows by name, or None if n is 1."""
        if windows is None:
            return {"open": None}
        first, reward, discount, opened = windows
        parts = self._first.unpack(first).to_dict()
        parts |= {"reward": reward, "discount": discount, STORED_MASK: opened}
        # Contiguous, so that none is a view of a larger tensor.
        return {
            "open": tree_map_only(Tensor, lambda tensor: tensor.clone(memory_format=torch.contiguous_format), parts)
        }

    def windows_from_state(self, state: dict[str, Any]) -> NStepWindows | None:
        """Return the windows that ``state_dict`` saved."""
        saved = state["open"]
        if saved is None or self.n_steps == 1:
            return self.closed_windows()
        row = self._example.exclude("next_observation").set(STORED_MASK, torch.tensor(False))
        blank = row.expand(*self._shape).clone()
        restore_tensors(blank, saved)
        numbers = (blank.get(name) for name in ("reward", "discount", STORED_MASK))
        first = self._first.pack(blank)
        return NStepWindows({kind: matrix.contiguous() for kind, matrix in first.items()}, *numbers)


def _squeezed_entry(following: TensorDictBase, name: str) -> Tensor:
    """Return an entry of the robots, such as the reward [E, R, 1], without its last dimension, [E, R]."""
    value: Tensor = following.get(name)
    return value.squeeze(-1)


def _push_windows(opening: NStepWindows, before: NStepWindows | None) -> NStepWindows:
    """Return windows [n, E, R] with new ones [E, R] in front and the oldest removed; without ``before``, n is 1."""

    def push(new: Tensor, old: Tensor | None) -> Tensor:
        return new[None] if old is None else torch.cat((new[None], old[:-1]))

    old_first, *olds = before or ({}, None, None, None)
    first = {kind: push(matrix, old_first.get(kind)) for kind, matrix in opening.first.items()}
    return NStepWindows(first, *(push(new, old) for new, old in zip(opening[1:], olds, strict=True)))


def example_transition(step: TensorDictBase) -> TensorDict:
    """Return the transition of the first robot in a step [E] with TorchRL's keys, for shapes and dtypes."""
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


def to_batch(rows: TensorDictBase) -> Batch:
    """Convert transitions [B] sampled from replay to a Batch for agents."""
    return Batch(
        to_observation(rows.get("observation")),
        rows.get("action"),
        rows.get("reward"),
        rows.get("discount"),
        to_observation(rows.get("next_observation")),
        rows.get(WEIGHTS_KEY, None),
    )
