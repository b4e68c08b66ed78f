"""TorchRL's collector interface for a batched world in this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.collectors import BaseCollector

from marinenav_env import MarineNavEnv


class LocalCollector(BaseCollector):
    """Collects vector steps of a world, without copying a step that is a batch by itself.

    TorchRL's own Collector copies every batch unless it fills a replay buffer. Even with a list in
    place of the buffer it made the default training loop 2% slower.

    Args:
        env: the world; collection continues from its present state.
        policy: writes the actions of a step; what else it writes is collected, too.
        steps: vector steps T of a batch.
    """

    def __init__(
        self,
        env: MarineNavEnv,
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
        made = []
        for _ in range(self.steps):
            step, following = self.env.step_and_maybe_reset(self.policy(following))
            made.append(step)
        self._following = following
        return made[0].unsqueeze(1) if self.steps == 1 else torch.stack(made, 1)

    def iterator(self) -> Iterator[TensorDictBase]:
        """Yield batches without end."""
        while True:
            yield self.collect()

    def shutdown(self, timeout: float | None = None, close_env: bool = True, raise_on_error: bool = True) -> None:
        """Close the world, unless it is to stay open."""
        if close_env:
            self.env.close(raise_if_closed=False)

    def set_seed(self, seed: int, static_seed: bool = False) -> int:
        """Seed the world; returns the seed for a next one, as EnvBase does."""
        following: Any = self.env.set_seed(seed, static_seed)
        return int(following)

    def state_dict(self) -> OrderedDict[str, Any]:
        """Return the state of the world under TorchRL's name."""
        return OrderedDict(env_state_dict=self.env.state_dict())

    def load_state_dict(self, state_dict: OrderedDict[str, Any]) -> None:
        """Restore a ``state_dict``; the next batch continues from it."""
        self.env.load_state_dict(state_dict["env_state_dict"])
        self._following = None
