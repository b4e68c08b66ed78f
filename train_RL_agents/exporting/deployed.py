"""Agents as modules for export."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from train_RL_agents.agents import Agent
from train_RL_agents.boat.network import ACTION_OUTPUT
from train_RL_agents.networks.memory import MEMORY, NEXT_MEMORY
from train_RL_agents.networks.observation import Observation

Tensors = tuple[Tensor, ...]


def as_tuple(outputs: Tensor | Tensors) -> Tensors:
    """Return the outputs of a network, one or several tensors, as a tuple."""
    return outputs if isinstance(outputs, tuple) else (outputs,)


class DeployedAgent(nn.Module):
    """Copy of an agent on the CPU for export, with positional inputs and without target networks and unused ones."""

    agent: Agent[Any]

    def __init__(self, agent: Agent[Any], dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.agent = copy.deepcopy(agent).cpu().to(dtype).eval().requires_grad_(False)
        self.dtype = dtype
        self.agent.targets = nn.ModuleDict()
        for name in list(self.agent.networks):
            if name not in agent.output_networks():
                del self.agent.networks[name]
        self.entries = agent.spec.exclude(agent.config.excluded).entries
        first = {name: value.to(dtype) for name, value in self.observations(1).items()}
        self.extra_names = list(self.agent.extra_inputs(first))
        """Names of the inputs beside the entries of the observation and the memory."""

    @property
    def input_names(self) -> list[str]:
        """Return the names of the inputs in their order: entries of the observation, then ``taus`` and the memory."""
        return [*self.entries, *self.extra_names, *([MEMORY] if self.agent.memory_size else [])]

    def forward(self, *inputs: Tensor) -> Tensor | Tensors:
        """Return the outputs [B, ...] as a tuple, or the only one, for inputs [B, ...] in the order of input_names."""
        named = dict(zip(self.input_names, inputs, strict=True))
        extras = {name: named.pop(name) for name in self.extra_names}
        outputs = self.agent.outputs(named, **extras)
        if self.agent.memory_size:
            outputs[NEXT_MEMORY] = self.agent.remember(named, outputs)
        return tuple(outputs.values()) if len(outputs) > 1 else next(iter(outputs.values()))

    def outputs(self, *inputs: Tensor) -> Tensors:
        """Return the outputs for the inputs as a tuple, even if there is only one."""
        return as_tuple(self(*inputs))

    def outputs_and_action(self, *inputs: Tensor) -> Tensors:
        """Return the outputs and, as the last one, the action that the agent selects from them."""
        outputs = self.outputs(*inputs)
        return *outputs, self.agent.select(dict(zip(self.output_names, outputs, strict=False)))

    @property
    def output_names(self) -> list[str]:
        """Return the names of the results of ``outputs_and_action``."""
        return [*self.agent.output_meanings, ACTION_OUTPUT]

    def observations(self, count: int, seed: int = 0) -> Observation:
        """Return random observations, [count, ...] by entry in float64, of typical magnitudes; the first is zeros."""
        options: dict[str, Any] = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.float64}
        observation: Observation = {}
        for name, entry in self.entries.items():
            shape = (count, *entry.shape)
            if entry.kind == "mask":
                observation[name] = (torch.rand(shape, **options) < 0.6).double()
            elif entry.kind == "identity":
                observation[name] = torch.rand(shape, **options).argsort(-1) + 1.0
            else:
                scale = torch.tensor(entry.scale or (1.0,), dtype=torch.float64)
                drawn = torch.randn(shape, **options) * scale
                # Distances and radii are not negative.
                lowest = torch.tensor([low for low, _ in entry.limits], dtype=torch.float64)
                observation[name] = torch.where(lowest < 0.0, drawn, drawn.abs())
        for name, entry in self.entries.items():
            if entry.kind == "objects":
                observation[name][..., -1].abs_()  # the radius
            if entry.mask:
                present = observation[entry.mask]
                observation[name] *= present if entry.kind == "identity" else present[..., None]
        for entry_values in observation.values():
            entry_values[0] = 0.0
        return observation

    def inputs(self, count: int, seed: int = 0) -> tuple[Tensor, ...]:
        """Return random inputs [count, ...] in the order of input_names; the memory is that after a first step."""
        drawn = {name: value.to(self.dtype) for name, value in self.observations(count, seed).items()}
        values = (*drawn.values(), *self.agent.extra_inputs(drawn).values())
        if not self.agent.memory_size:
            return values
        first = {**drawn, MEMORY: torch.zeros(count, self.agent.memory_size, dtype=self.dtype)}
        return (*values, self.agent.remember(first, self.agent.outputs(first)))
