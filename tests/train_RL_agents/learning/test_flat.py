"""Parameters as views of one tensor, and the optimiser's state parameter by parameter."""

import pytest
import torch
from torch import nn

from tests.train_RL_agents.helpers import seeded
from train_RL_agents.learning.flat import FlatWeights, flat_bytes


def networks(seed=0):
    torch.manual_seed(seed)
    return nn.ModuleDict({"a": nn.Linear(3, 5), "b": nn.Sequential(nn.Linear(7, 2), nn.Linear(2, 1))})


def values(module):
    return [each.detach().clone() for each in module.parameters()]


def assert_same(first, second):
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_weights_and_parameters_are_the_same_memory():
    nets = networks()
    flat = FlatWeights(nets)
    flat.weights.mul_(2.0)
    assert_same(values(nets), [2.0 * each for each in values(networks())])
    nets.load_state_dict(networks(1).state_dict())
    assert_same([view.clone() for view in flat.parameter_views(flat.weights)], values(networks(1)))


def test_parameters_are_aligned_with_zeros_between():
    nets = networks()
    flat = FlatWeights(nets)
    first = flat.weights.data_ptr()
    assert [(each.data_ptr() - first) % 64 for each in nets.parameters()] == [0] * 6
    numbers = sum(each.numel() for each in nets.parameters())
    with torch.no_grad():
        for each in nets.parameters():
            each.fill_(1.0)
    assert flat.weights.sum() == numbers < len(flat.weights) == 6 * 16  # the least there can be
    assert flat_bytes(nets) == flat.weights.nbytes


@pytest.mark.parametrize("frozen", [[], ["a.bias"]])
def test_the_state_of_an_optimiser_is_that_of_one_of_single_parameters(frozen):
    """Also of parameters that do not learn, as a temperature that is fixed, which have none."""
    nets, single = networks(), networks()
    for each in (nets, single):
        for name in frozen:
            each.get_parameter(name).requires_grad_(False)
    flat, plain = FlatWeights(nets), torch.optim.Adam(single.parameters())
    whole = torch.optim.Adam([flat.weights])
    for seed in range(3):
        for each in single.parameters():
            each.grad = torch.randn(each.shape, generator=seeded(seed)) if each.requires_grad else None
        learned = [each.grad for each in single.parameters() if each.requires_grad]
        flat.weights.grad = flat.concatenate_gradients(learned)
        for optimizer in (whole, plain):
            optimizer.step()
    state = whole.state[flat.weights]
    found, expected = flat.optimizer_views(state), plain.state_dict()["state"]
    assert found.keys() == expected.keys()
    torch.testing.assert_close(found, expected)
    found[0]["exp_avg"].fill_(7.0)
    assert state["exp_avg"][:15].tolist() == [7.0] * 15


def test_shared_parameters_and_mixed_types_are_refused():
    both = nn.Linear(3, 5)
    with pytest.raises(ValueError, match="must not share parameters"):
        FlatWeights(nn.ModuleDict({"a": both, "b": both}))
    with pytest.raises(ValueError, match="one floating-point type"):
        FlatWeights(nn.ModuleDict({"a": both, "b": nn.Linear(3, 5).double()}))
