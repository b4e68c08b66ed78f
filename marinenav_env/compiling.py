"""Compilation of functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from marinenav_env.products import LargeProducts, onednn_is_faster

_ON_GPU: dict[str, Any] = {
    "combo_kernels": True,
    "combo_kernel_max_num_nodes": 64,
    "combo_kernel_peak_memory_pct_threshold": None,
}
"""Options for a GPU: what is independent becomes one kernel. With tensors as small as these,
starting a kernel takes longer than running it."""

_BY_ONEDNN: dict[str, Any] = {"post_grad_custom_post_pass": LargeProducts()}
"""Options for a CPU on which oneDNN is faster. There is one object of the pass, since Dynamo shares
code only between calls with equal options."""


def compiled(
    function: Callable[..., Any],
    device: torch.device,
    structure: Callable[..., Hashable] | None = None,
    checks_tensors: bool = True,
    further: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a function into one graph, for the shapes that it is called with.

    Large matrix products are computed by oneDNN on a CPU where that is faster, see products.

    Args:
        function: of tensors; with ``structure`` a plain function or a method.
        device: of the tensors.
        structure: gives, from the arguments, all that the code depends on beside its tensors, such
            as which of them are None. Code is then kept for each structure, and only tensors are
            checked at a call, not every parameter, module and field. What else the function refers
            to must stay as it is. None: Dynamo checks everything.
        checks_tensors: whether tensors are checked, too; if not, ``structure`` also gives their
            sizes, strides and types where these may vary. Generated code refuses other sizes and
            strides, but does not notice other types.
        further: options of Inductor; not ``post_grad_custom_post_pass``.
    """
    options = dict(further or {})
    if device.type == "cuda":
        from torch._inductor import config

        # Each version knows others.
        options |= {name: value for name, value in _ON_GPU.items() if hasattr(config, name)}
    elif device.type == "cpu" and onednn_is_faster():
        options |= _BY_ONEDNN
    if structure is None:
        return torch.compile(function, fullgraph=True, dynamic=False, options=options or None)
    options["guard_filter_fn"] = _of_tensors if checks_tensors else _of_settings
    made: dict[Hashable, Callable[..., Any]] = {}

    def call(*arguments: Any) -> Any:
        if torch.compiler.is_compiling():  # as a part of other compiled code
            return function(*arguments)
        key = structure(*arguments)
        if key not in made:
            own = _with_own_code(function)
            made[key] = torch.compile(own, fullgraph=True, dynamic=False, options=options)
        return made[key](*arguments)

    return call


def _of_settings(guards: Sequence[Any]) -> list[bool]:
    """Which of Dynamo's guards to keep: of global settings, such as the gradient mode."""
    return [not each.name for each in guards]


def _of_tensors(guards: Sequence[Any]) -> list[bool]:
    """Which of Dynamo's guards to keep: of tensors but parameters, and of global settings."""
    return [
        not each.name
        or (each.guard_type == "TENSOR_MATCH" and not isinstance(each.value, nn.Parameter))
        for each in guards
    ]


def _with_own_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a function, for which nothing is found that was compiled for another one.

    Dynamo keeps what it compiles by the code of a function. Only guards tell closures of one
    definition, or methods of several objects, apart.
    """
    if isinstance(function, MethodType):
        return MethodType(_with_own_code(function.__func__), function.__self__)
    assert isinstance(function, FunctionType)
    copy = FunctionType(
        function.__code__.replace(), function.__globals__, function.__name__,
        function.__defaults__, function.__closure__,
    )  # fmt: skip
    copy.__qualname__, copy.__kwdefaults__ = function.__qualname__, function.__kwdefaults__
    return copy
