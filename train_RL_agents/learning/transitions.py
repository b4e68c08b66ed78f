"""Conversion of collected steps into transitions of replay, with multi-step returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from marinenav_env.runtime.host_reads import true_indices
from marinenav_env.support.tensors import restore_tensors
from train_RL_agents.agents.batches import Batch
from train_RL_agents.learning.replay import STORED_MASK, WEIGHTS_KEY, blank_rows, map_tensors, rows_at
from train_RL_agents.networks.observation import to_observation


class MultiStep:
    """Builder of the n-step transitions of every robot.

    A window opens at every step of an active robot and closes n steps later; when the robot terminates or its episode
    is truncated, all its open windows close at once. A closed window is one transition: first observation and action,
    discounted sum of rewards, last observation, and the discount factor of its value, 0 only if the robot terminated.
    Time-outs thus bootstrap. ``shape`` are the numbers (E, R) of environments and of robots of each.

    Windows are a tensordict [n, E, R], the most recently begun first: first ``observation`` and ``action``, discounted
    sum ``reward`` so far, ``discount`` factor of the next reward, and the mask STORED_MASK of those that are open.
    """

    def __init__(
        self, example: TensorDictBase, shape: Sequence[int], n_steps: int, gamma: float, reward_scale: float
    ) -> None:
        self._example, self._shape = example, (n_steps, *shape)
        self.n_steps, self.gamma, self.reward_scale = n_steps, gamma, reward_scale

    def advance(self, windows: TensorDictBase, batch: TensorDictBase) -> tuple[TensorDictBase, TensorDictBase]:
        """Return the windows after steps [E, T], and the transitions of those that close during them.

        On a CPU, only these are returned; on other devices [T * n * E * R] transitions, with the mask STORED_MASK of
        those to store.
        """
        group, following = batch.get(GROUP), batch.get(("next", GROUP))
        steps = []
        for t in range(batch.shape[1]):
            rows, windows = self._advance_one_step(group[:, t], following[:, t], windows)
            steps.append(rows)
        number = sum(map(len, steps))
        return windows, steps[0] if len(steps) == 1 else map_tensors(lambda *rows: torch.cat(rows), [number], *steps)

    def _advance_one_step(
        self, group: TensorDictBase, following: TensorDictBase, before: TensorDictBase
    ) -> tuple[TensorDictBase, TensorDictBase]:
        gained, ended = self.reward_scale * _squeezed_entry(following, "reward"), _squeezed_entry(following, "done")
        opening = group.select("observation", "action").set(STORED_MASK, group.get("mask"))
        opening.set("reward", torch.zeros_like(gained)).set("discount", torch.ones_like(gained))
        windows = map_tensors(lambda new, old: torch.cat((new[None], old[:-1])), before.shape, opening, before)
        opened, discount = windows.get(STORED_MASK), windows.get("discount")
        windows.set("reward", windows.get("reward") + discount * gained).set("discount", discount * self.gamma)
        # The window of age n - 1 closes at the end of this step.
        age = torch.arange(len(opened), device=ended.device)[:, None, None]
        closes = (opened & (ended | (age == len(opened) - 1))).flatten()
        rows = true_indices(closes)
        chosen = torch.arange(len(closes), device=closes.device) if rows is None else rows
        closed, robot = rows_at(windows.exclude(STORED_MASK).flatten(0, 2), chosen), chosen % ended.numel()
        goes_on = ~_squeezed_entry(following, "terminated").flatten()[robot]
        closed.set("discount", closed.get("discount") * goes_on)
        closed.set("next_observation", rows_at(following.get("observation").flatten(0, 1), robot))
        if rows is None:
            closed.set(STORED_MASK, closes)
        return closed, windows.set(STORED_MASK, opened & ~ended)

    def closed_windows(self) -> TensorDictBase:
        """Return windows that are all closed."""
        is_open = self._example.get("reward").new_zeros((), dtype=torch.bool)
        return blank_rows(self._example.exclude("next_observation").set(STORED_MASK, is_open), self._shape)

    def state_dict(self, windows: TensorDictBase) -> dict[str, Any]:
        """Return a dict with the only key ``open``: copies of the tensors of windows by name, or None if n is 1."""
        if self.n_steps == 1:  # none is open between steps
            return {"open": None}
        # Contiguous, so that none is a view of a larger tensor.
        return {"open": windows.apply(lambda leaf: leaf.clone(memory_format=torch.contiguous_format)).to_dict()}

    def windows_from_state(self, state: dict[str, Any]) -> TensorDictBase:
        """Return the windows that ``state_dict`` saved."""
        windows = self.closed_windows()
        if self.n_steps > 1:
            restore_tensors(windows, state["open"])
        return windows


def _squeezed_entry(following: TensorDictBase, name: str) -> Tensor:
    """Return an entry of the robots, such as the reward [E, R, 1], without its last dimension, [E, R]."""
    value: Tensor = following.get(name)
    return value.squeeze(-1)


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
