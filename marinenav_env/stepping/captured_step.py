"""The environment's step as a CUDA graph, with the state in static tensors."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env.runtime.captured import Captured
from marinenav_env.runtime.layout import copy_all, copy_in
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.state import Outcome
from marinenav_env.stepping.world import WorldState


class Stepped(NamedTuple):
    """A control step, the new episodes that follow it, and both under TorchRL's keys."""

    world: WorldState
    """What the next step starts from."""
    outcome: Outcome
    """Of the step."""
    step: TensorDictBase
    """What the step led to, before new episodes."""
    following: TensorDictBase
    """``world``: the start of the next step."""


class CapturedStep:
    """Makes steps by a function; on a GPU from the fourth on by one CUDA graph.

    The state and the outcome are always in the same tensors. What is returned under TorchRL's keys
    is in new ones.

    Args:
        function: from a world, actions and a source of noise; what else it reads stays where it is,
            and it draws from no generator.
        world: a state, for its shapes.
        noise: the source, which goes on in place.
    """

    def __init__(
        self,
        function: Callable[[WorldState, Tensor, RandomSource], Stepped],
        world: WorldState,
        noise: RandomSource,
    ) -> None:
        self._function, self._noise = function, noise
        now, parameters = world
        own = parameters.batch_size[0] > 1
        self._world = WorldState(now.clone(), parameters.clone() if own else parameters)
        self._call = Captured(self._make_step, noise.step.device, name="a step of the environment")

    @torch.no_grad()
    def __call__(self, world: WorldState, action: Tensor, noise: RandomSource) -> Stepped:
        """Make a step.

        Args:
            world: before the step; unless it is that of the latest step it is copied.
            action: see ``World.step``.
            noise: taken from the source.
        """
        if world is not self._world:
            self._write(world)
        made = self._call(action, noise.step)
        return Stepped(self._world, made["outcome"], *_copies(made["step"], made["following"]))

    def _make_step(self, action: Tensor, step: Tensor) -> dict[str, Any]:
        """Make a step in the static state, which is captured.

        Args:
            action: see ``World.step``.
            step: [] int64, number of the step for the noise.
        """
        made = self._function(self._world, action, self._noise._replace(step=step))
        self._write(made.world)
        return {"outcome": made.outcome, "step": made.step, "following": made.following}

    def _write(self, world: WorldState) -> None:
        """Write a state to the static one."""
        copy_in(self._world.now, world.now)
        copy_in(self._world.parameters, world.parameters)


def _copies(*given: Any) -> list[Any]:
    """Copies of TensorDicts, made by few kernels."""
    made: list[Any] = [torch.empty_like(each) for each in given]
    targets, sources = (
        chain.from_iterable(each.values(True, True) for each in every) for every in (made, given)
    )
    copy_all(targets, sources)
    return made
