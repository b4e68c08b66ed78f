"""TorchScript files for C++ planners; only this module uses TorchScript, which PyTorch has deprecated.

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


class _Planner(nn.Module):
    """Network with the observation as one tuple, as planners call it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation: Tensors, taus: Tensor | None = None) -> Tensor | Tensors:
        """Return the outputs for an observation, as a tuple if there are several."""
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


def traced(network: nn.Module, example: tuple[Tensor, ...], entries: int) -> bytes:
    """Return the content of a TorchScript file of a network.

    Args:
        network: module whose inputs are the entries of an observation and possibly taus.
        example: example inputs of one observation.
        entries: number of inputs that are entries of the observation.
    """
    file = io.BytesIO()
    with _without_deprecation():
        module = torch.jit.trace(_Planner(network).eval(), (example[:entries], *example[entries:]))
        torch.jit.save(module, file)
    return file.getvalue()


def load(path: Path, entries: int) -> Callable[..., Tensors]:
    """Return the network in a file as a function of separate inputs, of which the first ``entries`` are observed.

    Raises:
        ConfigError: when the file could do more than compute, or cannot be read; see allowlist.script.
    """
    with _without_deprecation():
        module = torch.jit.load(allowlist.script(path), map_location="cpu")
    return lambda *inputs: as_tuple(module(inputs[:entries], *inputs[entries:]))
