"""What holds for all tests of the world."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from marinenav_env.scenarios.draws import GeneratorDraws


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
    uniform = GeneratorDraws._uniform

    def recorded(self: GeneratorDraws, *shape: int) -> Tensor:
        numbers.append(uniform(self, *shape))
        return numbers[-1]

    monkeypatch.setattr(GeneratorDraws, "_uniform", recorded)
    return numbers
