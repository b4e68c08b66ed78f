"""TorchRL's collector interface for a batched world in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.collectors import BaseCollector
from torchrl.envs import EnvBase


class LocalCollector(BaseCollector):
    """Collector of vector steps of a world that does not copy batches of a single step.

    TorchRL's Collector copies every batch unless it fills a replay buffer. With a list in place of the buffer, it still
    made the default training loop 2% slower.

    Args:
        env: world, whose current state collection continues from.
        policy: policy that writes the actions of a step; further entries that it writes are collected, too.
        steps: number T of vector steps of a batch.
    """

    def __init__(
        self,
        env: EnvBase,
        policy: Callable[[TensorDictBase], TensorDictBase],
        steps: int = 1,
    ) -> None:
        super().__init__()
        self.env, self.policy, self.steps = env, policy, steps
        self._following: TensorDictBase | None = None

    @torch.no_grad()
    def collect(self) -> TensorDictBase:
        """Return the next vector steps [E, T], with TorchRL's keys."""
        following = self.env.reset() if self._following is None else self._following
        collected = []
        for _ in range(self.steps):
            step, following = self.env.step_and_maybe_reset(self.policy(following))
            collected.append(step)
        self._following = following
        return collected[0].unsqueeze(1) if self.steps == 1 else torch.stack(collected, 1)

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield batches without end."""
        while True:
            yield self.collect()

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Close the world, unless ``close_env`` is false."""
        if close_env:
            self.env.close(raise_if_closed=False)

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Seed the world, and return the seed for the next one, as EnvBase does."""
        next_seed: Any = self.env.set_seed(seed, static_seed)
        return int(next_seed)

    def state_dict(self) -> OrderedDict[str, Any]:
        """Return the state of the world under TorchRL's key."""
        return OrderedDict(env_state_dict=self.env.state_dict())

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Restore a ``state_dict``; the next batch continues from it."""
        self.env.load_state_dict(state_dict["env_state_dict"])
        self._following = None
