"""Repeated steps of a function, eager, compiled or captured, with the state between them.

A CUDA graph is a record of the many small kernels of a function, which are launched together. A replay
repeats the kernels of the captured call, with the same memory and the same Python numbers. A step that may be
captured therefore

- takes and returns tensors (in tuples, dicts or TensorDicts) whose shapes are the same in every call;
- reads values that vary from call to call (a learning rate, an epsilon) from tensors, because Python scalars
  are constants of the graph;
- reads nothing on the host, and draws only from generators that are arguments of ``Loop``.

The next call overwrites the results of a replay.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar
from weakref import WeakSet

import torch
from tensordict import is_tensor_collection
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from marinenav_env.runtime.compiling import compile_function
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.layout import copy_all
from marinenav_env.support.plugins import summarize_error

WARMUP_CALLS = 3
"""Number of normal calls before the capture, in which code is compiled, kernels are chosen and memory is allocated."""


class CudaRecorder:
    """Recorder of CUDA graphs on one device, with a stream of its own."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        """Return a context for warm-up calls on the stream of later captures: libraries keep a workspace for each."""
        usual = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream):
            yield
        usual.wait_stream(self._stream)

    def record(self, call: Callable[[], Any], generators: Sequence[torch.Generator]) -> Callable[[], Any]:
        """Capture a call, which may draw from the generators; return a function that replays it in the same tensors."""
        gc.collect()  # nothing may be freed while a capture is active
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        usual, index = torch.cuda.current_stream(self._device), self._stream.device_index
        # A capture registers the default generator of the device as well.
        all_generators = [*generators, torch.cuda.default_generators[index]]
        states = [generator.clone_state() for generator in all_generators]
        try:
            with torch.cuda.device(self._device):
                for generator in generators:
                    # With this, a replay draws from the current state of the generator, and advances it.
                    graph.register_generator_state(generator)
                # Other threads may allocate memory during the capture.
                mode = "thread_local"
                with torch.cuda.graph(graph, pool, self._stream, capture_error_mode=mode):
                    results = call()
        except BaseException:
            _end_allocation(index, pool)
            # After a failed capture, a generator refuses to draw outside captures until its state is replaced.
            # Graphs captured earlier keep the replaced state; see Loop.
            for generator, state in zip(all_generators, states, strict=True):
                generator.graphsafe_set_state(state)
            raise
        finally:
            # Before torch 2.12, a capture that fails leaves its own stream as the current stream.
            torch.cuda.set_stream(usual)

        def replay() -> Any:
            graph.replay()
            return results

        return replay


def _end_allocation(index: int, pool: Any) -> None:
    """Stop allocating from the CUDA memory pool ``pool`` of a failed capture on device ``index``, and release it."""
    # From torch 2.12 on, torch has already done this (pytorch/pytorch#180395), and the first call raises an error.
    memory: Any = torch.cuda.memory
    with suppress(RuntimeError):
        memory._cuda_endAllocateToPool(index, pool)
        memory._cuda_releasePool(index, pool)


def list_tensors(tree: Any) -> list[Tensor]:
    """Return the tensors in nested tuples, dicts and TensorDicts as a list; those of a TensorDict in order of names."""
    tensors: list[Tensor] = []
    for leaf in tree_leaves(tree, is_leaf=is_tensor_collection):
        if isinstance(leaf, Tensor):
            tensors.append(leaf)
        elif leaf is not None:
            tensors += [leaf.get(name) for name in sorted(leaf.keys(True, True), key=str)]
    return tensors


def copy_tensors(tree: Any) -> Any:
    """Return a bit-identical copy of the tensors in nested tuples, dicts and TensorDicts, made by few kernels."""
    new = tree_map(lambda leaf: leaf if leaf is None else torch.empty_like(leaf), tree, is_leaf=is_tensor_collection)
    copy_all(list_tensors(new), list_tensors(tree))
    return new


def as_stateless_step(function: Callable[..., Any]) -> Callable[..., tuple[tuple[()], Any]]:
    """Return ``function`` as a step for Loop: it takes a state before its inputs, and returns (state, outputs)."""
    return lambda state, *inputs: (state, function(*inputs))


class Loop:
    """Loop that runs the steps of a function, owns the state between them, and captures them as a CUDA graph.

    The function takes the state and the inputs, and returns the next state and its outputs, which
    share no memory with the old state. It may also change tensors that it refers to, such as
    counters or a replay buffer, in place.

    On a GPU the first three calls run normally as warm-up, and each of them counts as a step; from the fourth on,
    calls replay one CUDA graph, and the state stays in the same tensors. Without captures (on a CPU, if
    not requested, or after a failed capture), a new state replaces the old one.

    A failed capture gives its generators new states, which graphs captured earlier do not use. Other loops that
    draw from the same generators therefore capture again.

    Args:
        step: function that takes the state, the inputs of a call and the results of ``draw_inputs``, and returns a
            tuple of the next state and outputs. It must be suitable for a CUDA graph, see the module.
        state: initial state, as tensors in tuples, dicts or TensorDicts.
        device: device of all tensors of the step.
        draw_inputs: function that draws random numbers and returns them as a tuple of further arguments; it runs
            outside compiled code, which cannot draw from generators.
        generators: all generators that the step and ``draw_inputs`` draw from.
        compile: whether the whole step is compiled where host reads are not free; where they are free,
            the step may compile parts of itself.
        capture: whether to capture a CUDA graph where this is possible.
        static_inputs: whether inputs are in the same tensors in every call, such as the outputs of another captured
            loop, so that a graph works on them without copies. Where they are replaced, another graph is captured, and
            where they are replaced again and again, they are copied.
        name: name of the step, for messages.
        log: function that logs a failed capture.
        recorder: recorder of graphs; by default a CudaRecorder on a CUDA device.
    """

    _instances: ClassVar[WeakSet["Loop"]] = WeakSet()

    def __init__(
        self,
        step: Callable[..., tuple[Any, Any]],
        state: Any,
        device: torch.device,
        *,
        draw_inputs: Callable[[], tuple[Any, ...]] = tuple,
        generators: Sequence[torch.Generator] = (),
        compile: bool = False,
        capture: bool = True,
        static_inputs: bool = False,
        name: str = "a step",
        log: Callable[[str], None] = print,
        recorder: CudaRecorder | None = None,
    ) -> None:
        self._draw_inputs, self._generators = draw_inputs, generators
        self._name, self._log = name, log
        if recorder is None and capture and device.type == "cuda":
            recorder = CudaRecorder(device)
        self._recorder, self._has_static_inputs, self._replacements = recorder, static_inputs, 0
        compile = compile and not host_reads_are_free(device)
        self._step = compile_function(step, device) if compile else step
        # The state is written by a separate function, because torch 2.11 generates wrong code for a function
        # that writes to tensors that it also reads.
        self._write: Any = compile_function(copy_all, device) if compile and self._recorder else copy_all
        self._state = state if self._recorder is None else copy_tensors(state)
        self.captures = self._recorder is not None
        """True if calls replay a CUDA graph, or will after the warm-up."""
        self._discard_graph()
        self._instances.add(self)

    @property
    def state(self) -> Any:
        """State that the next call starts from; setting it copies the values while calls are captured."""
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        if not self.captures:
            self._state = state
        elif state is not self._state:
            with torch.no_grad():
                copy_all(list_tensors(self._state), list_tensors(state))

    def reset(self) -> None:
        """Discard the graph after tensors that the step refers to were replaced; the next calls capture again."""
        if self._recorder is not None and not self.captures:
            self._state, self.captures = copy_tensors(self._state), True
        self._discard_graph()

    def _discard_graph(self) -> None:
        self._warmup_calls_left = WARMUP_CALLS
        self._replay: Callable[[], Any] | None = None
        self._input_structure: Any = None
        """Tree structure of the inputs, and a list of their (shape, dtype); None before the first call."""
        self._graph_inputs: list[Any] = []
        """Inputs of the graph: the static tensors, or copies."""

    def __call__(self, *inputs: Any) -> Any:
        """Run a step and return its outputs; captured calls take tensors whose shapes and types stay the same."""
        if self._recorder is None or not self.captures:
            self._state, outputs = self._step(self._state, *inputs, *self._draw_inputs())
            return outputs
        leaves, tree = tree_flatten(inputs)
        self._check_inputs(leaves, tree)
        if self._warmup_calls_left:
            self._warmup_calls_left -= 1
            with self._recorder.on_side_stream():
                return self._step_in_place(*inputs)
        if self._replay is None:
            self._capture(self._recorder, leaves, tree)
        if self._replay is None:
            return self(*inputs)
        if not self._has_static_inputs:
            copies = [(old, new) for old, new in zip(self._graph_inputs, leaves, strict=True) if new is not None]
            copy_all([old for old, _ in copies], [new for _, new in copies])
        return self._replay()

    def _check_inputs(self, leaves: list[Any], tree: Any) -> None:
        """Refuse inputs that would freeze or do not fit, and discard a graph of another structure or static tensors."""
        for leaf in leaves:
            if leaf is not None and not isinstance(leaf, Tensor):
                raise TypeError(f"{self._name}: would freeze {leaf!r}; give a tensor")
        shapes = [None if leaf is None else (leaf.shape, leaf.dtype) for leaf in leaves]
        if self._input_structure is not None and tree != self._input_structure[0]:
            self._discard_graph()
        if self._input_structure is not None and shapes != self._input_structure[1]:
            raise ValueError(f"{self._name}: inputs must keep their shapes, {self._input_structure[1]}")
        self._input_structure = tree, shapes
        pairs = zip(self._graph_inputs, leaves, strict=True) if self._has_static_inputs and self._replay else ()
        if any(old is not new for old, new in pairs):
            self._replacements += 1
            self._has_static_inputs = self._replacements <= WARMUP_CALLS
            self._discard_graph()
            self._input_structure = tree, shapes

    def _step_in_place(self, *inputs: Any) -> Any:
        """Run a step, write the next state into the tensors of the old one, return the outputs; this is captured."""
        state, outputs = self._step(self._state, *inputs, *self._draw_inputs())
        with torch.no_grad():
            self._write(list_tensors(self._state), list_tensors(state))
        return outputs

    def _capture(self, recorder: CudaRecorder, leaves: list[Any], tree: Any) -> None:
        """Try to capture a graph of a step from inputs as a flat list and a tree; after a failure, stop capturing."""
        self._graph_inputs = [
            leaf if self._has_static_inputs or leaf is None else leaf.detach().clone() for leaf in leaves
        ]
        inputs = tree_unflatten(self._graph_inputs, tree)
        try:
            self._replay = recorder.record(lambda: self._step_in_place(*inputs), self._generators)
        except RuntimeError as error:
            self._stop_capturing(error)

    def _stop_capturing(self, error: BaseException) -> None:
        """Log the error of a failed capture, and run all further steps without a graph."""
        while error.__context__ is not None:
            # Ending the capture raises a further error, whose context is the original one.
            error = error.__context__
        reason = summarize_error(error)
        self._log(f"{self._name} goes on without a CUDA graph: the capture failed ({reason})")
        self.captures = False
        generators = {id(generator) for generator in self._generators}
        for other in list(self._instances):
            if other is self or generators & {id(generator) for generator in other._generators}:
                other._discard_graph()
