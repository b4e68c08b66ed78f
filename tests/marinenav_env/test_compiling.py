"""Functions as generated code."""

import pytest
import torch
from torch import nn

from marinenav_env import compiling

CPU = torch.device("cpu")


def test_kernels_are_combined_on_a_gpu_as_far_as_the_version_of_torch_can(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: asked.append(options))
    monkeypatch.setattr(compiling, "onednn_is_faster", lambda: False)
    monkeypatch.setitem(compiling._ON_GPU, "option_of_a_later_version", True)
    for device in ("cpu", "cuda"):
        compiling.compiled(torch.sin, torch.device(device))
    on_cpu, on_gpu = (options["options"] for options in asked)
    assert on_cpu is None
    assert on_gpu["combo_kernels"] is True
    assert "option_of_a_later_version" not in on_gpu


def test_functions_become_one_graph_of_one_shape(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: asked.append(options))
    compiling.compiled(torch.sin, torch.device("cpu"))
    assert not asked[0]["dynamic"] and asked[0]["fullgraph"]


# What is checked ----------------------------------------------------------------------------------


class Layer(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.layer, self.factor = nn.Linear(2, 2), factor

    def call(self, value):
        return self.factor * self.layer(value)


def counting(made):
    def backend(graph, inputs):
        made.append(len(inputs))
        return graph.forward

    return backend


@pytest.fixture
def made(monkeypatch):
    """Numbers of inputs of the graphs that are made, without generated code."""
    compile, made = torch.compile, []
    monkeypatch.setattr(torch, "compile", lambda *args, options, **rest: compile(
        *args, **rest, backend=counting(made),
        options={key: value for key, value in options.items() if key == "guard_filter_fn"},
    ))  # fmt: skip
    torch.compiler.reset()
    yield made
    torch.compiler.reset()


def test_with_a_structure_nothing_but_tensors_is_checked(made):
    """Two objects of one class each get their own code; other shapes and modes are noticed."""
    layers = [Layer(2.0), Layer(3.0)]
    functions = [compiling.compiled(each.call, CPU, structure=lambda *_: None) for each in layers]
    for _ in range(2):
        for layer, function in zip(layers, functions, strict=True):
            value = torch.ones(3, 2)
            torch.testing.assert_close(function(value), layer.call(value))
    assert len(made) == 2
    layers[0].factor = 5.0  # against the contract
    torch.testing.assert_close(
        functions[0](torch.ones(3, 2)), 2.0 * layers[0].layer(torch.ones(3, 2))
    )
    functions[0](torch.ones(4, 2))
    assert len(made) == 3
    with torch.no_grad():
        assert not functions[0](torch.ones(4, 2)).requires_grad
    assert len(made) == 4


def test_tensors_need_not_be_checked_where_the_structure_tells_their_sizes(made):
    """Modes are checked all the same."""
    layer = Layer(2.0)
    function = compiling.compiled(layer.call, CPU, structure=len, checks_tensors=False)
    for size in (3, 4, 3, 4):
        value = torch.ones(size, 2)
        torch.testing.assert_close(function(value), layer.call(value))
    assert len(made) == 2
    with torch.no_grad():
        assert not function(torch.ones(4, 2)).requires_grad
    assert len(made) == 3


def test_within_other_compiled_code_it_is_a_part_of_that(made):
    layer = Layer(2.0)
    inner = compiling.compiled(layer.call, CPU, structure=lambda _: None)
    outer = compiling.compiled((lambda value: inner(value) + 1.0), CPU, lambda _: None)
    value = torch.ones(3, 2)
    torch.testing.assert_close(outer(value), layer.call(value) + 1.0)
    assert len(made) == 1


@pytest.mark.slow
def test_generated_code_refuses_tensors_of_another_size_or_layout():
    torch.compiler.reset()
    function = compiling.compiled(
        (lambda value: 2.0 * value), CPU, structure=lambda _: None, checks_tensors=False
    )
    assert function(torch.ones(3, 2)).tolist() == [[2.0, 2.0]] * 3
    for other in (torch.ones(4, 2), torch.ones(2, 3).t()):
        with pytest.raises(AssertionError, match="expected size"):
            function(other)
    torch.compiler.reset()


def test_code_is_made_once_for_every_structure(monkeypatch):
    made = []
    monkeypatch.setattr(torch, "compile", lambda function, **_: made.append(function) or function)

    def doubled(value, further=None):
        return 2 * value

    function = compiling.compiled(doubled, CPU, structure=lambda value, further=None: further)
    assert not made
    assert [function(1), function(2), function(3, "other"), function(4)] == [2, 4, 6, 8]
    assert len(made) == 2 and made[0].__code__ is not made[1].__code__
