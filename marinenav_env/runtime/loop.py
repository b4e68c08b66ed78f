"""Steps of a function, eager, compiled or captured, and the state between them.

CUDA graphs: the many small kernels of a function, recorded once and launched together. A graph
repeats the kernels of one call: same memory, same numbers. A step that may be captured therefore

- takes and gives tensors (in tuples, dicts or TensorDicts) whose shapes are the same in every call;
- finds what varies from call to call (a step size, an epsilon) in tensors: Python scalars are
  baked into the graph;
- reads nothing on the host, and draws only from generators that ``Loop`` was given.

Its results are overwritten by the next call.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, Protocol
from weakref import WeakSet, ref

import torch
from tensordict import is_tensor_collection
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from marinenav_env.runtime.compiling import compiled
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.runtime.layout import copy_all
from marinenav_env.support.plugins import first_line

WARM_UPS = 3
"""Calls before the capture: they compile, choose kernels and allocate what stays."""


class Recorder(Protocol):
    """Interface of ``Loop`` to a device; tests have one for the CPU."""

    def beside(self) -> Any:
        """A context for calls that warm up."""

    def record(self, call: Callable[[], Any], generators: Sequence[torch.Generator]) -> Callable[[], Any]:
        """Record a call without making it; returns what makes it and gives its results."""


class CudaRecorder:
    """Records CUDA graphs.

    Args:
        device: of everything that the recorded functions touch.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Work on the stream that is captured later: libraries keep workspaces for each stream."""
        usual = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(usual)
        with torch.cuda.stream(self._stream):
            yield
        usual.wait_stream(self._stream)

    def record(self, call: Callable[[], Any], generators: Sequence[torch.Generator]) -> Callable[[], Any]:
        """See Recorder."""
        gc.collect()  # nothing may be freed while a capture is active
        graph, pool = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        usual, index = torch.cuda.current_stream(self._device), self._stream.device_index
        # A capture takes the device's own generator as well.
        every = [*generators, torch.cuda.default_generators[index]]
        before = [each.clone_state() for each in every]
        try:
            with torch.cuda.device(self._device):
                for each in generators:
                    # Every replay then draws on from where the generator is, and moves it.
                    graph.register_generator_state(each)
                # Other threads may allocate meanwhile.
                mode = "thread_local"
                with torch.cuda.graph(graph, pool, self._stream, capture_error_mode=mode):
                    results = call()
        except BaseException:
            _end_allocation(index, pool)
            # A capture that broke off leaves a generator refusing to draw outside of one. Graphs
            # captured before keep the state that is replaced: see Loop.
            for each, state in zip(every, before, strict=True):
                each.graphsafe_set_state(state)
            raise
        finally:
            # Before torch 2.12 a capture that fails leaves its own stream as the current one.
            torch.cuda.set_stream(usual)

        def replay() -> Any:
            graph.replay()
            return results

        return replay


def _end_allocation(index: int, pool: Any) -> None:
    """Stop allocating from the pool of a capture that failed, and release the pool."""
    # From torch 2.12 on that is done (pytorch/pytorch#180395): the first call refuses.
    memory: Any = torch.cuda.memory
    with suppress(RuntimeError):
        memory._cuda_endAllocateToPool(index, pool)
        memory._cuda_releasePool(index, pool)


def tensors_of(tree: Any) -> list[Tensor]:
    """Return the tensors of nested tuples, dicts and TensorDicts; the latter by name."""
    leaves: list[Tensor] = []
    for each in tree_leaves(tree, is_leaf=is_tensor_collection):
        if isinstance(each, Tensor):
            leaves.append(each)
        elif each is not None:
            leaves += [each.get(name) for name in sorted(each.keys(True, True), key=str)]
    return leaves


def copied(tree: Any) -> Any:
    """Return a copy of nested tuples, dicts and TensorDicts, bit for bit and by few kernels."""
    new = tree_map(
        lambda each: each if each is None else torch.empty_like(each),
        tree,
        is_leaf=is_tensor_collection,
    )
    copy_all(tensors_of(new), tensors_of(tree))
    return new


def _nothing() -> None:
    """Return None, as a reference does to what is gone."""


def stateless(function: Callable[..., Any]) -> Callable[..., tuple[tuple[()], Any]]:
    """Return a step for ``Loop`` that only calls a function: its state is ()."""
    return lambda state, *inputs: (state, function(*inputs))


class Loop:
    """Makes steps of a function, and owns the state between them.

    The function gets the state and the inputs, and returns the next state and its outputs, which
    share no memory with the state before. It may also change tensors that it refers to, such as
    counters or a replay buffer, in place.

    On a GPU the first calls are made as they are, so nothing is done twice; from the fourth on
    they are one CUDA graph. Then the state stays in the same tensors. Where there is nothing to
    capture with (on the CPU, if not asked for, or after a capture that failed), a state takes the
    place of the one before.

    After a capture that failed, its generators have other states than those in the graphs of other
    loops that draw from them; these are captured again.

    Args:
        step: from the state, inputs and what ``draws`` gives to the next state and outputs; as the
            module's text says.
        state: the first state: tensors in tuples, dicts or TensorDicts.
        device: of everything that the step touches.
        draws: draws random numbers, as a tuple of further arguments; outside of generated code,
            which cannot draw from generators.
        generators: all that is drawn from.
        compile: whether the step becomes one function of generated code where host reads are not
            free. Where they are, its parts may be compiled.
        capture: whether to capture, where that can be done.
        name: of the step, for messages.
        log: where to say so if the capture fails.
        recorder: records; by default the device's, if it has one.
    """

    _known: ClassVar[WeakSet[Loop]] = WeakSet()
    """All that there are in this process."""

    def __init__(
        self,
        step: Callable[..., tuple[Any, Any]],
        state: Any,
        device: torch.device,
        *,
        draws: Callable[[], tuple[Any, ...]] = tuple,
        generators: Sequence[torch.Generator] = (),
        compile: bool = False,
        capture: bool = True,
        name: str = "a step",
        log: Callable[[str], None] = print,
        recorder: Recorder | None = None,
    ) -> None:
        self._draws, self._generators = draws, generators
        self._name, self._log = name, log
        if recorder is None and capture and device.type == "cuda":
            recorder = CudaRecorder(device)
        self._recorder = recorder
        compile = compile and not host_reads_are_free(device)
        self._step = compiled(step, device) if compile else step
        # Not in the same function: torch 2.11 generates wrong code for one that writes what it
        # also reads.
        self._write: Any = compiled(copy_all, device) if compile and self._recorder else copy_all
        self._state = state if self._recorder is None else copied(state)
        self.captures = self._recorder is not None
        """Whether calls are, or are going to be, a graph."""
        self._forget()
        self._known.add(self)

    @property
    def state(self) -> Any:
        """The state that the next call starts from; another may be set."""
        return self._state

    @state.setter
    def state(self, state: Any) -> None:
        if not self.captures:
            self._state = state
        elif state is not self._state:
            with torch.no_grad():
                copy_all(tensors_of(self._state), tensors_of(state))

    def reset(self) -> None:
        """Forget the graph: needed after tensors that the step refers to were replaced.

        The next calls warm up and capture again.
        """
        if self._recorder is not None and not self.captures:
            self._state, self.captures = copied(self._state), True
        self._forget()

    def _forget(self) -> None:
        self._left = WARM_UPS
        self._replay: Callable[[], Any] | None = None
        self._kinds: Any = None
        """Structure, shapes and types of the inputs; None before the first call."""
        self._latest: list[Any] = []
        """References to the inputs of the latest call, which do not keep them in memory."""
        self._same: list[bool] = []
        """Which of them were the same tensors in the call before."""
        self._kept: list[bool] = []
        """Which were so in the last two calls before the graph, and are its own."""
        self._repeats = 0
        """Calls in succession in which more inputs were the same than the graph has for its own."""
        self._static: list[Any] = []
        """Inputs of the graph: those that are kept, and copies of the others."""

    def __call__(self, *inputs: Any) -> Any:
        """Make a step.

        Args:
            inputs: arguments of the step. A graph works on copies of them, but for tensors that
                are the same in every call, such as the outputs of another loop. When one of those
                is another, or others are the same for some time, the graph is forgotten: see
                ``reset``.

        Returns:
            The outputs of the step.

        Raises:
            TypeError: when there is something else than tensors among the inputs of a graph.
            ValueError: when their number or shapes are not those of the first call.
        """
        if self._recorder is None or not self.captures:
            self._state, outputs = self._step(self._state, *inputs, *self._draws())
            return outputs
        given, tree = tree_flatten(inputs)
        self._compare(given, tree)
        if self._left:
            self._left -= 1
            with self._recorder.beside():
                return self._stepped(*inputs)
        if self._replay is None:
            self._record(self._recorder, given, tree)
        if self._replay is None:
            return self(*inputs)
        pairs = zip(self._static, given, self._kept, strict=True)
        copies = [(old, new) for old, new, kept in pairs if not kept and new is not None]
        copy_all([old for old, _ in copies], [new for _, new in copies])
        return self._replay()

    def _compare(self, given: list[Any], tree: Any) -> None:
        """Find which inputs are the same as before; forget a graph that does not fit them."""
        for each in given:
            if each is not None and not isinstance(each, Tensor):
                raise TypeError(f"{self._name}: would freeze {each!r}; give a tensor")
        shapes = [None if each is None else (each.shape, each.dtype) for each in given]
        if self._kinds is not None and tree != self._kinds[0]:
            self._forget()
        if self._kinds is not None and shapes != self._kinds[1]:
            raise ValueError(f"{self._name}: inputs must keep their shapes, {self._kinds[1]}")
        before = self._latest or [_nothing] * len(given)
        same = [each is None or each is old() for each, old in zip(given, before, strict=True)]
        if self._replay is not None:
            self._repeats = self._repeats + 1 if same != self._kept else 0
            lost = any(kept and not each for kept, each in zip(self._kept, same, strict=True))
            if lost or self._repeats > WARM_UPS:
                self._forget()
        if self._replay is None:
            earlier = self._same or same
            self._kept = [now and then for now, then in zip(same, earlier, strict=True)]
        self._latest = [_nothing if each is None else ref(each) for each in given]
        self._kinds, self._same = (tree, shapes), same

    def _stepped(self, *inputs: Any) -> Any:
        """Make a step in the static state; this is what is captured."""
        state, outputs = self._step(self._state, *inputs, *self._draws())
        with torch.no_grad():
            self._write(tensors_of(self._state), tensors_of(state))
        return outputs

    def _record(self, recorder: Recorder, given: list[Any], tree: Any) -> None:
        """Try to make a graph; the error, which holds on to memory, is gone afterwards."""
        self._static = [
            each if kept or each is None else each.detach().clone()
            for each, kept in zip(given, self._kept, strict=True)
        ]
        inputs = tree_unflatten(self._static, tree)
        try:
            self._replay = recorder.record(lambda: self._stepped(*inputs), self._generators)
        except RuntimeError as error:
            self._give_up(error)

    def _give_up(self, error: BaseException) -> None:
        """Continue without a graph, and print the reason."""
        while error.__context__ is not None:
            # Whatever went wrong, ending the capture fails after it.
            error = error.__context__
        reason = first_line(error)
        self._log(f"{self._name} goes on without a CUDA graph: the capture failed ({reason})")
        self.captures = False
        own = {id(each) for each in self._generators}
        for other in list(self._known):
            if other is self or own & {id(each) for each in other._generators}:
                other._forget()
