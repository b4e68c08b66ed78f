"""Compilation of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_ON_GPU: dict[str, Any] = {
    "combo_kernels": True,
    "combo_kernel_max_num_nodes": 64,
    "combo_kernel_peak_memory_pct_threshold": None,
}
"""Options for a GPU: what is independent becomes one kernel. With tensors as small as these,
starting a kernel takes longer than running it."""


def compiled(
    function: Callable[..., Any], device: torch.device, dynamic: bool | None = False
) -> Callable[..., Any]:
    """Compile a function into one graph.

    Args:
        function: of tensors.
        device: of the tensors.
        dynamic: whether code is to serve several shapes; None: from the second shape on.
    """
    options = None
    if device.type == "cuda":
        from torch._inductor import config

        # Each version knows others.
        options = {name: value for name, value in _ON_GPU.items() if hasattr(config, name)}
    return torch.compile(function, fullgraph=True, dynamic=dynamic, options=options)
