"""What holds for all tests of the world."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """The tensors here are small: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def drawn_numbers(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The uniform numbers of generators, in the order in which they are drawn."""
    numbers: list[Tensor] = []
    uniform = torch.rand

    def recorded(*shape: Any, **options: Any) -> Tensor:
        numbers.append(uniform(*shape, **options))
        return numbers[-1]

    monkeypatch.setattr(torch, "rand", recorded)
    return numbers


@pytest.fixture
def reads_cost_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host reads are avoided, as on a GPU."""
    monkeypatch.setattr("marinenav_env.runtime.host_reads.FREE_HOST_READ_DEVICES", frozenset())
