"""Observations as networks take them."""

from __future__ import annotations

from typing import NamedTuple

from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP


class Inputs(NamedTuple):
    """Observations of any number of robots; B stands for any leading shape."""

    self_state: Tensor
    """[B, 7]."""
    objects_state: Tensor
    """[B, 5, 5]."""
    objects_mask: Tensor
    """[B, 5] bool."""


def repeat(inputs: Inputs, count: int) -> Inputs:
    """Every observation [B] so many times, [B, count], without copies."""
    axis = inputs.self_state.ndim - 1
    return Inputs(*(
        each.unsqueeze(axis).expand(*each.shape[:axis], count, *each.shape[axis:])
        for each in inputs
    ))  # fmt: skip


OBSERVATION = (GROUP, "observation")


def inputs_of(observation: TensorDictBase) -> Inputs:
    """The network inputs in an observation of the environment, of any batch shape."""
    return Inputs(*(observation.get(name) for name in Inputs._fields))
