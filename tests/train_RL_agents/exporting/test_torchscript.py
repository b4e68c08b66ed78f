"""TorchScript files as planners call them."""

import pytest
import torch
from torch import nn

from train_RL_agents.exporting.torchscript import as_tuple, file_name, load, trace_to_bytes


class Sums(nn.Module):
    """Two outputs of two entries and, if given, a further input."""

    def forward(self, first, second, taus=None):
        total = first.sum(-1) + second.sum(-1)
        return total, total if taus is None else total * taus


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
def test_the_observation_is_one_tuple_and_the_rest_follows(tmp_path):
    example = (torch.ones(1, 2), torch.ones(1, 3), torch.full((1,), 2.0))
    for count in (2, 3):
        path = tmp_path / f"{count}.pt"
        path.write_bytes(trace_to_bytes(Sums(), example[:count], 2))
        module = torch.jit.load(str(path))
        outputs = module(example[:2], *example[2:count])
        assert [each.tolist() for each in outputs] == [[5.0], [5.0 * (count - 1)]]
        # The same as a function of separate inputs.
        called = load(path, 2)(*example[:count])
        assert all(torch.equal(one, other) for one, other in zip(called, outputs, strict=True))


def test_one_output_is_a_tuple_too():
    one = torch.ones(2)
    assert as_tuple(one) == (one,)
    assert as_tuple((one, one)) == (one, one)


def test_names_are_those_that_planners_look_for():
    assert file_name("AC-IQN") == "traced_AC_IQN_model.pt"
