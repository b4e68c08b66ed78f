"""CUDA graphs: the many small kernels of a function, recorded once and launched together.

A graph repeats the kernels of one call: same memory, same numbers. What can be captured is
therefore a function that

- takes tensors (in tuples, dicts or TensorDicts) whose shapes are the same in every call;
- keeps its state in tensors that it changes in place;
- finds what varies from call to call (a step size, an epsilon) in tensors: Python scalars are
  baked into the graph;
- reads nothing on the host, and draws only from generators that ``Captured`` was given.

Its results are overwritten by the next call.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, ClassVar, Protocol
from weakref import WeakSet

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from marinenav_env.runtime.layout import copy_all
from marinenav_env.support.plugins import first_line

WARM_UPS = 3
"""Calls before the capture: they compile, choose kernels and allocate what stays."""


class Recorder(Protocol):
    """Interface of ``Captured`` to a device; tests have one for the CPU."""

    def beside(self) -> Any:
        """A context for calls that warm up."""

    def record(
        self, call: Callable[[], Any], generators: Sequence[torch.Generator]
    ) -> tuple[Callable[[], None], Any]:
        """Record a call without making it; returns what makes it, and its results."""


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

    def record(
        self, call: Callable[[], Any], generators: Sequence[torch.Generator]
    ) -> tuple[Callable[[], None], Any]:
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
            # captured before keep the state that is replaced: see Captured.
            for each, state in zip(every, before, strict=True):
                each.graphsafe_set_state(state)
            raise
        finally:
            # Before torch 2.12 a capture that fails leaves its own stream as the current one.
            torch.cuda.set_stream(usual)
        return graph.replay, results


def _end_allocation(index: int, pool: Any) -> None:
    """Stop allocating from the pool of a capture that failed, and release the pool."""
    # From torch 2.12 on that is done (pytorch/pytorch#180395): the first call refuses.
    memory: Any = torch.cuda.memory
    with suppress(RuntimeError):
        memory._cuda_endAllocateToPool(index, pool)
        memory._cuda_releasePool(index, pool)


class Captured:
    """Calls a function; on a GPU from the fourth call on as one CUDA graph.

    The first calls are real ones, so nothing is done twice. Where there is nothing to capture with
    (on the CPU, if not asked for, or after a capture that failed) it is the function itself.

    After a capture that failed, its generators have other states than those in the graphs of other
    functions that draw from them; these functions are captured again.

    Args:
        function: as the module's text says; without effects in Python that must happen every time.
        device: of everything that it touches.
        generators: all that it draws from.
        name: of the function, for messages.
        capture: whether to capture, where that can be done.
        say: where to say so if the capture fails.
        recorder: records; by default the device's, if it has one.
        in_place: whether inputs are the same tensors in every call, such as the results of another
            graph, which need no copy. Calls on other tensors then run without the graph.
    """

    _known: ClassVar[WeakSet[Captured]] = WeakSet()
    """All that there are in this process."""

    def __init__(
        self,
        function: Callable[..., Any],
        device: torch.device,
        generators: Sequence[torch.Generator] = (),
        *,
        name: str = "a function",
        capture: bool = True,
        say: Callable[[str], None] = print,
        recorder: Recorder | None = None,
        in_place: bool = False,
    ) -> None:
        self._in_place = in_place
        self._function, self._generators = function, generators
        self._name, self._say = name, say
        if recorder is None and device.type == "cuda" and capture:
            recorder = CudaRecorder(device)
        self._recorder = recorder
        self.reset()
        self._known.add(self)

    def reset(self) -> None:
        """Forget the graph: needed after tensors that the function touches were replaced.

        The next calls warm up and capture again.
        """
        self.captures = self._recorder is not None
        """Whether calls are, or are going to be, a graph."""
        self._forget()

    def _forget(self) -> None:
        self._left = WARM_UPS
        self._inputs: list[Tensor] = []
        self._call: Callable[[], Any] | None = None
        self._replay: Callable[[], None] | None = None
        self._results: Any = None

    def __call__(self, *inputs: Any) -> Any:
        """Results of the function.

        Args:
            inputs: its arguments; a graph works on copies of them.

        Raises:
            TypeError: when there is something else than tensors among them.
            ValueError: when their number or shapes are not those of the first call.
        """
        if self._recorder is None or not self.captures:
            return self._function(*inputs)
        if self._in_place and not self._same(inputs):
            return self._function(*inputs)
        call = self._filled(inputs)
        if self._left:
            self._left -= 1
            with self._recorder.beside():
                return call()
        if self._replay is None:
            self._record(self._recorder, call)
        if self._replay is None:
            return self._function(*inputs)
        self._replay()
        return self._results

    def _same(self, inputs: tuple[Any, ...]) -> bool:
        """Whether inputs are where the graph expects them; in warm-up calls, yes."""
        if self._left:
            return True
        given = [each for each in tree_flatten(inputs)[0] if each is not None]
        if self._replay is None:
            self._inputs, self._call = given, partial(self._function, *inputs)
        return all(a.data_ptr() == b.data_ptr() for a, b in zip(given, self._inputs, strict=True))

    def _record(self, recorder: Recorder, call: Callable[[], Any]) -> None:
        """Try to make a graph; the error, which holds on to memory, is gone afterwards."""
        try:
            self._replay, self._results = recorder.record(call, self._generators)
        except RuntimeError as error:
            self._give_up(error)

    def _filled(self, inputs: tuple[Any, ...]) -> Callable[[], Any]:
        """The call on inputs that stay where they are, filled with the given ones."""
        if self._in_place:
            return self._call or partial(self._function, *inputs)
        given, tree = tree_flatten(inputs)
        if self._call is None:
            for each in given:
                if each is not None and not isinstance(each, Tensor):
                    raise TypeError(f"{self._name}: would freeze {each!r}; give a tensor")
            static = [None if each is None else each.detach().clone() for each in given]
            self._call = partial(self._function, *tree_unflatten(static, tree))
            self._inputs = [each for each in static if each is not None]
            return self._call
        given = [each for each in given if each is not None]
        shapes = [each.shape for each in self._inputs]
        if [each.shape for each in given] != shapes:
            raise ValueError(f"{self._name}: inputs must keep their shapes, {shapes}")
        copy_all(self._inputs, given)
        return self._call

    def _give_up(self, error: BaseException) -> None:
        """Continue without a graph, and print the reason."""
        while error.__context__ is not None:
            # Whatever went wrong, ending the capture fails after it.
            error = error.__context__
        reason = first_line(error)
        self._say(f"{self._name} goes on without a CUDA graph: the capture failed ({reason})")
        self.captures = False
        own = {id(each) for each in self._generators}
        for other in list(self._known):
            if other is self or own & {id(each) for each in other._generators}:
                other._forget()
