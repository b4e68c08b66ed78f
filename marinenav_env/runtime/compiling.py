"""Compilation of tensor functions by ``torch.compile``."""

import os
from collections.abc import Callable, Sequence
from inspect import signature
from types import FunctionType, MethodType
from typing import Any

import torch

from marinenav_env.runtime.kept_code import KeptFunction
from marinenav_env.runtime.products import LargeProducts, onednn_is_faster

_GPU_OPTIONS: dict[str, Any] = {
    "combo_kernels": True,
    "combo_kernel_max_num_nodes": 64,
    "combo_kernel_peak_memory_pct_threshold": None,
}
"""Options of Inductor for a GPU, which combine independent operations into one kernel. For tensors as small as those
of this package, launching a kernel takes longer than running it."""

_CPU_OPTIONS: dict[str, Any] = {"cpp.vec_isa_ok": True}
"""Options of Inductor for a CPU, which skip the test of whether the compiler supports the processor's vector
instructions; it takes 5 to 9 s of a cold start. Those that compilers before 2021 lack are tested in any case."""

_ONEDNN_OPTIONS: dict[str, Any] = {"post_grad_custom_post_pass": LargeProducts()}
"""Options of Inductor for a CPU on which oneDNN is faster. The pass is a single object, because Dynamo shares code
only between calls with equal options."""


def compile_function(
    function: Callable[..., Any],
    device: torch.device,
    keep_all_guards: bool = True,
    inductor_options: dict[str, Any] | None = None,
    kept_for: str | None = None,
) -> Callable[..., Any]:
    """Return a function compiled by torch.compile into one graph, once per combination of input shapes.

    On a CPU, large matrix products are computed by oneDNN where that is faster; see runtime.products. Without
    ``keep_all_guards``, modules (with their parameters and fields) and global names are not checked in each call,
    because there may be thousands; they must not change, and ``function`` is a plain function or method. With
    ``kept_for``, a text with the settings that decide which functions ``function`` calls, its code is kept in a file
    (see runtime.kept_code), with all its guards.
    """
    options = dict(inductor_options or {})
    if device.type == "cuda":
        listed = torch._inductor.list_options()  # documented by torch.compile
        options |= {name: value for name, value in _GPU_OPTIONS.items() if name in listed}
    elif device.type == "cpu":
        if torch.cpu.get_capabilities().get("avx2", False):
            options |= _CPU_OPTIONS
        if onednn_is_faster():
            options |= _ONEDNN_OPTIONS
        # Inductor reads this variable only when it is imported.
        if os.environ.get("TORCHINDUCTOR_CPP_DYNAMIC_THREADS") == "1":
            # Code that is generated for one thread repeats in each of several what only one may do.
            options |= {"cpp.dynamic_threads": True, "cpp.threads": max(2, os.cpu_count() or 1)}
    filters = {} if keep_all_guards else {"guard_filter_fn": _select_guards}
    original, function = function, function if keep_all_guards else _copy_function(function)
    compiled = torch.compile(
        function, fullgraph=True, dynamic=False, options=options | filters or None, **_RECOMPILE_OPTIONS
    )
    if kept_for is None or device.type != "cpu":
        return compiled
    return KeptFunction(original, options, kept_for, compiled)


_RECOMPILE_OPTIONS: dict[str, Any] = (
    {"recompile_limit": 64} if "recompile_limit" in signature(torch.compile).parameters else {}
)
"""Option for the largest number of variants that a function is compiled in. Versions without it, such as torch 2.11,
allow eight, which is enough for training, but not for updates in ever smaller micro-batches."""


def _select_guards(entries: Sequence[Any]) -> list[bool]:
    """Return for each guard of Dynamo whether to keep it: False for guards on modules and on global names."""
    filters: tuple[Callable[..., list[bool]], ...] = (
        torch.compiler.skip_guard_on_all_nn_modules_unsafe,
        torch.compiler.skip_guard_on_globals_unsafe,
    )
    return [all(kept) for kept in zip(*(select(entries) for select in filters), strict=True)]


def _copy_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a copy that shares no compiled code, since Dynamo keeps that by code object."""
    if isinstance(function, MethodType):
        return MethodType(_copy_function(function.__func__), function.__self__)
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__qualname__, copy.__kwdefaults__ = function.__qualname__, function.__kwdefaults__
    return copy
