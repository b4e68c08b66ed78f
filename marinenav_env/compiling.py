"""Compilation of functions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType, MethodType
from typing import Any

import torch
from torch import nn

from marinenav_env.products import LargeProducts, onednn_is_faster

_MOST = "combo_kernel_max_num_nodes"
_ON_GPU: dict[str, Any] = {
    "combo_kernels": True,
    _MOST: 64,
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
        if not hasattr(config, _MOST):
            _combine_more()
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


def _combine_more() -> None:
    """Let a version of Inductor that has no setting for it (2.11) combine as many kernels.

    It groups what is independent by eights; adjacent groups of one level are joined.
    """
    from torch._inductor.scheduler import ForeachKernelSchedulerNode

    by_eights = ForeachKernelSchedulerNode._default_group_nodes_for_combo_kernels

    def grouped(scheduler: Any) -> list[list[Any]]:
        levels = enumerate(scheduler._topological_sort_nodes())
        level = {node: number for number, nodes in levels for node in nodes}
        groups: list[list[Any]] = []
        place = None
        for nodes in by_eights(scheduler):
            before, place = place, (level[nodes[0]], nodes[0].get_device())
            if place == before and len(groups[-1]) + len(nodes) <= _ON_GPU[_MOST]:
                groups[-1].extend(nodes)
            else:
                groups.append(nodes)
        return groups

    ForeachKernelSchedulerNode.set_group_algorithm_for_combo_kernels(grouped)


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
