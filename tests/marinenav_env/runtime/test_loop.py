"""Loops: without a graph, with a stand-in for one, and with CUDA graphs."""

import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from tensordict import TensorDict
from torch.utils._pytree import tree_leaves

from marinenav_env.runtime.loop import WARMUP_CALLS, Loop, copy_tensors, list_tensors

CPU = torch.device("cpu")


class Tape:
    """Records on the CPU: the call is made at every replay.

    Args:
        error: what recording fails with.
    """

    def __init__(self, error=None):
        self.error, self.recorded, self.beside_calls, self.replays = error, 0, 0, 0

    def on_side_stream(self):
        self.beside_calls += 1
        return nullcontext()

    def record(self, call, generators):
        if self.error:
            raise self.error
        self.recorded += 1

        def replay():
            self.replays += 1
            return call()

        return replay


def counting(generator, device=CPU):
    """A step with randomness, nested inputs and a nested state."""

    def step(state, pair, more):
        total, _ = state
        noise = torch.rand(2, generator=generator, device=device)
        total = total + pair[0] * pair[1] + noise + more["scale"]
        return (total, TensorDict(last=noise)), {"total": 2.0 * total, "noise": noise}

    return step


def begin(device=CPU):
    return torch.zeros(2, device=device), TensorDict(last=torch.zeros(2, device=device))


def loop_of(recorder=None, device=CPU, **options):
    """A loop, and the generator that it draws from."""
    generator = torch.Generator(device).manual_seed(0)
    loop = Loop(
        counting(generator, device), begin(device), device, generators=[generator], recorder=recorder, **options
    )
    return loop, generator


def inputs(number, device=CPU):
    whole = torch.full((2,), float(number), device=device)
    return (whole, 2.0 * whole), {"scale": torch.tensor(0.5 * number, device=device), "none": None}


def outcomes(loop, device=CPU, count=WARMUP_CALLS + 4):
    """Outputs and state after each of some calls."""
    rows = []
    for number in range(count):
        outputs = {name: value.clone() for name, value in loop(*inputs(number, device)).items()}
        rows.append([outputs, [each.clone() for each in list_tensors(loop.state)]])
    return rows


def test_without_a_recorder_it_is_the_function():
    generator = torch.Generator().manual_seed(0)
    step, state, expected = counting(generator), begin(), []
    for number in range(WARMUP_CALLS + 4):
        state, outputs = step(state, *inputs(number))
        expected.append([outputs, list_tensors(state)])
    for options in ({}, {"capture": False}, {"recorder": Tape()}):
        loop, _ = loop_of(**options)
        assert loop.captures == ("recorder" in options)
        torch.testing.assert_close(outcomes(loop), expected, rtol=0, atol=0)
    assert Loop(lambda state, number: (state, number + 1), (), CPU)(3) == 4


def test_first_calls_are_real_and_later_ones_replay():
    tape = Tape()
    loop, _ = loop_of(tape)
    outcomes(loop)
    assert (tape.beside_calls, tape.recorded, tape.replays) == (WARMUP_CALLS, 1, 4)
    loop.reset()
    loop(*inputs(0))
    assert tape.beside_calls == WARMUP_CALLS + 1


def test_a_captured_state_stays_where_it_is_and_another_can_be_set():
    loop, _ = loop_of(Tape())
    before = [each.data_ptr() for each in list_tensors(loop.state)]
    outcomes(loop)
    other = torch.ones(2), TensorDict(last=torch.ones(2))
    loop.state = other
    assert [each.data_ptr() for each in list_tensors(loop.state)] == before
    assert torch.equal(loop.state[0], torch.ones(2))
    loop(*inputs(1))
    assert torch.equal(other[0], torch.ones(2))
    uncaptured, _ = loop_of()
    uncaptured.state = other
    assert uncaptured.state is other


def test_state_and_inputs_go_by_name():
    def step(state, given):
        return TensorDict(a=given["a"], b=given["b"]), given["a"] - given["b"]

    loop = Loop(step, TensorDict(a=torch.zeros(1), b=torch.zeros(1)), CPU, recorder=Tape())
    loop.state = TensorDict(b=torch.full((1,), 2.0), a=torch.ones(1))
    assert (loop.state["a"], loop.state["b"]) == (1.0, 2.0)
    for number in range(3 * WARMUP_CALLS):
        given = {"a": torch.full((1,), 5.0), "b": torch.full((1,), 3.0)}
        names = "ab" if number % 7 else "ba"
        assert loop(TensorDict({name: given[name] for name in names})) == 2.0
        assert (loop.state["a"], loop.state["b"]) == (5.0, 3.0)


def test_inputs_are_copied():
    loop, _ = loop_of(Tape())
    given = inputs(3)
    outcomes(loop)
    loop(*given)
    torch.testing.assert_close(given, inputs(3))


def test_static_inputs_are_not_copied():
    """They are what another loop gives, which writes to the same tensors every time."""
    tape, given = Tape(), inputs(0)
    loop, _ = loop_of(tape, static_inputs=True)
    reference, _ = loop_of()
    for number in range(WARMUP_CALLS + 4):
        for each, new in zip(tree_leaves(given), tree_leaves(inputs(number)), strict=True):
            if each is not None:
                each.copy_(new)
        found, expected = loop(*given), reference(*inputs(number))
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert tape.recorded == 1
    # Another tensor needs another graph, and leaves the one before as it is.
    copied = copy_tensors(given)
    torch.testing.assert_close(outcomes(loop), outcomes(reference), rtol=0, atol=0)
    assert tape.recorded == 2
    torch.testing.assert_close(given, copied, rtol=0, atol=0)
    # Where they are replaced again and again, they are not static.
    for number in range(6 * (WARMUP_CALLS + 1)):
        torch.testing.assert_close(loop(*inputs(number)), reference(*inputs(number)), rtol=0, atol=0)
    assert tape.recorded <= 2 + WARMUP_CALLS


def test_what_another_loop_gives_is_copied_until_that_is_a_graph_and_then_no_more():
    """As where steps are collected by one loop and stored by another."""
    outputs = {}

    class Static(Tape):
        """Replays into the same tensors."""

        def record(self, call, generators):
            replay = super().record(call, generators)

            def into():
                return outputs.setdefault("made", torch.zeros(2)).copy_(replay())

            return into

    source = Loop(lambda state: (state + 1.0, 10.0 * state), torch.ones(2), CPU, recorder=Static())
    tape = Tape()
    summed = Loop(lambda state, given: (state + given, None), torch.zeros(2), CPU, recorder=tape, static_inputs=True)
    for _ in range(3 * (WARMUP_CALLS + 1)):
        summed(source())
    assert torch.equal(summed.state, torch.full((2,), 10.0 * sum(range(1, 13))))
    assert (source.captures, tape.recorded) == (True, 1)


def test_a_capture_that_fails_costs_nothing_but_the_graph():
    said = []
    inner = RuntimeError("operation not permitted when stream is capturing\nand much more")
    outer = RuntimeError("capture_end")
    outer.__context__ = inner
    loop, _ = loop_of(Tape(outer), name="the update", log=said.append)
    torch.testing.assert_close(outcomes(loop), outcomes(loop_of()[0]), rtol=0, atol=0)
    assert not loop.captures
    assert said == [
        "the update goes on without a CUDA graph: the capture failed "
        "(RuntimeError: operation not permitted when stream is capturing)"
    ]
    loop.reset()
    assert loop.captures  # another try


def test_loops_that_share_a_generator_with_a_failed_capture_are_captured_again():
    """Their graphs hold the state that the generator had before."""
    tapes = [Tape(), Tape()]
    (first, shared), (other, _) = map(loop_of, tapes)
    outcomes(first)
    outcomes(other)
    said = []
    failing = Loop(
        lambda state, value: (state, value + torch.rand(2, generator=shared)),
        (),
        CPU,
        generators=[shared],
        log=said.append,
        recorder=Tape(RuntimeError("broken")),
    )
    for _ in range(WARMUP_CALLS + 2):
        failing(torch.ones(2))
    assert len(said) == 1 and not failing.captures
    outcomes(first)
    outcomes(other)
    assert [tape.recorded for tape in tapes] == [2, 1]
    # It draws on from where the generator is.
    state = shared.get_state()
    found = first(*inputs(1))["noise"].clone()
    shared.set_state(state)
    assert torch.equal(found, torch.rand(2, generator=shared))


def test_what_would_freeze_or_not_fit_is_refused():
    loop = Loop(lambda state, *given: (state, given), (), CPU, name="f", recorder=Tape())
    with pytest.raises(TypeError, match=r"f: would freeze 0\.1; give a tensor"):
        loop(torch.zeros(2), 0.1)
    loop(torch.zeros(2), None)
    with pytest.raises(ValueError, match="f: inputs must keep their shapes"):
        loop(torch.zeros(1), None)
    with pytest.raises(ValueError, match="f: inputs must keep their shapes"):
        loop(torch.zeros(2, dtype=torch.int64), None)
    with pytest.raises(TypeError, match=r"f: would freeze 0\.1"):
        loop(torch.zeros(2), 0.1)


# On a GPU ----------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_a_graph_does_what_the_function_does():
    device = torch.device("cuda:0")
    expected, said = outcomes(loop_of(device=device, capture=False)[0], device), []
    loop, _ = loop_of(device=device, log=said.append)
    torch.testing.assert_close(outcomes(loop, device), expected, rtol=0, atol=0)
    assert loop.captures and said == []


@pytest.mark.gpu
def test_a_graph_goes_on_from_a_generator_that_is_set_back():
    device = torch.device("cuda:0")
    loop, generator = loop_of(device=device)
    outcomes(loop, device)
    state = generator.get_state()
    first = loop(*inputs(1, device))["noise"].clone()
    assert not torch.equal(loop(*inputs(1, device))["noise"], first)
    generator.set_state(state)
    assert torch.equal(loop(*inputs(1, device))["noise"], first)
    generator.set_state(state)
    assert torch.equal(torch.rand(2, generator=generator, device=device), first)


BREAK = """
import torch
from marinenav_env.runtime.loop import WARMUP_CALLS, Loop

device = torch.device("cuda:0")
shared, said = torch.Generator(device).manual_seed(0), []
usual = torch.cuda.current_stream()


def draw(state, value):
    return state, {"noise": value + torch.rand(2, generator=shared, device=device)}


def read(state, value):
    noise = torch.rand(2, generator=shared, device=device)
    large = torch.ones(2**28, dtype=torch.uint8, device=device)
    return state, {"sum": noise + value.sum().item() + large[:2]}


good = Loop(draw, (), device, generators=[shared], log=said.append)
broken = Loop(read, (), device, generators=[shared], log=said.append)
zeros = torch.zeros(2, device=device)
found = [good(zeros)["noise"].clone() for _ in range(WARMUP_CALLS + 2)]
found += [broken(zeros)["sum"] - 1.0 for _ in range(WARMUP_CALLS + 2)]
assert len(said) == 1 and good.captures and not broken.captures, said
assert torch.cuda.current_stream() == usual
found += [good(zeros)["noise"].clone() for _ in range(WARMUP_CALLS + 3)]
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
def test_a_failed_capture_spoils_nothing_in_its_process():
    """In a process of its own: what is left behind would spoil the tests after it."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BREAK],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=False,
    )
    assert done.stdout == "fine\n", done.stderr
