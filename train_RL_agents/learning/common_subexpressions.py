"""A pass over graphs that Inductor compiles: what is computed twice becomes one node.

PyTorch does this when it splits a graph into a forward and a backward pass, not in a graph that
already holds both. There, critics that rate two actions of one observation would encode it twice.
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

_SAME = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
"""Operators that give their argument; in a graph without autograd it can take their place."""


class CommonSubexpressions(CustomGraphPass):
    """Merges equal nodes of a functional graph: same operator, same arguments."""

    def __call__(self, graph: Graph) -> None:
        """Change a graph in place."""
        first: dict[Hashable, Node] = {}
        for node in list(graph.nodes):
            if node.op == "call_function" and node.target in _SAME:
                same: Any = node.args[0]
            elif _is_pure(node):
                same = first.setdefault(_key(node), node)
            else:
                continue
            if same is not node:
                node.replace_all_uses_with(same)
                graph.erase_node(node)

    def uuid(self) -> Any:
        """Return the part of the key of Inductor's cache."""
        return get_hash_for_files((__file__,))


def _is_pure(node: Node) -> bool:
    """Return whether a node gives the same each time, changes nothing, and is no result of the graph.

    Results stay apart: the caller may change one in place.
    """
    if node.op != "call_function" or any(user.op == "output" for user in node.users):
        return False
    if isinstance(node.target, OpOverload):
        draws = torch.Tag.nondeterministic_seeded in node.target.tags
        return not (node.target._schema.is_mutable or draws)
    return node.target is operator.getitem


def _key(node: Node) -> Hashable:
    """Equal for nodes that compute the same."""
    leaves, structure = tree_flatten((node.args, node.kwargs))
    # 1, 1.0 and True are equal, but lead to different types.
    return node.target, tuple((type(each), each) for each in leaves), str(structure)
