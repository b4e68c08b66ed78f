"""Count the kernels of parts of the training loop on a simulated GPU.

    python -m tools.count_kernels                                # every agent
    python -m tools.count_kernels --agents AC-IQN --registers    # also compile for sm_90
    python -m tools.count_kernels trainer.precision=bf16 --agents DQN --code folder

The training loop runs on the fake GPU of the tests. Inductor generates its code as for an H200: every launch of a
generated kernel, every library call and every operator outside of generated code counts as one. A library may launch a
second kernel to add the parts of a matrix product, which is not counted. No kernel runs, so nothing is timed.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import os
import re
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
import torch._functorch.config
import torch._inductor.config
import torch._inductor.fx_passes.joint_graph as joint_graph
import torch._subclasses.fake_tensor as fake_tensor
import torch.utils._triton
from functorch.compile import make_boxed_func
from torch import Tensor
from torch._dynamo.device_interface import CudaInterface
from torch._guards import detect_fake_mode
from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.graph import GraphLowering
from torch.fx.node import map_aggregate
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from tests.train_RL_agents.fake_gpu import GPU, Loop, fake_gpu
from train_RL_agents.agents import AGENTS
from train_RL_agents.policy_wrapper import compiled_explore

CPU = torch.device("cpu")
H200 = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=141 << 30,
    regs_per_multiprocessor=65_536, max_threads_per_multi_processor=2048, warp_size=32,
    max_threads_per_block=1024, shared_memory_per_block=49_152, gcnArchName="",
    shared_memory_per_block_optin=232_448, shared_memory_per_multiprocessor=233_472,
    L2_cache_size=60 << 20,
)  # fmt: skip
"""Properties of an NVIDIA H200, as torch.cuda reports them."""
BASE_SETTINGS = {"execution": {"compile": True, "capture": True}, "trainer": {"num_envs": 4096}}
"""Settings of the measured training that differ from the defaults."""
_COMPILER_SETTINGS = {
    torch._inductor.config: {
        "shape_padding": False,  # would be measured on the device
        "joint_graph_constant_folding": False,  # would be computed on the device
        "fx_graph_cache": False,
        "compile_threads": 1,
    },
    torch._functorch.config: {
        "enable_autograd_cache": False,
        "force_non_lazy_backward_lowering": True,
    },
}


# A compiler for a simulated GPU -----------------------------------------------------------------


@contextmanager
def simulate_h200() -> Iterator[None]:
    """Make torch.cuda and Triton describe an NVIDIA H200 in this context, though there is no GPU."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver

    def constant(value: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: value

    properties = {"get_device_properties": constant(H200), "current_device": constant(0)}
    common = properties | {"is_available": constant(True), "device_count": constant(1), "synchronize": constant(None)}
    cuda = common | {
        "get_device_capability": constant((9, 0)),
        "get_device_name": constant(H200.name),
        "is_bf16_supported": constant(True),
        "set_rng_state": constant(None),
        "get_rng_state": constant(torch.zeros(16, dtype=torch.uint8)),
        **dict.fromkeys(("_lazy_init", "_exchange_device", "_maybe_exchange_device"), constant(0)),
    }
    target = SimpleNamespace(
        get_current_target=constant(GPUTarget("cuda", 90, 32)),
        get_current_device=constant(0),
        get_current_stream=constant(0),
    )
    with ExitStack() as stack:
        for owner, names in ((torch.cuda, cuda), (CudaInterface, common), (CudaInterface.Worker, properties)):
            for name, value in names.items():
                replacement = value if owner is torch.cuda else staticmethod(value)
                stack.enter_context(patch.object(owner, name, replacement))
        stack.enter_context(patch.object(fake_tensor, "init_gpu_context", constant(None)))
        stack.enter_context(patch.object(joint_graph, "lazy_init", constant(None)))
        for function in vars(torch.utils._triton).values():
            getattr(function, "cache_clear", constant(None))()
        driver.set_active(target)
        yield


def move_graph(graph: torch.fx.GraphModule, device: torch.device) -> torch.fx.GraphModule:
    """Return a copy of an FX graph that creates its tensors on another device."""
    graph = copy.deepcopy(graph)

    def move(value: Any) -> Any:
        if value == "cuda":  # the argument of autocast
            return device.type
        return device if isinstance(value, torch.device) else value

    for node in graph.graph.nodes:
        node.args, node.kwargs = (map_aggregate(arguments, move) for arguments in (node.args, node.kwargs))
        node.meta.pop("example_value", None)
    graph.recompile()
    return graph


def empty_like_on(value: Any, device: torch.device) -> Any:
    """Return an uninitialised tensor on a device with the layout of another; return any other value unchanged."""
    if not isinstance(value, Tensor):
        return value
    return torch.empty_strided(
        value.shape, value.stride(), dtype=value.dtype, device=device, requires_grad=value.requires_grad
    )


class RecordingCompiler:
    """Replacement of ``torch.compile`` that records the code that it generates and the calls of that code.

    Args:
        mode: mode of the fake GPU, which counts operators.
    """

    def __init__(self, mode: Any) -> None:
        self.mode, self._compile = mode, torch.compile
        self.code: list[tuple[str, str]] = []
        """Pairs of name and generated code of compiled functions; a backward pass has a pair of its own."""
        self.started: list[str] = []
        """Generated code of each call, in order."""
        self.counted_code: dict[str, None] = {}
        """Generated code that the counted parts called, as keys in the order of calls; values are None."""
        self.operators: dict[str, Counter[str]] = {}
        """Number of calls of each operator outside of generated code, by part of the training loop."""

    def __call__(self, function: Any, *, options: Any = None, **kwargs: Any) -> Any:
        """Return a function compiled with a backend that records calls; the arguments are those of torch.compile."""
        name = getattr(getattr(function, "func", function), "__qualname__", "?")
        # This option is one of Dynamo, not of Inductor.
        patches = {key: value for key, value in (options or {}).items() if key != "guard_filter_fn"}

        def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            start = len(self.code)
            with detect_fake_mode(inputs):
                # Gradients are traced on the CPU, since autograd needs a driver.
                cpu_inputs = [empty_like_on(value, CPU) for value in inputs]
            compile_fx(
                move_graph(graph, CPU),
                cpu_inputs,
                inner_compile=bind_first(self._generate, name),
                config_patches=patches,
            )
            texts = [text for _, text in self.code[start:]]

            def call(*args: Any) -> Any:
                self.started += texts
                with self.mode.counting(None):
                    return graph.forward(*args)

            return call

        return self._compile(function, backend=backend, **kwargs)

    def _generate(self, name: str, graph: torch.fx.GraphModule, inputs: list[Any], **kwargs: Any) -> Any:
        """Generate and record the GPU code of a graph of a named function; return a function that runs the graph."""

        def keep_code(lowering: GraphLowering, wrapper: Any) -> Any:
            self.code.append((name, wrapper.value))
            lowering.cache_key, lowering.cache_path, lowering.cache_linemap = "", os.devnull, []
            return SimpleNamespace(call=lambda args: None, __file__=os.devnull, runner=None)

        mode, gpu_graph = detect_fake_mode(inputs), move_graph(graph, GPU)
        with mode:
            gpu_inputs = [empty_like_on(value, GPU) for value in inputs]
            FakeTensorProp(gpu_graph, mode).propagate_dont_convert_inputs(*gpu_inputs)
        with simulate_h200(), patch.object(GraphLowering, "_compile_to_module_lines", keep_code):
            compile_fx_inner(gpu_graph, gpu_inputs, **kwargs)
        return make_boxed_func(graph.forward)


def bind_first(function: Callable[..., Any], *first: Any) -> Callable[..., Any]:
    """Return a function with its first arguments bound, as a plain function, which config_patches can wrap."""
    return lambda *args, **kwargs: function(*first, *args, **kwargs)


def count_launches(text: str) -> Counter[str]:
    """Count the launches per call of generated code, by type: ``generated``, ``library`` or ``operators``."""
    body = text[text.index("def call(") :]
    calls = re.findall(r"(\.run|extern_kernels|torch\.ops\.\w+|\.copy_)(?:\.\w+)*\(", body)
    kinds = {".run": "generated", "extern_kernels": "library"}
    return Counter(kinds.get(call, "operators") for call in calls)


# Counting ---------------------------------------------------------------------------------------


PARTS = ("vector step", "refresh", "update", "evaluation step")
"""Parts of the training loop whose kernels are counted."""


def count_parts(
    agent: str, overrides: list[str], parts: Sequence[str] = PARTS
) -> tuple[dict[str, Counter[str]], RecordingCompiler]:
    """Count the kernels of parts of the training loop.

    Args:
        agent: name of the agent.
        overrides: settings that override the defaults, as ``name=value``.
        parts: some of PARTS.

    Returns:
        Number of kernels by part and type, and the compiler that recorded their code.
    """
    compiled_explore.cache_clear()
    counts: dict[str, Counter[str]] = {}
    with ExitStack() as stack:
        for config, settings in _COMPILER_SETTINGS.items():
            stack.enter_context(config.patch(settings))  # type: ignore[attr-defined]
        mode = stack.enter_context(fake_gpu())
        compiler = RecordingCompiler(mode)
        stack.enter_context(patch.object(torch, "compile", compiler))
        loop = Loop(mode, agent, *overrides, base={**BASE_SETTINGS, "agent_type": agent})

        def count(part: str, act: Callable[[], Any], times: int = 1) -> None:
            operators: list[str] = []
            compiler.started.clear()
            with mode.counting(operators):
                act()
            kinds = Counter(operators=len(operators))
            for text in compiler.started:
                kinds.update(count_launches(text))
            counts[part] = Counter({kind: number // times for kind, number in kinds.items()})
            compiler.counted_code.update(dict.fromkeys(compiler.started))
            compiler.operators[part] = Counter(operators)

        def step() -> None:
            loop.algorithm.add_steps(loop.collector.collect())

        for _ in range(2):  # the first steps allocate memory and compile
            step()
        graphs: Any = loop.collector._graphs
        if "vector step" in parts:
            # The advantages of a rollout are not part of a vector step.
            call = loop.collector.collect if loop.rollouts else step
            count("vector step", call, loop.collector._config.trainer.vector_steps)
        if "refresh" in parts:
            count("refresh", lambda: graphs.refresh(graphs.env.reset_pool._begins[0]))
        if "update" in parts:
            update = loop.one_update()
            for _ in range(2):
                update()
            count("update", update)
        if "evaluation step" in parts:
            evaluation = loop.evaluation()
            for _ in range(2):
                evaluation.loop()
            count("evaluation step", evaluation.loop)
    compiled_explore.cache_clear()
    return counts, compiler


# Registers --------------------------------------------------------------------------------------


_USAGE_CACHE: dict[str, dict[str, int]] = {}
"""Results of ``register_usage`` by source of the kernel without its name."""


def register_usage(code: str) -> Iterator[tuple[str, dict[str, int]]]:
    """Yield register, stack and spill use of each Triton kernel in Inductor's code, compiled for sm_90.

    Equal kernels are compiled once.

    Yields:
        Name of the kernel, and its use per thread: registers (REG), bytes of the stack (STACK), which sines and
        cosines need, and bytes written there for lack of registers (SPILL).
    """
    with tempfile.TemporaryDirectory() as folder, simulate_h200():
        for name, source in re.findall(r"(triton_\w+) = async_compile\.triton\('\w+', '''(.*?)''',", code, re.S):
            key = source.replace(name, "")
            if key not in _USAGE_CACHE:
                # Names of kernels may be too long for a file name.
                _USAGE_CACHE[key] = _compile_kernel(name, source, Path(folder) / f"k{len(_USAGE_CACHE)}.py")
            yield name, _USAGE_CACHE[key]


def _compile_kernel(name: str, source: str, file: Path) -> dict[str, int]:
    """Compile a Triton kernel and return its use of registers, stack and spills; see register_usage.

    Args:
        name: name of the kernel.
        source: code of the kernel, as Inductor generates it.
        file: path of the module that is written for it.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    body = _HEURISTICS_PATTERN.sub("@triton.jit", source)
    file.write_text(_KERNEL_IMPORTS + body[body.index("@triton.jit") :])
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    function = next(
        value
        for key, value in vars(module).items()
        if key.startswith("triton_") and isinstance(value, triton.JITFunction)
    )
    signature = eval(re.search(r"'signature': (\{.*?\})", source, re.S)[1])  # type: ignore[index]
    blocks = {argument: _BLOCK_SIZES.get(argument, 256) for argument, kind in signature.items() if kind == "constexpr"}
    if "triton_poi" not in name:
        blocks["XBLOCK"] = 32 if "R0_BLOCK" in blocks else 8
    aligned = {(i,): [["tt.divisibility", 16]] for i, kind in enumerate(signature.values()) if kind.startswith("*")}
    compiled = triton.compile(
        ASTSource(function, signature, blocks, aligned),
        target=GPUTarget("cuda", 90, 32),
        options={"num_warps": 4},
    )
    return ptx_resources(compiled.asm["ptx"])


def ptx_resources(code: str) -> dict[str, int]:
    """Return the use of registers, stack and spills of a kernel from its PTX; see register_usage."""
    from triton.backends.nvidia.compiler import get_ptxas

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.ptx"
        file.write_text(code)
        command = [
            get_ptxas(90).path,
            "-v",
            "--gpu-name=sm_90a",
            file,
            "-o",
            file.with_suffix(".cubin"),
        ]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    patterns = {"REG": r"Used (\d+) reg", "STACK": r"(\d+) bytes stack", "SPILL": r"(\d+) bytes spill"}
    return {key: max(map(int, re.findall(pattern, output))) for key, pattern in patterns.items()}


_HEURISTICS_PATTERN = re.compile(r"@triton_heuristics\.\w+\(.*?\n\)\n@triton\.jit", re.S)
"""Pattern of the decorators of Inductor that choose block sizes at run time, up to ``@triton.jit``."""
_BLOCK_SIZES = {"YBLOCK": 2, "ZBLOCK": 2, "R0_BLOCK": 16}
"""Block sizes with which kernels are compiled, by argument; other blocks have 256 elements."""
_KERNEL_IMPORTS = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math
"""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    add("--parts", nargs="+", choices=PARTS, default=PARTS)
    add("--registers", action="store_true", help="compile for sm_90 and list registers and spills")
    add("--code", type=Path, help="folder for the generated code")
    add("settings", nargs="*", metavar="SETTING=VALUE")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    """Print the number of kernels of every agent and part by type, and on request registers and code."""
    args = parse_arguments(argv)
    for agent in args.agents:
        counts, compiler = count_parts(agent, args.settings, args.parts)
        for part, kinds in counts.items():
            text = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            print(f"{agent:<8} {part:<16} {sum(kinds.values()):>4} kernels: {text}", flush=True)
            print(f"{'':<10}{dict(compiler.operators[part].most_common())}")
        for number, (name, text) in enumerate(compiler.code):
            if text not in compiler.counted_code:
                continue
            print(f"{agent:<8} {name:<40} {dict(count_launches(text))}, {len(text):,} characters")
            if args.code:
                args.code.mkdir(parents=True, exist_ok=True)
                (args.code / f"{agent}_{number}_{name}.py").write_text(text)
        if args.registers:
            used = {
                f"{number}.{kernel}": use
                for number, text in enumerate(compiler.counted_code)
                for kernel, use in register_usage(text)
            }
            for kernel, numbers in used.items():
                print(f"{'':<10}{kernel:<60} {numbers}")
            most = max(use["REG"] for use in used.values())
            spilled = sum(use["SPILL"] > 0 for use in used.values())
            print(f"{agent:<8} {len(used)} kernels: at most {most} registers, {spilled} spill")


if __name__ == "__main__":
    main()
