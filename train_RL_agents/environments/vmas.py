"""VMAS environments with random numbers of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torchrl.envs.libs.vmas import VmasEnv

from marinenav_env.support.extras import need


class SeparateVmasEnv(VmasEnv):
    """VmasEnv that shares no random numbers with other ones.

    VMAS keeps a single random state for all its environments in a process, so that an evaluation would
    seed the training once more.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._random_state: list[Any] | None = None
        with self._own_numbers():
            super().__init__(*args, **kwargs)

    @contextmanager
    def _own_numbers(self) -> Iterator[None]:
        """Let VMAS draw from the random state of this environment."""
        shared: list[Any] = need("vmas.simulator.environment", "vmas").Environment.vmas_random_state
        others = shared[:]
        state = self.__dict__.get("_random_state")
        if state is not None:
            shared[:] = state
        try:
            yield
        finally:
            self.__dict__["_random_state"] = shared[:]
            shared[:] = others

    def _set_seed(self, seed: int | None) -> None:
        with self._own_numbers():
            super()._set_seed(seed)

    def _reset(self, *args: Any, **kwargs: Any) -> Any:
        with self._own_numbers():
            return super()._reset(*args, **kwargs)

    def _step(self, *args: Any, **kwargs: Any) -> Any:
        with self._own_numbers():
            return super()._step(*args, **kwargs)
