"""Memory of recurrent policies: a state of each robot that a gated recurrent unit carries from step to step."""

import torch
from torch import Tensor, nn

from marinenav_env.specs import INIT

MEMORY = "memory"
"""Name of the memory [B, H] before a step, in an observation of networks."""
NEXT_MEMORY = "next_memory"
"""Name of the memory [B, H] after a step, in outputs of networks."""
STARTS = INIT
"""Name of the mask [B, T] of first steps of an episode in an observation of networks, which makes it a window of T."""


class GRUMemory(nn.Module):
    """Gated recurrent unit (Cho et al. 2014), stepped while acting and unrolled over windows of steps while learning.

    ``nn.GRU`` cannot start an episode within a window, and splitting windows there makes shapes that depend on data.
    """

    def __init__(self, inputs: int, size: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(inputs, size)

    def forward(self, features: Tensor, memory: Tensor) -> Tensor:
        """Return the memory [..., H] after a step, for features [..., F] and the memory [..., H] before it."""
        return self._advance(self._project(features), memory)

    def unroll(self, features: Tensor, memory: Tensor, starts: Tensor, active: Tensor) -> Tensor:
        """Return the memory [B, T, ..., H] after each of T steps.

        Args:
            features: features [B, T, ..., F] of the steps.
            memory: memory [B, ..., H] before the first step.
            starts: mask [B, T, ...] of the steps that start an episode, before which the memory is zero.
            active: mask [B, T, ...] of active robots; the memory of others becomes zero.
        """
        projected, kept, seen = self._project(features).unbind(1), ~starts[..., None], active[..., None]
        steps = []
        for t, inputs in enumerate(projected):
            memory = self._advance(inputs, memory * kept[:, t]) * seen[:, t]
            steps.append(memory)
        return torch.stack(steps, 1)

    def _project(self, features: Tensor) -> Tensor:
        """Return the part [..., 3H] of the gates that depends on features [..., F], with all biases but the last."""
        # The memory's biases of two gates are added once, since a linear function copies its bias to every row.
        cell, gates = self.cell, 2 * self.cell.hidden_size
        bias = torch.cat((cell.bias_ih[:gates] + cell.bias_hh[:gates], cell.bias_ih[gates:]))
        return nn.functional.linear(features, cell.weight_ih, bias)

    def _advance(self, projected: Tensor, memory: Tensor) -> Tensor:
        """Return the memory [..., H] after a step, for the result of ``_project`` and the memory before it."""
        reset, update, new = projected.chunk(3, -1)
        reset_before, update_before, new_before = nn.functional.linear(memory, self.cell.weight_hh).chunk(3, -1)
        new_bias = self.cell.bias_hh[2 * self.cell.hidden_size :]
        candidate = torch.tanh(new + torch.sigmoid(reset + reset_before) * (new_before + new_bias))
        return candidate + torch.sigmoid(update + update_before) * (memory - candidate)
