"""Parameters as views of one tensor, and the optimiser's state parameter by parameter."""

import copy
import io

import pytest
import torch
from torch import nn

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


def test_copies_are_independent():
    nets = networks()
    flat, other = FlatWeights(nets), copy.deepcopy(nets)
    flat.weights.zero_()
    assert_same(values(other), values(networks()))


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


def steps(optimizer, parameters, count, seed):
    """Steps with random gradients, put into the parameters or into the tensor that they are in."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        for each in parameters:
            each.grad = torch.randn(each.shape, generator=generator)
        if isinstance(optimizer, Whole):
            optimizer.gather()
        optimizer.step()


class Whole(torch.optim.Adam):
    """Of all weights at once."""

    def __init__(self, flat):
        self.flat, self.weights = flat, nn.Parameter(flat.weights)
        self.weights.grad = torch.zeros_like(flat.weights)
        super().__init__([self.weights], lr=0.1)

    def gather(self):
        self.weights.grad = self.flat.concatenate_gradients([each.grad for each in self.flat.learned_parameters])


@pytest.mark.parametrize("before", [0, 3])
def test_an_optimiser_goes_on_from_the_state_of_one_of_single_parameters(before):
    single, nets = networks(), networks()
    plain, flat = torch.optim.Adam(single.parameters(), lr=0.1), FlatWeights(nets)
    steps(plain, list(single.parameters()), before, seed=1)
    nets.load_state_dict(single.state_dict())
    whole = Whole(flat)
    whole.load_state_dict(flat.join_optimizer_state(plain.state_dict()))
    for optimizer, each in ((plain, single), (whole, nets)):
        steps(optimizer, list(each.parameters()), 3, seed=2)
    torch.testing.assert_close(values(nets), values(single))


@pytest.mark.parametrize("before", [0, 3])
def test_split_states_are_those_of_single_parameters(before):
    nets = networks()
    flat = FlatWeights(nets)
    whole = Whole(flat)
    steps(whole, list(nets.parameters()), before, seed=1)
    stream = io.BytesIO()
    torch.save(flat.split_optimizer_state(whole.state_dict()), stream)
    stream.seek(0)
    state = torch.load(stream, weights_only=True)
    single = networks()
    single.load_state_dict(nets.state_dict())
    plain = torch.optim.Adam(single.parameters(), lr=0.1)
    plain.load_state_dict(state)
    again = Whole(FlatWeights(copy.deepcopy(nets)))
    again.load_state_dict(flat.join_optimizer_state(state))
    for optimizer, each in ((plain, single), (whole, nets)):
        steps(optimizer, list(each.parameters()), 2, seed=2)
    steps(again, again.flat.parameters, 2, seed=2)
    torch.testing.assert_close(values(single), values(nets))
    assert_same(again.flat.weights, flat.weights)


def test_states_of_other_parameters_are_refused():
    flat, other = FlatWeights(networks()), nn.Linear(3, 5)
    plain = torch.optim.Adam(other.parameters())
    steps(plain, list(other.parameters()), 1, seed=1)
    with pytest.raises(ValueError, match="state of 2 tensors, here 6"):
        flat.join_optimizer_state(plain.state_dict())
    with pytest.raises(ValueError, match=r"exp_avg\w* is \[1, 3\], here \[5, 3\]"):
        small = nn.ModuleDict({"a": nn.Linear(3, 1), "b": networks()["b"]})
        plain = torch.optim.Adam(small.parameters())
        steps(plain, list(small.parameters()), 1, seed=1)
        flat.join_optimizer_state(plain.state_dict())


def test_parameters_that_do_not_learn_have_no_state():
    """As a temperature that is fixed."""
    nets, single = networks(), networks()
    for each in (nets, single):
        each["a"].bias.requires_grad_(False)
    flat = FlatWeights(nets)
    whole, plain = Whole(flat), torch.optim.Adam(single.parameters(), lr=0.1)
    before = values(nets["a"])[1]
    for optimizer, each in ((whole, nets), (plain, single)):
        steps(optimizer, [p for p in each.parameters() if p.requires_grad], 3, seed=1)
    torch.testing.assert_close(values(nets), values(single))
    assert_same(values(nets["a"])[1], before)
    split, expected = flat.split_optimizer_state(whole.state_dict()), plain.state_dict()
    assert split["state"].keys() == expected["state"].keys() == {0, 2, 3, 4, 5}
    again = Whole(FlatWeights(copy.deepcopy(nets)))
    again.load_state_dict(flat.join_optimizer_state(expected))


def test_a_single_parameter_has_a_state_like_any_other():
    nets = nn.ModuleDict({"a": nn.Linear(3, 1, bias=False)})
    flat = FlatWeights(nets)
    whole = Whole(flat)
    steps(whole, list(nets.parameters()), 2, seed=1)
    split = flat.split_optimizer_state(whole.state_dict())
    assert (
        flat.split_optimizer_state(flat.join_optimizer_state(split))["state"][0].keys()
        == split["state"][0].keys()
        > {"step"}
    )


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
