"""Fixtures of the tests of the trainer."""

from collections.abc import Iterator

import pytest
import torch

from tests.train_RL_agents.tiny_runs import new_run, small_pool, train
from train_RL_agents.run_folder import RunFolder


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Tensors are small here: more threads only wait for one another, and for other programs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def tiny() -> Iterator[None]:
    """Makes runs quick to set up, and puts the number of threads back after them."""
    with small_pool():
        yield


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run that was interrupted, resumed and finished; read only."""
    with small_pool():
        run = new_run(tmp_path_factory.mktemp("runs"), "agent_type=AC-IQN", "trainer.n_steps=3")
        train(run, stop_at=100)
        train(RunFolder.open(run.path))
    return run
