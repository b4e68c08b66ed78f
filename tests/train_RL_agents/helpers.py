"""What the tests of the trainer share: random inputs and batches, and a ban on host reads."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from train_RL_agents.agents import Agent, Batch
from train_RL_agents.networks.layers import (
    OBJECT_FEATURES,
    OBJECT_SCALE,
    OBJECTS,
    SELF_FEATURES,
    SELF_SCALE,
)
from train_RL_agents.networks.observation import Inputs


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_inputs(*shape: int, generator: torch.Generator) -> Inputs:
    """Random observations of any leading shape, of the size that the world's have."""
    own = torch.randn(*shape, SELF_FEATURES, generator=generator) * torch.tensor(SELF_SCALE)
    objects = torch.randn(*shape, OBJECTS, OBJECT_FEATURES, generator=generator)
    mask = torch.rand(*shape, OBJECTS, generator=generator) < 0.6
    return Inputs(own, objects * torch.tensor(OBJECT_SCALE) * mask[..., None], mask)


def make_actions(agent: Agent[Any], count: int, generator: torch.Generator) -> Tensor:
    if agent.continuous:
        return 2.0 * torch.rand(count, 2, generator=generator) - 1.0
    return torch.randint(agent.num_actions, (count,), generator=generator)


def behaviour(agent: Agent[Any], inputs: Inputs, seed: int = 0) -> Tensor:
    """Actions while training, for one draw of what is random in them."""
    return agent.behave(inputs, agent.exploration_noise(inputs.self_state.shape[:-1], seeded(seed)))


def make_batch(agent: Agent[Any], count: int, generator: torch.Generator) -> Batch:
    """Random transitions, about a third of them terminal."""
    return Batch(
        make_inputs(count, generator=generator),
        make_actions(agent, count, generator),
        torch.randn(count, generator=generator),
        0.9 * (torch.rand(count, generator=generator) < 2 / 3),
        make_inputs(count, generator=generator),
    )


def gradient_sizes(losses: Tensor, parameters: Sequence[Tensor]) -> list[float]:
    """Largest absolute entry of the gradient of each parameter; 0 where none arrives."""
    gradients = torch.autograd.grad(losses, parameters, retain_graph=True, allow_unused=True)
    return [0.0 if each is None else float(each.abs().max()) for each in gradients]


class _NoReads(TorchDispatchMode):
    """Refuses operators whose result only the host can know, also deep inside others."""

    REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2")

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func.overloadpacket.__name__
        assert name not in self.REFUSED, f"{name} reads on the host"
        if name.startswith(("index", "_index")) and isinstance(args[1], list | tuple):
            masks = [index for index in args[1] if index is not None and index.dtype == torch.bool]
            assert not masks, f"{name} with a mask reads on the host"
        return func(*args, **kwargs or {})


@contextmanager
def no_host_reads() -> Iterator[None]:
    """Within it, reading a tensor's value in Python or through an operator fails."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a tensor was read on the host")

    names = ("item", "tolist", "numpy", "nonzero", "cpu", "__bool__", "__int__", "__float__",
             "__index__", "__array__", "__contains__")  # fmt: skip
    patches = [patch.object(torch.Tensor, name, refuse) for name in names]
    for each in patches:
        each.start()
    try:
        with _NoReads():
            yield
    finally:
        for each in patches:
            each.stop()
