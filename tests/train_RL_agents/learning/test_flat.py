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


def test_parameters_keep_values_and_identity():
    nets = networks()
    before, objects = values(nets), list(nets.parameters())
    FlatWeights(nets)
    assert_same(values(nets), before)
    assert all(a is b for a, b in zip(nets.parameters(), objects, strict=True))
    assert all(each.requires_grad and each.is_leaf for each in objects)


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


def test_networks_are_parts_by_name():
    nets = networks()
    flat = FlatWeights(nets)
    flat.network_weights("b").fill_(0.0)
    assert_same(values(nets["a"]), values(networks()["a"]))
    assert not any(each.any() for each in values(nets["b"]))


def test_no_networks():
    assert FlatWeights(nn.ModuleDict()).weights.shape == (0,)


@pytest.mark.parametrize("frozen", [[], ["a.bias"], ["a.weight", "b.0.weight", "b.1.bias"]])
def test_gradients_are_joined_with_zeros_for_what_does_not_learn(frozen):
    nets = networks()
    for name in frozen:
        nets.get_parameter(name).requires_grad_(False)
    flat = FlatWeights(nets)
    parts = [torch.full(each.shape, 1.0 + index) for index, each in enumerate(flat.learned_parameters)]
    whole, left = flat.concatenate_gradients(parts), iter(parts)
    for (name, _), view in zip(nets.named_parameters(), flat.parameter_views(whole), strict=True):
        wanted = torch.zeros_like(view) if name in frozen else next(left)
        assert torch.equal(view, wanted)
    assert whole.shape == flat.weights.shape and whole.sum() == sum(each.sum() for each in parts)
    assert flat.require_all_gradients(parts) == parts


# The optimiser -----------------------------------------------------------------------------------


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


# What would go wrong in silence ------------------------------------------------------------------


def test_networks_that_were_moved_are_noticed():
    nets = networks()
    flat = FlatWeights(nets)
    flat.require_in_place()
    FlatWeights(nets)
    with pytest.raises(RuntimeError, match="moved, cast or laid out again"):
        flat.require_in_place()


def test_a_missing_gradient_is_named():
    flat = FlatWeights(networks())
    parts = [torch.ones(1), torch.ones(1), None, None, torch.ones(1), torch.ones(1)]
    with pytest.raises(RuntimeError, match=r"no loss sends a gradient to b.0.weight, b.0.bias$"):
        flat.require_all_gradients(parts)


def test_shared_parameters_and_mixed_types_are_refused():
    both = nn.Linear(3, 5)
    with pytest.raises(ValueError, match="must not share parameters"):
        FlatWeights(nn.ModuleDict({"a": both, "b": both}))
    with pytest.raises(ValueError, match="one floating-point type"):
        FlatWeights(nn.ModuleDict({"a": both, "b": nn.Linear(3, 5).double()}))
