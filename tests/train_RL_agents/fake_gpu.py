"""A GPU that is not there: tensors with shapes, types and a CUDA device, but without values.

What is computed with them is not known, but where: torch refuses to mix devices, and there is
nothing that the host could read. Gradients are taken as given, since autograd wants a driver.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torchrl.envs import EnvBase

from marinenav_env.runtime import loop as runtime_loop
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios import complete
from marinenav_env.scenarios.complete import required_attempts, required_draws
from tests.train_RL_agents.tiny_runs import tiny_settings
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.reading import from_dict
from train_RL_agents.environments import make_environment
from train_RL_agents.learning import ALGORITHMS, AlgorithmContext
from train_RL_agents.learning.collectors import StepCollector
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.utils.progress import PhaseTimer, ProgressDisplay

GPU = torch.device("cuda", 0)
_READ = torch.ops.aten._local_scalar_dense.default
_COMPARE = torch.ops.aten.allclose.default
_DISTINCT = torch.ops.aten._unique2.default


class _FakeGpu(FakeTensorMode):
    """Fakes tensors; until it is strict, as setting up may read, every value is 1."""

    strict = False
    operators: list[str] | None = None
    """Those that start a kernel, while they are counted."""

    def __deepcopy__(self, memo: Any) -> Any:
        # Copies of fake tensors would copy their mode, and free its weak references twice.
        return self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.strict and func is _READ:
            return True
        if not self.strict and func is _COMPARE:
            return True
        if not self.strict and func is _DISTINCT:
            with self:
                index = torch.zeros_like(args[0], dtype=torch.int64)
                return args[0].flatten()[:1], index, index[:0]
        operators = self.operators
        starts = func.namespace == "aten" and not func.is_view and "empty" not in func.__name__
        if operators is not None and starts:
            operators.append(func.__name__)
        with self.counting(None):  # what it consists of is not counted
            return super().__torch_dispatch__(func, types, args, kwargs)

    @contextmanager
    def counting(self, operators: list[str] | None) -> Iterator[None]:
        """Within it, operators are added to a list, or to none."""
        before, self.operators = self.operators, operators
        yield
        self.operators = before


class _Generator(torch.Generator):
    """Says that it is on a GPU."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return super().__new__(cls, "cpu")

    def __init__(self, device: Any = "cpu") -> None:
        self._device = torch.device(device)

    @property
    def device(self) -> torch.device:
        return self._device


class _OnlyGpu(TorchDispatchMode):
    """Refuses operators that a tensor on the CPU has a part in, such as copies to a GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **kwargs or {})
        for each in tree_leaves((args, kwargs, result)):
            at_home = isinstance(each, Tensor) and each.device.type != "cuda"
            assert not at_home, f"{func} has to do with a tensor on the CPU"
        return result


@contextmanager
def fake_gpu() -> Iterator[_FakeGpu]:
    """Within it, everything on ``GPU`` is faked."""

    grad = torch.autograd.grad

    def given(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        if all(each.device.type != "cuda" for each in inputs):
            return grad(outputs, inputs, *args, **kwargs)
        assert all(each.requires_grad for each in (*tree_leaves(outputs), *inputs))
        return tuple(map(torch.zeros_like, inputs))

    def counted(count: Callable[..., int], *given: Any) -> int:
        with unset_fake_temporarily():  # scenarios are tried, on a CPU
            return count(*given)

    with (
        patch.object(complete, "required_draws", partial(counted, required_draws)),
        patch.object(complete, "required_attempts", partial(counted, required_attempts)),
        patch.object(torch, "Generator", _Generator),
        patch.object(torch.autograd, "grad", given),
        patch.object(EnvBase, "_reset_check_done", lambda *_: None),
        patch.object(runtime_loop, "CudaRecorder", NoGraphs),
        # Else autocast leaves everything in float32.
        patch.object(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False),
        patch.object(torch.cuda, "is_bf16_supported", lambda *_: True),
        _FakeGpu(allow_non_fake_inputs=True) as mode,
    ):
        yield mode


@contextmanager
def only(mode: _FakeGpu) -> Iterator[None]:
    """Within it, everything must stay on the GPU, unread."""
    mode.strict = True
    try:
        with _OnlyGpu():
            yield
    finally:
        mode.strict = False


class NoGraphs:
    """A recorder whose replays are calls: the fake has neither streams nor graphs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def on_side_stream(self) -> Any:
        return nullcontext()

    def record(self, call: Callable[[], Any], generators: Any) -> Callable[[], Any]:
        return call


class Loop:
    """The loop of training on a GPU that is faked.

    Args:
        mode: that fakes it.
        name: of the agent.
        words: settings that differ from those of a tiny run.
    """

    def __init__(self, mode: Any, name: str, *words: str) -> None:
        # The one-kernel optimiser is not known to the fake.
        config = from_dict(tiny_settings(name), ["trainer.fused_optimizer=false", "world.substeps=1", *words])
        generators = {each: torch.Generator(GPU) for each in ("policy", "learner", "replay")}
        self.mode, display = mode, ProgressDisplay(1, quiet=True, bar=False)
        self.compiled: list[str] = []
        clock = PhaseTimer(lambda phase, seconds: self.compiled.append(phase))
        with GPU:
            agent = AGENTS[name](config.agent, config.world.vessel.num_actions)
        noise = RandomSource.from_seed(0, config.trainer.num_envs, GPU)
        self.collector = StepCollector(
            make_environment(config), agent, GPU, 0, noise, generators["policy"], clock, display
        )
        self.algorithm = ALGORITHMS[type(config.trainer)](
            AlgorithmContext(
                config, agent, self.collector.env.fake_tensordict(), generators, Ranks(), clock, display.log
            )
        )
        self.algorithm.set_progress(0.5, self.collector.policy)

    def collect(self, meanwhile: Callable[[], None] = lambda: None, begins: int = 2) -> None:
        """A turn without updates, after those that set up."""
        for _ in range(begins):
            self.algorithm.add_steps(self.collector.collect())
        meanwhile()
        with only(self.mode):
            self.algorithm.add_steps(self.collector.collect())

    def learn(self) -> None:
        """Updates; the first one makes the optimiser's state."""
        for env_steps in (24, 32):
            self.algorithm.add_steps(self.collector.collect())
            with only(self.mode):
                self.algorithm.update(env_steps)
        if self.algorithm.learner.agent.targets:
            with only(self.mode):
                self.algorithm.learner.update_targets(0.5)
        assert self.algorithm.learner.updates >= 2
        with only(self.mode):
            means = self.algorithm.meter._sums.values()
            scalars = [*means, *self.algorithm.device_scalars().values()]
        assert {each.device for each in scalars} == {GPU}


class Replays:
    """A recorder of a loop of the world or of learning, for the CPU, whose replays are calls that leave a note.

    Args:
        notes: gets a note for each replay.
        name: the note.
    """

    def __init__(self, notes: list[str], name: str) -> None:
        self.notes, self.name = notes, name

    def on_side_stream(self) -> Any:
        return nullcontext()

    def record(self, call: Callable[[], Any], generators: Any) -> Callable[[], Any]:
        def replay() -> Any:
            self.notes.append(self.name)
            return call()

        return replay


@contextmanager
def replayed() -> Iterator[list[str]]:
    """Within it, what would be captured on a GPU is recorded; gives the names of all replays."""
    initialize, notes = runtime_loop.Loop.__init__, list[str]()

    def init(self: runtime_loop.Loop, *args: Any, **options: Any) -> None:
        recorder = Replays(notes, options["name"]) if options.get("capture", True) else None
        initialize(self, *args, recorder=recorder, **options)

    with patch.object(runtime_loop.Loop, "__init__", init):
        yield notes
