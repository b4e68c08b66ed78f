"""Captured functions: without a graph, with a stand-in for one, and with CUDA graphs."""

from contextlib import nullcontext

import pytest
import torch
from torch.utils._pytree import tree_leaves

from train_RL_agents.utils.captured import WARM_UPS, Captured

CPU = torch.device("cpu")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Tape:
    """Records on the CPU: the call is made at every replay, into the results of the first one.

    Args:
        state: tensors that the function changes; recording must leave them alone.
        error: what recording fails with.
    """

    def __init__(self, *state, error=None):
        self.state, self.error, self.recorded, self.beside_calls = state, error, 0, 0

    def beside(self):
        self.beside_calls += 1
        return nullcontext()

    def record(self, call, generators):
        if self.error:
            raise self.error
        self.recorded += 1
        before = [each.clone() for each in self.state]
        seeds = [each.get_state() for each in generators]
        results = call()
        for each, value in zip(self.state, before, strict=True):
            each.copy_(value)
        for each, seed in zip(generators, seeds, strict=True):
            each.set_state(seed)

        def replay():
            for name, value in call().items():
                results[name].copy_(value)

        return replay, results


def counter(device=CPU):
    """A function with state, randomness and nested inputs, and its state."""
    total = torch.zeros(2, device=device)
    generator = torch.Generator(device).manual_seed(0)

    def function(pair, more):
        noise = torch.rand(2, generator=generator, device=device)
        total.add_(pair[0] * pair[1] + noise + more["scale"])
        return {"total": total * 1.0, "noise": noise}

    return function, total, generator


def inputs(number, device=CPU):
    whole = torch.full((2,), float(number), device=device)
    return (whole, 2.0 * whole), {"scale": torch.tensor(0.5 * number, device=device), "none": None}


def outcomes(function, total, device=CPU, count=WARM_UPS + 4):
    rows = []
    for number in range(count):
        result = function(*inputs(number, device))
        rows.append({name: value.clone() for name, value in result.items()} | {"t": total.clone()})
    return rows


def test_without_a_recorder_it_is_the_function():
    function, total, generator = counter()
    expected = outcomes(*counter()[:2])
    for captured in (
        Captured(function, CPU, [generator]),
        Captured(function, CPU, [generator], capture=False),
    ):
        assert not captured.captures
        total.zero_()
        generator.manual_seed(0)
        torch.testing.assert_close(outcomes(captured, total), expected, rtol=0, atol=0)
    assert Captured(lambda number: number + 1, CPU)(3) == 4


def test_first_calls_are_real_and_later_ones_replay():
    function, total, generator = counter()
    tape = Tape(total)
    captured = Captured(function, CPU, [generator], recorder=tape)
    expected = outcomes(*counter()[:2])
    torch.testing.assert_close(outcomes(captured, total), expected, rtol=0, atol=0)
    assert (tape.beside_calls, tape.recorded) == (WARM_UPS, 1)
    result = captured(*inputs(0))
    assert captured(*inputs(1)) is result  # overwritten by every call
    captured.reset()
    captured(*inputs(0))
    assert tape.beside_calls == WARM_UPS + 1


def test_inputs_are_copied():
    function, total, generator = counter()
    captured = Captured(function, CPU, [generator], recorder=Tape(total))
    given = inputs(3)
    outcomes(captured, total)
    captured(*given)
    torch.testing.assert_close(given, inputs(3))


def test_a_capture_that_fails_costs_nothing_but_the_graph():
    function, total, generator = counter()
    said = []
    inner = RuntimeError("operation not permitted when stream is capturing\nand much more")
    outer = RuntimeError("capture_end")
    outer.__context__ = inner
    captured = Captured(
        function, CPU, [generator], name="the update", say=said.append,
        recorder=Tape(total, error=outer),
    )  # fmt: skip
    expected = outcomes(*counter()[:2])
    torch.testing.assert_close(outcomes(captured, total), expected, rtol=0, atol=0)
    assert not captured.captures
    assert said == [
        "the update goes on without a CUDA graph: the capture failed "
        "(operation not permitted when stream is capturing)"
    ]
    captured.reset()
    assert captured.captures  # another try


def test_what_would_freeze_or_not_fit_is_refused():
    captured = Captured(lambda *given: given, CPU, name="f", recorder=Tape())
    with pytest.raises(TypeError, match=r"f: would freeze 0\.1; give a tensor"):
        captured(torch.zeros(2), 0.1)
    captured(torch.zeros(2), None)
    with pytest.raises(ValueError, match="f: inputs must keep their shapes"):
        captured(torch.zeros(1), None)
    with pytest.raises(ValueError, match="f: inputs must keep their shapes"):
        captured(torch.zeros(2), torch.zeros(2))


# Inputs in place ---------------------------------------------------------------------------------


def test_inputs_in_place_are_not_copied():
    """They are the results of another graph, which writes to the same tensors every time."""
    function, total, generator = counter()
    captured = Captured(function, CPU, [generator], recorder=Tape(total), in_place=True)
    reference, expected_total, _ = counter()
    given, found, expected = inputs(0), [], []
    for number in range(WARM_UPS + 4):
        for each, new in zip(tree_leaves(given), tree_leaves(inputs(number)), strict=True):
            if each is not None:
                each.copy_(new)
        found.append({name: value.clone() for name, value in captured(*given).items()})
        expected.append(reference(*inputs(number)))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert torch.equal(total, expected_total)
    assert captured._recorder.recorded == 1


def test_other_tensors_than_those_in_place_are_computed_without_the_graph():
    function, total, generator = counter()
    tape = Tape(total)
    captured = Captured(function, CPU, [generator], recorder=tape, in_place=True)
    expected = outcomes(*counter()[:2])
    # New tensors in every call: only the one that was recorded is replayed.
    kept = [inputs(number) for number in range(WARM_UPS + 4)]
    found = []
    for given in kept:
        result = captured(*given)
        found.append({name: value.clone() for name, value in result.items()} | {"t": total.clone()})
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert tape.recorded == 1
    assert captured(*kept[WARM_UPS]) is captured(*kept[WARM_UPS])
    assert captured(*kept[0]) is not captured(*kept[0])
    captured.reset()
    captured(*kept[0])
    assert captured.captures


# On a GPU ----------------------------------------------------------------------------------------


@pytest.mark.gpu
@needs_gpu
def test_a_graph_does_what_the_function_does():
    device = torch.device("cuda:0")
    expected = outcomes(*counter(device)[:2], device)
    function, total, generator = counter(device)
    said = []
    captured = Captured(function, device, [generator], say=said.append)
    torch.testing.assert_close(outcomes(captured, total, device), expected, rtol=0, atol=0)
    assert captured.captures and said == []


@pytest.mark.gpu
@needs_gpu
def test_a_graph_goes_on_from_a_generator_that_is_set_back():
    device = torch.device("cuda:0")
    function, total, generator = counter(device)
    captured = Captured(function, device, [generator])
    outcomes(captured, total, device)
    state = generator.get_state()
    first = captured(*inputs(1, device))["noise"].clone()
    assert not torch.equal(captured(*inputs(1, device))["noise"], first)
    generator.set_state(state)
    assert torch.equal(captured(*inputs(1, device))["noise"], first)
    generator.set_state(state)
    assert torch.equal(function(*inputs(1, device))["noise"], first)


@pytest.mark.gpu
@needs_gpu
def test_a_host_read_breaks_the_capture_and_not_the_run():
    device = torch.device("cuda:0")
    generator = torch.Generator(device).manual_seed(0)
    said = []

    def function(value):
        noise = torch.rand(2, generator=generator, device=device)
        return {"sum": noise + value.sum().item()}

    captured = Captured(function, device, [generator], say=said.append)
    rows = [captured(torch.ones(2, device=device))["sum"].clone() for _ in range(WARM_UPS + 3)]
    assert not captured.captures and len(said) == 1
    generator.manual_seed(0)
    expected = [function(torch.ones(2, device=device))["sum"] for _ in rows]
    torch.testing.assert_close(rows, expected, rtol=0, atol=0)
