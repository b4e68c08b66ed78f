"""Where the host may read a tensor's values within the loop."""

from __future__ import annotations

import torch

CHEAP_TO_ASK = frozenset({"cpu"})
"""Types of devices on which reading a tensor's values makes nobody wait."""


def cheap_to_ask(device: torch.device) -> bool:
    """Whether reading the values of a tensor on a device makes nobody wait.

    Where it does not, the few rows that matter can be picked out; where it does, all rows are
    computed with a mask. Both give the same.
    """
    return device.type in CHEAP_TO_ASK
