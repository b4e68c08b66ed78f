"""Functions as generated code."""

from typing import NamedTuple

import pytest
import torch
from tensordict import TensorClass
from torch import Tensor, nn

from marinenav_env.runtime import compiling

CPU = torch.device("cpu")


@pytest.fixture
def compile_calls(monkeypatch):
    """Options of the calls of torch.compile, which compiles nothing."""
    calls = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: calls.append(options))
    return calls


def test_kernels_are_combined_on_a_gpu_as_far_as_the_version_of_torch_can(compile_calls, monkeypatch):
    monkeypatch.setitem(compiling._GPU_OPTIONS, "option_of_a_later_version", True)
    compiling.compile_function(torch.sin, torch.device("cuda"))
    (call,) = compile_calls
    assert call["options"]["combo_kernels"] is True
    assert "option_of_a_later_version" not in call["options"]
    assert not call["dynamic"] and call["fullgraph"]


@pytest.mark.parametrize(("known", "tried"), [({"avx2": True, "amx_tile": True}, False), ({}, True)])
def test_vector_instructions_are_tried_only_where_the_compiler_may_lack_them(compile_calls, monkeypatch, known, tried):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)
    compiling.compile_function(torch.sin, CPU)
    assert ("cpp.vec_isa_ok" in (compile_calls[0]["options"] or {})) != tried


class Layer(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.layer, self.factor = nn.Linear(2, 2), factor

    def call(self, value):
        return self.factor * self.layer(value)


def counting(input_counts):
    def backend(graph, inputs):
        input_counts.append(len(inputs))
        return graph.forward

    return backend


@pytest.fixture
def input_counts(monkeypatch):
    """Numbers of inputs of the graphs that are made, without generated code."""
    compile, input_counts = torch.compile, []
    monkeypatch.setattr(
        torch,
        "compile",
        lambda *args, options, **rest: compile(
            *args,
            **rest,
            backend=counting(input_counts),
            options={key: value for key, value in options.items() if key == "guard_filter_fn"},
        ),
    )
    torch.compiler.reset()
    yield input_counts
    torch.compiler.reset()


@pytest.mark.parametrize("variable", ["0", "1"])
def test_code_takes_the_threads_of_each_call_where_their_number_changes(compile_calls, monkeypatch, variable):
    monkeypatch.setenv("TORCHINDUCTOR_CPP_DYNAMIC_THREADS", variable)
    compiling.compile_function(torch.sin, CPU)
    assert ("cpp.dynamic_threads" in (compile_calls[0]["options"] or {})) == (variable == "1")


def test_what_a_function_refers_to_need_not_be_checked(input_counts):
    """Two objects of one class each get their own code; other shapes and modes are noticed."""
    layers = [Layer(2.0), Layer(3.0)]
    functions = [compiling.compile_function(each.call, CPU, keep_all_guards=False) for each in layers]
    for _ in range(2):
        for layer, function in zip(layers, functions, strict=True):
            value = torch.ones(3, 2)
            torch.testing.assert_close(function(value), layer.call(value))
    assert len(input_counts) == 2
    layers[0].factor = 5.0  # against the contract
    torch.testing.assert_close(functions[0](torch.ones(3, 2)), 2.0 * layers[0].layer(torch.ones(3, 2)))
    functions[0](torch.ones(4, 2))
    assert len(input_counts) == 3
    with torch.no_grad():
        assert not functions[0](torch.ones(4, 2)).requires_grad
    assert len(input_counts) == 4


class Pair(NamedTuple):
    factor: int
    value: Tensor | None


class Fields(TensorClass):
    first: Tensor
    second: Tensor | None = None


def scaled(pair, fields, further):
    total = fields.first if fields.second is None else fields.first - fields.second
    total = total if pair.value is None else total + pair.factor * pair.value
    return sum(further.values(), total)


def arguments(**changed):
    """Arguments of ``scaled``, all of tensors of their own."""
    given = {"factor": 2, "value": torch.ones(3), "second": torch.ones(3), "a": torch.ones(3)}
    given |= changed
    further = {name: given[name] for name in given.keys() & {"a", "b"} if given[name] is not None}
    pair = Pair(given["factor"], given["value"])
    return pair, Fields(torch.ones(3), given["second"], batch_size=[]), further


@pytest.mark.parametrize(
    "changed",
    [
        {"factor": 3},
        {"value": None},
        {"a": None},
        {"a": torch.ones(3, dtype=torch.float64)},
        {"a": torch.ones(2, 3)},
        {"a": 2.0},
    ],
)
def test_whatever_is_different_in_the_arguments_gets_other_code(input_counts, changed):
    function = compiling.compile_function(scaled, CPU, keep_all_guards=False)
    for given in (arguments(), arguments(**changed), arguments(), arguments(**changed)):
        torch.testing.assert_close(function(*given), scaled(*given))
    assert len(input_counts) == 2
