"""Matrix products of compiled code by the faster of two CPU libraries, MKL and oneDNN.

PyTorch multiplies float32 matrices with MKL. On a processor with AVX-512 that is not made by Intel, MKL
uses AVX2, whereas oneDNN, which PyTorch includes as well, uses AVX-512 and is twice as fast.
"""

from threading import Lock
from typing import Any

import torch
from torch import Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch.fx import Graph, Node

MIN_MULTIPLICATIONS = 1 << 22
"""Number of scalar multiplications from which a product is computed by oneDNN, whose call takes 10 us longer."""
_PRODUCT_OPERATORS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
_FLOAT32_PRECISIONS = ("none", "ieee")
"""Values of PyTorch's setting ``fp32_precision`` with products in full float32; "none" means not set."""
_precision_lock = Lock()
"""Lock for the setting ``fp32_precision``, which the whole process shares."""
_library = torch.library.Library("marinenav", "FRAGMENT")
_library.define(
    "product(Tensor left, Tensor right, Tensor? bias) -> Tensor",
    tags=(torch.Tag.flexible_layout, torch.Tag.pt2_compliant_tag),
)


def onednn_is_faster() -> bool:
    """Return whether oneDNN multiplies large float32 matrices faster than MKL, and as accurately."""
    cpu = torch.cpu.get_capabilities()
    # On processors with AMX instructions, oneDNN would round to bfloat16; see ``product``.
    libraries = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    wide = cpu.get("avx512_f", False) and not cpu.get("amx_tile", False)
    return libraries and wide and "AMD" in cpu.get("cpu_name", "")


@torch.library.impl(_library, "product", "CPU")
def product(left: Tensor, right: Tensor, bias: Tensor | None) -> Tensor:
    """Return the product of two matrices [M, K] and [K, N] float32, plus a bias, computed by oneDNN.

    PyTorch calls oneDNN only if its setting ``fp32_precision`` allows products in bfloat16. On a processor without AMX,
    oneDNN nevertheless computes in float32.
    """
    mkldnn: Any = torch.backends.mkldnn
    with _precision_lock:
        before = mkldnn.matmul.fp32_precision
        try:
            if before in _FLOAT32_PRECISIONS:
                mkldnn.matmul.fp32_precision = "bf16"
            return torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
        finally:
            if before in _FLOAT32_PRECISIONS:
                mkldnn.matmul.fp32_precision = before


torch.library.register_fake(
    "marinenav::product", lambda left, right, bias: left.new_empty(left.shape[0], right.shape[1])
)


class LargeProducts(CustomGraphPass):
    """Inductor graph pass that replaces large float32 matrix products by the custom operator ``product``."""

    def __call__(self, graph: Graph) -> None:
        """Replace the large products of a graph in place."""
        for node in list(graph.nodes):
            if node.target in _PRODUCT_OPERATORS and not node.kwargs and _is_large(node):
                *bias, left, right = node.args
                arguments = (left, right, bias[0] if bias else None)
                with graph.inserting_before(node):
                    new = graph.call_function(torch.ops.marinenav.product.default, arguments)
                new.meta.update(node.meta)
                node.replace_all_uses_with(new)
                graph.erase_node(node)

    def uuid(self) -> Any:
        """Return the identifier of this pass for the keys of Inductor's cache, a hash of this file."""
        return get_hash_for_files((__file__,))


def _is_large(node: Node) -> bool:
    """Return whether a product of a graph is float32, needs MIN_MULTIPLICATIONS or more, and has no vector factor."""
    left: Any = node.args[-2]
    if "val" not in node.meta or "val" not in left.meta:
        return False
    result, inner = node.meta["val"], left.meta["val"].shape[1]
    large = result.numel() * inner >= MIN_MULTIPLICATIONS and min(*result.shape, inner) > 1
    return bool(result.dtype == torch.float32 and large)
