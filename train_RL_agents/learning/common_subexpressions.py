"""Elimination of common subexpressions, a pass over the graphs that Inductor compiles.

PyTorch does this when it splits a graph into a forward and a backward pass, but not in a graph that already contains
both. There, critics that rate two actions for one observation would encode it twice.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._ops import OpOverload
from torch.fx import Graph, Node
from torch.utils._pytree import tree_flatten

_IDENTITY_OPERATORS = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
"""Operators that return their argument unchanged, so that it can replace them in a graph without autograd."""


class CommonSubexpressionElimination(CustomGraphPass):
    """Graph pass that merges equal nodes of a functional graph: those with the same operator and arguments."""

    def __call__(self, graph: Graph) -> None:
        """Merge the equal nodes of a graph in place."""
        first: dict[Hashable, Node] = {}
        for node in list(graph.nodes):
            if node.op == "call_function" and node.target in _IDENTITY_OPERATORS:
                replacement: Any = node.args[0]
            elif _is_pure(node):
                replacement = first.setdefault(_node_key(node), node)
            else:
                continue
            if replacement is not node:
                node.replace_all_uses_with(replacement)
                graph.erase_node(node)

    def uuid(self) -> Any:
        """Return the hash of this file, which Inductor adds to the keys of its cache."""
        return get_hash_for_files((__file__,))


def _is_pure(node: Node) -> bool:
    """Return whether a node is deterministic, changes nothing, and is not an output of the graph.

    Outputs stay separate, because the caller may change one in place.
    """
    if node.op != "call_function" or any(user.op == "output" for user in node.users):
        return False
    if isinstance(node.target, OpOverload):
        draws = torch.Tag.nondeterministic_seeded in node.target.tags
        return not (node.target._schema.is_mutable or draws)
    return node.target is operator.getitem


def _node_key(node: Node) -> Hashable:
    """Return a hashable key that is equal for pure nodes that compute the same result."""
    leaves, structure = tree_flatten((node.args, node.kwargs))
    # 1, 1.0 and True compare equal, but lead to results of different types.
    return node.target, tuple((type(leaf), leaf) for leaf in leaves), str(structure)
