"""The parameters of networks, one after another in one tensor.

What goes over all of them (norm of the gradients, optimiser, slow and averaged copies) is then one
operation instead of one for every parameter: of networks as small as these, most of its time.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

_ALIGNED = 16
"""Parameters begin at multiples of so many numbers: kernels want addresses that are aligned."""


class FlatWeights:
    """All parameters of some networks as one tensor, zeros between them.

    Each parameter stays itself, as a view of its part.

    Args:
        networks: by name, with no parameter in common; on their device.
    """

    def __init__(self, networks: nn.ModuleDict) -> None:
        self.parameters: list[nn.Parameter] = list(networks.parameters())
        self._begins, self._networks, end = [], {}, 0
        for name, network in networks.items():
            begin = end
            for each in network.parameters():
                self._begins.append(end)
                end += -(-each.numel() // _ALIGNED) * _ALIGNED
            self._networks[name] = slice(begin, end)
        like = self.parameters[0] if self.parameters else torch.empty(0)
        self.weights = torch.zeros(end, dtype=like.dtype, device=like.device)
        """[N]"""
        for each, view in zip(self.parameters, self.views(self.weights), strict=True):
            view.copy_(each.data)
            each.data = view

    def views(self, flat: Tensor) -> list[Tensor]:
        """The parts of a tensor [N] that belong to the parameters, in their shapes."""
        return [
            flat[begin : begin + each.numel()].view_as(each)
            for begin, each in zip(self._begins, self.parameters, strict=True)
        ]

    def of(self, name: str) -> Tensor:
        """The weights of one network: a view."""
        return self.weights[self._networks[name]]

    # The optimiser's state is saved parameter by parameter, so that files do not depend on layout.

    def split(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state of an optimiser of the parameters, from that of one of ``weights``."""
        whole = state["state"].get(0)
        each = {} if whole is None else {
            index: {name: value.clone() for name, value in whole.items() if not value.ndim}
            for index in range(len(self.parameters))
        }  # fmt: skip
        for name, value in (whole or {}).items():
            for index, view in enumerate(self.views(value) if value.ndim else []):
                each[index][name] = view
        group = state["param_groups"][0] | {"params": list(range(len(self.parameters)))}
        return {"state": each, "param_groups": [group]}

    def join(self, state: dict[str, Any]) -> dict[str, Any]:
        """What ``split`` was given.

        Raises:
            ValueError: when it is of other parameters.
        """
        group = state["param_groups"][0] | {"params": [0]}
        if not state["state"]:
            return {"state": {}, "param_groups": [group]}
        whole: dict[str, Tensor] = {}
        for name, first in state["state"][0].items():
            if first.ndim:
                whole[name] = torch.zeros_like(self.weights)
                parts = [state["state"][index][name] for index in sorted(state["state"])]
                for view, part in zip(self.views(whole[name]), parts, strict=True):
                    view.copy_(part)
            else:
                whole[name] = first.clone()
        return {"state": {0: whole}, "param_groups": [group]}
