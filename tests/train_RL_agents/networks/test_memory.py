"""The memory of recurrent policies: a step against PyTorch's, and windows against steps."""

import pytest
import torch

from marinenav_env.runtime.compiling import compile_function
from marinenav_env.runtime.kept_code import keep_code_in
from tests.train_RL_agents.helpers import seeded
from train_RL_agents.networks.memory import GRUMemory


@pytest.fixture
def memory():
    torch.manual_seed(0)
    return GRUMemory(5, 4).double()


def drawn(*shape):
    return torch.randn(*shape, generator=seeded(sum(shape)), dtype=torch.float64)


def test_a_step_is_that_of_pytorch(memory):
    features, before = drawn(7, 5), drawn(7, 4)
    torch.testing.assert_close(memory(features, before), memory.cell(features, before), rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("robots", [(), (3,)], ids=["own", "fleet"])
def test_a_window_is_unrolled_as_it_was_stepped(memory, robots):
    batch, steps = (6, *robots), 9
    features, before = drawn(6, steps, *robots, 5), drawn(*batch, 4)
    starts, active = (torch.rand(6, steps, *robots, generator=seeded(each)) < 0.3 for each in (1, 2))
    after = memory.unroll(features, before, starts, active)
    now = before
    for t in range(steps):
        now = memory(features[:, t], torch.where(starts[:, t, ..., None], 0.0, now))
        now = torch.where(active[:, t, ..., None], now, 0.0)
        torch.testing.assert_close(after[:, t], now, rtol=0.0, atol=1e-12)
    assert starts.any() and not active.all()


class Inherited(GRUMemory):
    """A user's memory, which may override something tomorrow."""


@pytest.mark.heavy
@pytest.mark.skipif(torch.__version__ < "2.15", reason="torch keeps no whole functions")
def test_code_of_a_class_that_is_derived_elsewhere_is_not_kept(tmp_path):
    files = []
    for kind in (Inherited, GRUMemory):
        with keep_code_in(tmp_path, "marinenav_env", "train_RL_agents"):
            compile_function(kind(3, 2).forward, torch.device("cpu"), kept_for="")(torch.ones(2, 3), torch.ones(2, 2))
        files.append(len([*tmp_path.iterdir()]))
    assert files == [0, 1]
