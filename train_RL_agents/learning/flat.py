"""Parameters of networks, concatenated in one tensor.

Operations on all of them (norm of the gradients, optimiser, target and EMA copies) then take one kernel instead of one
per parameter, which is faster for small networks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_ALIGNMENT = 16
"""Alignment of the parameters (elements), because kernels need aligned addresses."""


class FlatWeights:
    """All parameters of some networks in one flat tensor, with zeros between them.

    Every parameter becomes a view of a section of that tensor. This no longer holds for networks that are moved, cast
    or flattened again later (``require_in_place``).
    """

    def __init__(self, networks: nn.ModuleDict) -> None:
        named = dict(networks.named_parameters())
        self.parameters: list[nn.Parameter] = list(named.values())
        self._learned_names = {
            index: name for index, (name, parameter) in enumerate(named.items()) if parameter.requires_grad
        }
        self.learned_parameters = [self.parameters[index] for index in self._learned_names]
        """Parameters that get gradients."""
        if len(named) != sum(len(list(network.parameters())) for network in networks.values()):
            raise ValueError("networks must not share parameters")
        if len({parameter.dtype for parameter in self.parameters}) > 1:
            raise ValueError("networks must be of one floating-point type")
        self._begins, self._networks, end = [], {}, 0
        for name, network in networks.items():
            begin = end
            for parameter in network.parameters():
                self._begins.append(end)
                end += _padded_size(parameter)
            self._networks[name] = slice(begin, end)
        like = self.parameters[0] if self.parameters else torch.empty(0)
        self.weights = torch.zeros(end, dtype=like.dtype, device=like.device)
        """Flat tensor [N] that holds all parameters."""
        for parameter, view in zip(self.parameters, self.parameter_views(self.weights), strict=True):
            view.copy_(parameter.data)
            parameter.data = view
        self._addresses = [parameter.data_ptr() for parameter in self.parameters]

    def parameter_views(self, flat: Tensor) -> list[Tensor]:
        """Return views of a flat tensor [N], one for each parameter, with the shapes of the parameters."""
        return [
            flat[begin : begin + parameter.numel()].view_as(parameter)
            for begin, parameter in zip(self._begins, self.parameters, strict=True)
        ]

    @property
    def learned_names(self) -> list[str]:
        """Return the names of the parameters that get gradients."""
        return [*self._learned_names.values()]

    def concatenate_gradients(self, parts: Sequence[Tensor]) -> Tensor:
        """Return the gradients of the learned parameters as one flat tensor [N], with zeros elsewhere."""
        whole, end = [], 0
        for index, part in zip(self._learned_names, parts, strict=True):
            begin = self._begins[index]
            if begin > end:
                whole.append(part.new_zeros(begin - end))
            whole.append(part.reshape(-1))
            end = begin + part.numel()
        if len(self.weights) > end:
            whole.append(self.weights.new_zeros(len(self.weights) - end))
        return torch.cat(whole)

    def require_all_gradients(self, parts: Sequence[Tensor | None]) -> list[Tensor]:
        """Return the gradients of the learned parameters; a RuntimeError names those that are missing."""
        named = zip(self._learned_names.values(), parts, strict=True)
        lacking = [name for name, part in named if part is None]
        if lacking:
            raise RuntimeError(f"no loss sends a gradient to {', '.join(lacking)}")
        return [part for part in parts if part is not None]

    def network_weights(self, name: str) -> Tensor:
        """Return the weights of the network called ``name``, a view of the flat tensor."""
        return self.weights[self._networks[name]]

    def require_in_place(self) -> None:
        """Raise a RuntimeError if the parameters are no longer views of ``weights``."""
        if [parameter.data_ptr() for parameter in self.parameters] != self._addresses:
            raise RuntimeError("the networks were moved, cast or laid out again; make this once more")

    def optimizer_views(self, state: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
        """Return the state of an optimiser of the flat tensor as one for each learned parameter, by its number.

        A saved state then does not depend on the layout. The values are views, ``step`` that of all parameters.
        """
        views = {name: self.parameter_views(value) for name, value in state.items() if name != "step"}
        return {
            index: {"step": state["step"]} | {name: parts[index] for name, parts in views.items()}
            for index in self._learned_names
        }


def flat_bytes(networks: nn.Module) -> int:
    """Return the number of bytes that the parameters of networks take in FlatWeights."""
    return sum(_padded_size(parameter) * parameter.element_size() for parameter in networks.parameters())


def _padded_size(parameter: Tensor) -> int:
    """Return the number of elements of a parameter, including the zeros after it."""
    return -(-parameter.numel() // _ALIGNMENT) * _ALIGNMENT
