"""TorchScript files for C++ path planners; only this module uses TorchScript, which PyTorch has deprecated.

A planner calls ``forward`` with a tuple (self_state, objects_state, objects_mask); agents with quantile fractions take
these as a second argument.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from train_RL_agents.exporting import allowlist

Tensors = tuple[Tensor, ...]


def as_tuple(outputs: Tensor | Tensors) -> Tensors:
    """Return the outputs of a network, one or several tensors, as a tuple."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


class _PlannerNetwork(nn.Module):
    """Network with the observation as one tuple, as planners call it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation: Tensors, taus: Tensor | None = None) -> Tensor | Tensors:
        """Return the outputs [B, ...] for a tuple of the entries of an observation, as a tuple if there are several."""
        more = () if taus is None else (taus,)
        outputs: Tensor | Tensors = self.network(*observation, *more)
        return outputs


@contextmanager
def _without_deprecation() -> Iterator[None]:
    """Suppress the warnings that TorchScript is deprecated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*torch\.jit\.", FutureWarning)
        yield


def file_name(agent_type: str) -> str:
    """Return the name of the file in which planners look for the policy of an agent."""
    return f"traced_{agent_type.replace('-', '_')}_model.pt"


def trace_to_bytes(network: nn.Module, example: tuple[Tensor, ...], num_entries: int) -> bytes:
    """Return the content of a TorchScript file of a network, whose ``forward`` takes the observation as a tuple.

    Args:
        network: module whose inputs are the entries of an observation and possibly quantile fractions (taus).
        example: example inputs [1, ...].
        num_entries: number of inputs that are entries of the observation.
    """
    file = io.BytesIO()
    with _without_deprecation():
        module = torch.jit.trace(_PlannerNetwork(network).eval(), (example[:num_entries], *example[num_entries:]))
        torch.jit.save(module, file)
    return file.getvalue()


def load(path: Path, num_entries: int) -> Callable[..., Tensors]:
    """Return the network in a file as a function of separate inputs; the first ``num_entries`` are the observation.

    Raises:
        ConfigError: when the file could do more than compute, or cannot be read.
    """
    with _without_deprecation():
        module = torch.jit.load(allowlist.read_script(path), map_location="cpu")
    return lambda *inputs: as_tuple(module(inputs[:num_entries], *inputs[num_entries:]))
