"""What holds for all tests of the world."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def one_thread():
    """The tensors here are small: more threads only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def drawn_numbers(monkeypatch):
    """The uniform numbers of generators, in the order in which they are drawn."""
    numbers = []
    uniform = torch.rand

    def recorded(*shape, **options):
        numbers.append(uniform(*shape, **options))
        return numbers[-1]

    monkeypatch.setattr(torch, "rand", recorded)
    return numbers
