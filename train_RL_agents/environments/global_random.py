"""Separate states of the global random generators for external environments, which may seed or use them."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

_NUMPY_RANDOM: Any = np.random
"""Module numpy.random, whose type stub lacks the functions of the global bit generator."""


class GlobalRandomState:
    """State of the global random generators of Python, numpy, torch and VMAS that belongs to one environment.

    Environments may use these generators, as in TorchRL's tutorials, and all of VMAS share one state. If a process had
    a single state for all, each evaluation would seed the training again, and a run's initial weights would follow
    from the environment's seed.
    """

    def __init__(self) -> None:
        # Numpy's generator is exchanged as a whole, because copying its state takes 0.1 ms.
        self._own_states = _read_generators()._replace(numpy=np.random.MT19937(0))

    @contextmanager
    def activate(self, seed: int | None = None) -> Iterator[None]:
        """Make the global generators continue from this state in the context."""
        program_states = _read_generators()
        try:
            _write_generators(self._own_states)
            if seed is not None:
                random.seed(seed)
                np.random.seed(seed % 2**32)
                # torch.manual_seed would seed all GPUs, and only the state of the current one is restored.
                torch.default_generator.manual_seed(seed)
                if torch.cuda.is_initialized():
                    torch.cuda.manual_seed(seed)
            yield
        finally:
            self._own_states = _read_generators()
            _write_generators(program_states)


class _GeneratorStates(NamedTuple):
    """States of the global random generators; None of a GPU or of VMAS that the process does not use."""

    python: Any
    numpy: Any
    """Bit generator of numpy itself, which is exchanged as a whole."""
    torch: Tensor
    cuda: Tensor | None
    vmas: list[Any] | None


def _vmas_state() -> list[Any] | None:
    """Return the list in which VMAS keeps the random state of all its environments; None if it is not imported."""
    module: Any = sys.modules.get("vmas.simulator.environment")
    return None if module is None else module.Environment.vmas_random_state


def _read_generators() -> _GeneratorStates:
    cuda = torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None
    vmas = _vmas_state()
    vmas = None if vmas is None else [*vmas]
    return _GeneratorStates(random.getstate(), _NUMPY_RANDOM.get_bit_generator(), torch.get_rng_state(), cuda, vmas)


def _write_generators(states: _GeneratorStates) -> None:
    random.setstate(states.python)
    _NUMPY_RANDOM.set_bit_generator(states.numpy)
    torch.set_rng_state(states.torch)
    if states.cuda is not None:
        torch.cuda.set_rng_state(states.cuda)
    vmas = _vmas_state()
    if vmas is not None and states.vmas is not None:
        vmas[:] = states.vmas
