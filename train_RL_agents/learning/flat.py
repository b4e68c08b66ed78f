"""The parameters of networks, one after another in one tensor.

What goes over all of them (norm of the gradients, optimiser, target and EMA copies) is then one
operation instead of one for every parameter, which networks as small as these gain by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

_ALIGNED = 16
"""Parameters begin at multiples of so many numbers: kernels want addresses that are aligned."""


class FlatWeights:
    """All parameters of some networks as one tensor, zeros between them.

    Each parameter stays itself, as a view of its part. It must stay that: networks that are moved
    or cast later, or laid out once more, leave this one behind (``require_in_place``).

    Args:
        networks: by name, of one type, with no parameter in common; on their device.

    Raises:
        ValueError: when they are of several types or share a parameter.
    """

    def __init__(self, networks: nn.ModuleDict) -> None:
        named = dict(networks.named_parameters())
        self.parameters: list[nn.Parameter] = list(named.values())
        self._learned = {index: name for index, (name, each) in enumerate(named.items()) if each.requires_grad}
        self.learned = [self.parameters[index] for index in self._learned]
        """Those that get gradients."""
        if len(named) != sum(len(list(each.parameters())) for each in networks.values()):
            raise ValueError("networks must not share parameters")
        if len({each.dtype for each in self.parameters}) > 1:
            raise ValueError("networks must be of one floating-point type")
        self._begins, self._networks, end = [], {}, 0
        for name, network in networks.items():
            begin = end
            for each in network.parameters():
                self._begins.append(end)
                end += _padded(each)
            self._networks[name] = slice(begin, end)
        like = self.parameters[0] if self.parameters else torch.empty(0)
        self.weights = torch.zeros(end, dtype=like.dtype, device=like.device)
        """[N]"""
        for each, view in zip(self.parameters, self.views(self.weights), strict=True):
            view.copy_(each.data)
            each.data = view
        self._addresses = [each.data_ptr() for each in self.parameters]

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return the parts of a tensor [N] that belong to the parameters, in their shapes."""
        return [
            flat[begin : begin + each.numel()].view_as(each)
            for begin, each in zip(self._begins, self.parameters, strict=True)
        ]

    @property
    def learned_names(self) -> list[str]:
        """Return the names among the networks of those that get gradients."""
        return [*self._learned.values()]

    def joined(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the gradients of the learned parameters as one tensor [N], with zeros for the others."""
        whole, end = [], 0
        for index, part in zip(self._learned, parts, strict=True):
            begin = self._begins[index]
            if begin > end:
                whole.append(part.new_zeros(begin - end))
            whole.append(part.reshape(-1))
            end = begin + part.numel()
        if len(self.weights) > end:
            whole.append(self.weights.new_zeros(len(self.weights) - end))
        return torch.cat(whole)

    def complete(self, parts: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the gradients of the learned parameters, of which none may be missing.

        Raises:
            RuntimeError: when one is, naming the parameter.
        """
        named = zip(self._learned.values(), parts, strict=True)
        lacking = [name for name, part in named if part is None]
        if lacking:
            raise RuntimeError(f"no loss sends a gradient to {', '.join(lacking)}")
        return [part for part in parts if part is not None]

    def of(self, name: str) -> Tensor:
        """Return the weights of one network: a view."""
        return self.weights[self._networks[name]]

    def require_in_place(self) -> None:
        """Check that the parameters are still views of ``weights``.

        Raises:
            RuntimeError: when they are not.
        """
        if [each.data_ptr() for each in self.parameters] != self._addresses:
            raise RuntimeError("the networks were moved, cast or laid out again; make this once more")

    # The optimiser's state is saved parameter by parameter, so that files do not depend on layout.

    def split(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the state of an optimiser of the parameters, from that of one of ``weights``."""
        whole: dict[str, Tensor] = state["state"].get(0, {})
        each: dict[int, dict[str, Tensor]] = {
            index: {"step": whole["step"].clone()} for index in (self._learned if whole else ())
        }
        for name in whole.keys() - {"step"}:
            views = self.views(whole[name].clone())
            for index, own in each.items():
                own[name] = views[index]
        group = state["param_groups"][0] | {"params": list(range(len(self.parameters)))}
        return {"state": each, "param_groups": [group]}

    def join(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return the inverse of ``split``.

        Raises:
            ValueError: when it is of other parameters.
        """
        saved = state["state"]
        joined: dict[int, dict[str, Tensor]] = {}
        if saved:
            learn = list(self._learned)
            if sorted(saved) != learn:
                raise ValueError(f"optimiser's state of {len(saved)} tensors, here {len(learn)}")
            first = saved[learn[0]]
            joined = {0: {"step": first["step"].clone()}}
            for name in first.keys() - {"step"}:
                whole = torch.zeros_like(self.weights)
                views = self.views(whole)
                for index in learn:
                    part, view = saved[index][name], views[index]
                    if part.shape != view.shape:
                        there, here = list(part.shape), list(view.shape)
                        raise ValueError(f"optimiser's {name} is {there}, here {here}")
                    view.copy_(part)
                joined[0][name] = whole
        group = state["param_groups"][0] | {"params": [0]}
        return {"state": joined, "param_groups": [group]}


def flat_bytes(networks: nn.Module) -> int:
    """Return the bytes of the parameters of networks in one tensor."""
    return sum(_padded(each) * each.element_size() for each in networks.parameters())


def _padded(parameter: Tensor) -> int:
    """Return the numbers that a parameter takes with the zeros after it."""
    return -(-parameter.numel() // _ALIGNED) * _ALIGNED
