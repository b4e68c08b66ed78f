"""TorchScript files for C++ path planners; only this module uses TorchScript, which PyTorch has deprecated.

A planner calls ``forward`` with a tuple (self_state, objects_state, objects_mask); agents with quantile fractions or
a memory take these as further arguments.
"""

import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from train_RL_agents.exporting.deployed import DeployedAgent, Tensors, as_tuple


class _PlannerNetwork(nn.Module):
    """Network with the observation as one tuple, as planners call it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, observation: Tensors, further: Tensor | None = None, last: Tensor | None = None
    ) -> Tensor | Tensors:
        """Return the outputs [B, ...] for a tuple of the entries of an observation, as a tuple if there are several.

        Further inputs are quantile fractions and the memory, of agents that have them.
        """
        more = [value for value in (further, last) if value is not None]
        outputs: Tensor | Tensors = self.network(*observation, *more)
        return outputs


@contextmanager
def _without_deprecation() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*torch\.jit\.", FutureWarning)
        yield


def file_name(agent_type: str) -> str:
    """Return the name of the file in which planners look for the policy of an agent."""
    return f"traced_{agent_type.replace('-', '_')}_model.pt"


def make_content(network: DeployedAgent, example: Tensors) -> bytes:
    """Return the content of the TorchScript file of a network; ``example`` are example inputs [B, ...]."""
    file, count, single = io.BytesIO(), len(network.entries), tuple(tensor[:1] for tensor in example)
    with _without_deprecation():
        module = torch.jit.trace(_PlannerNetwork(network).eval(), (single[:count], *single[count:]))
        torch.jit.save(module, file)
    return file.getvalue()


def load(path: Path, network: DeployedAgent) -> Callable[..., Tensors]:
    """Return the network in a file that was just written, as a function of separate inputs; its program is run."""
    count = len(network.entries)
    with _without_deprecation():
        module = torch.jit.load(path, map_location="cpu")
    return lambda *inputs: as_tuple(module(inputs[:count], *inputs[count:]))
