"""Matrix products of compiled code by the faster library of a CPU.

PyTorch multiplies matrices in float32 by MKL. Where a processor with AVX-512 is not Intel's, MKL
uses AVX2; oneDNN, which PyTorch has as well, uses AVX-512 and is twice as fast.
"""

from __future__ import annotations

from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

LEAST = 1 << 22
"""Number of multiplications from which oneDNN is used: its call takes 10 us longer than MKL's."""
_PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
_EXACT = ("none", "ieee")
"""Values of PyTorch's setting with products in float32; "none" is unset."""
_setting = Lock()
"""Lock of that setting, which the whole process shares."""
_library = torch.library.Library("marinenav", "FRAGMENT")
_library.define(
    "product(Tensor left, Tensor right, Tensor? bias) -> Tensor",
    tags=(torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag),
)


def onednn_is_faster() -> bool:
    """Return whether large products in float32 are faster by oneDNN, and as exact.

    With AMX instructions, oneDNN would round to bfloat16, see ``product``.
    """
    cpu = torch.cpu.get_capabilities()
    libraries = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    wide = cpu.get("avx512_f", False) and not cpu.get("amx_tile", False)
    return libraries and wide and "AMD" in cpu.get("cpu_name", "")


@torch.library.impl(_library, "product", "CPU")
def product(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    """Return the product of matrices by oneDNN.

    PyTorch calls oneDNN only if its setting allows products to be computed in bfloat16. On a
    processor without AMX, oneDNN computes in float32 nevertheless. A value of the setting that
    already allows less than float32 is not changed.

    Args:
        left: [M, K] float32, of any strides.
        right: [K, N] float32, of any strides.
        bias: tensor to add, which expands to [M, N]; None: no bias.

    Returns:
        [M, N].
    """
    mkldnn: Any = torch.backends.mkldnn
    with _setting:
        before = mkldnn.matmul.fp32_precision
        try:
            if before in _EXACT:
                mkldnn.matmul.fp32_precision = "bf16"
            return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
        finally:
            if before in _EXACT:
                mkldnn.matmul.fp32_precision = before


def _shape(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    """Return a tensor with the shape of ``product``, without values."""
    return left.new_empty(left.shape[0], right.shape[1])


torch.library.register_fake("marinenav::product", _shape)


class LargeProducts(CustomGraphPass):
    """Inductor graph pass that replaces large float32 matrix products by the custom operator ``product``."""

    def __call__(self, graph: Graph) -> None:
        """Replace the large products of a graph in place."""
        for node in list(graph.nodes):
            if node.target in _PRODUCTS and not node.kwargs and _is_large(node):
                *bias, left, right = node.args
                arguments = (left, right, bias[0] if bias else None)
                with graph.inserting_before(node):
                    new = graph.call_function(torch.ops.marinenav.product.default, arguments)
                new.meta.update(node.meta)
                node.replace_all_uses_with(new)
                graph.erase_node(node)

    def uuid(self) -> Any:
        """Return a part of the key of Inductor's cache."""
        return get_hash_for_files((__file__,))


def _is_large(node: Node) -> bool:
    """Return whether a product is in float32, takes enough multiplications, and is not of a vector."""
    left: Any = node.args[-2]
    if "val" not in node.meta or "val" not in left.meta:
        return False
    result, inner = node.meta["val"], left.meta["val"].shape[1]
    large = result.numel() * inner >= LEAST and min(*result.shape, inner) > 1
    return bool(result.dtype == torch.float32 and large)
