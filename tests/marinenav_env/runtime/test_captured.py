"""Captured functions: without a graph, with a stand-in for one, and with CUDA graphs."""

import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch.utils._pytree import tree_leaves

from marinenav_env.runtime.captured import WARM_UPS, Captured, CudaRecorder

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
        "(RuntimeError: operation not permitted when stream is capturing)"
    ]
    captured.reset()
    assert captured.captures  # another try


def test_functions_that_share_a_generator_with_a_failed_capture_are_captured_again():
    """Their graphs hold the state that the generator had before."""
    functions = [counter(), counter(), counter()]
    shared, tapes = functions[0][2], [Tape(total) for _, total, _ in functions]
    said = []
    first, other = (
        Captured(function, CPU, [generator], recorder=tape)
        for (function, _, generator), tape in zip(functions[:2], tapes, strict=False)
    )
    outcomes(first, functions[0][1])
    outcomes(other, functions[1][1])
    failing = Captured(
        lambda value: {"sum": value + torch.rand(2, generator=shared)}, CPU, [shared],
        say=said.append, recorder=Tape(error=RuntimeError("broken")),
    )  # fmt: skip
    for _ in range(WARM_UPS + 2):
        failing(torch.ones(2))
    assert len(said) == 1 and not failing.captures
    for captured, (_, total, _) in zip((first, other), functions, strict=False):
        outcomes(captured, total)
    assert [tape.recorded for tape in tapes] == [2, 1, 0]
    # It draws on from where the generator is.
    state = shared.get_state()
    found = first(*inputs(1))["noise"].clone()
    shared.set_state(state)
    assert torch.equal(found, torch.rand(2, generator=shared))


class FakeCuda:
    """What recording asks of torch.cuda, noted; ending the capture fails.

    Args:
        left: whether the allocator is left capturing, as before torch 2.12.
    """

    def __init__(self, left):
        self.left, self.calls, self.current = left, [], "usual"

    def install(self, monkeypatch):
        cuda = torch.cuda
        generator = self.generator("default")
        for owner, name, value in (
            (cuda, "CUDAGraph", lambda: SimpleNamespace(
                register_generator_state=lambda each: self.calls.append(("registered", each)))),
            (cuda, "graph_pool_handle", lambda: (0, 7)),
            (cuda, "Stream", lambda device: SimpleNamespace(device_index=0)),
            (cuda, "current_stream", lambda device: self.current),
            (cuda, "set_stream", lambda stream: setattr(self, "current", stream)),
            (cuda, "device", lambda device: nullcontext()),
            (cuda, "default_generators", (generator,)),
            (cuda, "graph", self.graph),
            (cuda.memory, "_cuda_endAllocateToPool", self.end),
            (cuda.memory, "_cuda_releasePool", lambda *given: self.calls.append(("freed", given))),
        ):  # fmt: skip
            monkeypatch.setattr(owner, name, value, raising=False)
        return generator

    def generator(self, name):
        return SimpleNamespace(
            clone_state=lambda: f"state of {name}",
            graphsafe_set_state=lambda state: self.calls.append((name, state)),
        )

    @contextmanager
    def graph(self, graph, pool, stream, capture_error_mode):
        assert (pool, capture_error_mode) == ((0, 7), "thread_local")
        self.current = stream
        yield
        raise RuntimeError("capture_end")

    def end(self, *given):
        if not self.left:
            raise RuntimeError("not currently recording to mempool_id")
        self.calls.append(("ended", given))


@pytest.mark.parametrize("left", [True, False])
def test_a_failed_capture_leaves_the_device_as_it_was(monkeypatch, left):
    cuda = FakeCuda(left)
    cuda.install(monkeypatch)
    generator = cuda.generator("own")
    recorder = CudaRecorder(torch.device("cuda", 0))
    with pytest.raises(RuntimeError, match="capture_end"):
        recorder.record(lambda: None, [generator])
    pool = [("ended", (0, (0, 7))), ("freed", (0, (0, 7)))]
    assert cuda.calls == [
        ("registered", generator), *(pool if left else []), ("own", "state of own"),
        ("default", "state of default"),
    ]  # fmt: skip
    assert cuda.current == "usual"


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


BREAK = """
import torch
from marinenav_env.runtime.captured import WARM_UPS, Captured

device = torch.device("cuda:0")
shared, said = torch.Generator(device).manual_seed(0), []
usual = torch.cuda.current_stream()


def draw(value):
    return {"noise": value + torch.rand(2, generator=shared, device=device)}


def read(value):
    noise = torch.rand(2, generator=shared, device=device)
    large = torch.ones(2**28, dtype=torch.uint8, device=device)
    return {"sum": noise + value.sum().item() + large[:2]}


good = Captured(draw, device, [shared], say=said.append)
broken = Captured(read, device, [shared], say=said.append)
zeros = torch.zeros(2, device=device)
found = [good(zeros)["noise"].clone() for _ in range(WARM_UPS + 2)]
found += [broken(zeros)["sum"] - 1.0 for _ in range(WARM_UPS + 2)]
assert len(said) == 1 and good.captures and not broken.captures, said
assert torch.cuda.current_stream() == usual
found += [good(zeros)["noise"].clone() for _ in range(WARM_UPS + 3)]
shared.manual_seed(0)
expected = [torch.rand(2, generator=shared, device=device) for _ in found]
# One stream of numbers for all that draw.
torch.testing.assert_close(found, expected)
torch.rand(2, device=device)  # the device's own generator draws again
torch.cuda.synchronize()
torch.cuda.empty_cache()
# The pool of the capture that failed is given back.
assert torch.cuda.memory_reserved() < 2**27, torch.cuda.memory_reserved()
torch.empty(2**28, dtype=torch.uint8, device=device)
print("fine")
"""


@pytest.mark.gpu
@needs_gpu
def test_a_failed_capture_spoils_nothing_in_its_process():
    """In a process of its own: what is left behind would spoil the tests after it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BREAK], capture_output=True, text=True,
        cwd=Path(__file__).parents[3], check=False,
    )  # fmt: skip
    assert done.stdout == "fine\n", done.stderr
