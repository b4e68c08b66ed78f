"""Where the host may read a tensor's values within the loop."""

from __future__ import annotations

import torch

FREE_HOST_READS = frozenset({"cpu"})
"""Types of devices on which host reads do not synchronise."""


def host_reads_are_free(device: torch.device) -> bool:
    """Whether reading a tensor's values on the host does not synchronise with its device.

    If so, the few rows that matter can be selected; if not, all rows are computed with a mask. Both
    give the same.
    """
    return device.type in FREE_HOST_READS
