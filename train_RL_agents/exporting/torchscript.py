"""TorchScript, which PyTorch has deprecated but the field's C++ planners load: all of it is here.

A planner calls ``forward`` with one tuple (self_state, objects_state, objects_mask), and for agents
with fractions with a second argument, the fractions.
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
    """One tensor or several, as a tuple."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


class _Planner(nn.Module):
    """A network of separate inputs, with the observation as one tuple."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, observation: Tensors, taus: Tensor | None = None) -> Tensor | Tensors:
        """Return the outputs, or the only one."""
        more = () if taus is None else (taus,)
        outputs: Tensor | Tensors = self.network(*observation, *more)
        return outputs


@contextmanager
def _knowingly() -> Iterator[None]:
    """Without the warnings that TorchScript is deprecated."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*torch\.jit\.", FutureWarning)
        yield


def file_name(agent_type: str) -> str:
    """Return the name that planners look for."""
    return f"traced_{agent_type.replace('-', '_')}_model.pt"


def traced(network: nn.Module, example: tuple[Tensor, ...], entries: int) -> bytes:
    """Return a network as the content of a TorchScript file.

    Args:
        network: takes the entries of an observation and perhaps taus.
        example: one observation with these inputs.
        entries: how many of the inputs are the observation's.
    """
    file = io.BytesIO()
    with _knowingly():
        module = torch.jit.trace(_Planner(network).eval(), (example[:entries], *example[entries:]))
        torch.jit.save(module, file)
    return file.getvalue()


def load(path: Path, entries: int) -> Callable[..., Tensors]:
    """Return the network in a file, as a function of separate inputs; ``entries`` as in traced.

    Raises:
        ConfigError: see allowlist.script.
    """
    with _knowingly():
        module = torch.jit.load(allowlist.script(path), map_location="cpu")
    return lambda *inputs: as_tuple(module(inputs[:entries], *inputs[entries:]))
