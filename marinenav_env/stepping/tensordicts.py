"""Conversion of steps of the world to tensordicts with TorchRL's keys."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase, is_tensor_collection
from torch import Tensor

from marinenav_env.specs import GROUP, INIT, STATISTICS
from marinenav_env.state import Outcome


def make_tensordict(
    observation: TensorDictBase | Tensor,
    active: Tensor,
    outcome: Outcome | None,
    device: torch.device,
    statistics: Tensor | None = None,
    begins: Tensor | None = None,
) -> TensorDictBase:
    """Return a tensordict with the keys of MarineNavEnv, batch [E], after a step or, without outcome, a reset.

    ``observation`` is a TensorDict [E, R] or, if flat, a tensor [E, R, D]; ``active`` [E, R] says which robots are
    active and controlled by actions, and ``begins`` [E] whose episode begins, none by default.
    """
    group: dict[str, Any] = {"observation": observation, "mask": active}
    if outcome is None:
        # A robot that has ended stays done until the episode is over; an absent robot is always done.
        ended = ~active[..., None]
        never = torch.zeros_like(ended)
        group |= {"done": ended, "terminated": ended.clone(), "truncated": never}
        root = {name: never[:, 0].clone() for name in ("done", "terminated", "truncated")}
    else:
        terminated, truncated = outcome.terminated[..., None], outcome.truncated[..., None]
        group |= {"reward": outcome.reward[..., None], "done": terminated | truncated}
        group |= {"terminated": terminated, "truncated": truncated}
        over, terminated = outcome.episode_done[:, None], outcome.episode_terminated[:, None]
        root = {"done": over, "terminated": terminated, "truncated": over & ~terminated}
    root[INIT] = torch.zeros_like(root["done"]) if begins is None else begins[:, None]
    if statistics is not None:
        root[STATISTICS] = statistics
    # The device is given for every tensordict, because otherwise all tensors are converted.
    robots = TensorDict(group, active.shape, device)
    return TensorDict({GROUP: robots, **root}, active.shape[:1], device)


def add_missing_entries(before: TensorDictBase, after: TensorDictBase) -> None:
    """Add to the tensordict ``after`` the entries of ``before`` that it lacks, also in nested tensordicts."""
    for name, value in before.items():
        nested = is_tensor_collection(value)
        if name not in after.keys():  # noqa: SIM118
            after.set(name, value.copy() if nested else value)
        elif nested:
            add_missing_entries(value, after.get(name))
