"""What others might write into files: strategies of hypothesis, and what readers may answer."""

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

from marinenav_env import ConfigError

QUICK = settings(max_examples=20, derandomize=True, deadline=None, database=None)
"""The same few examples every time."""
SCALARS: list[Any] = [
    None, True, -1, 0, 0.5, 2**63, 10**400, 1e9, 1e308, -1e308, 1e-300, math.nan, math.inf,
    "", "x" * 5000, "a\0b", "\ud800", "../../etc", "$\\frac", [], {}, [[]], [None], [1e308] * 3,
    [10**9] * 2, {"a": {}},
]  # fmt: skip
TENSORS: list[Any] = [
    torch.zeros(1).expand(2**40),
    torch.tensor(math.nan),
    torch.zeros(0),
    torch.zeros(3, 3),
    torch.tensor([5, -1]),
    torch.tensor(True),
    torch.zeros(2, 2).to_sparse(),
    torch.full((2,), 1e9),
    torch.zeros(2, device="meta"),
    torch.zeros(2, dtype=torch.complex64),
]


def answers(read: Callable[[], Any]) -> bool:
    """Whether a reader accepts what it is given; if not, it must say so in one short sentence."""
    try:
        read()
    except ConfigError as error:
        assert "\n" not in str(error)
        assert len(f"marinenav: error: {error}") < 400
        return False
    return True


def _places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Keys that lead to every part of a tree."""
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, part in parts:
        yield (*place, key)
        if isinstance(part, dict | list):
            yield from _places(part, (*place, key))


@st.composite
def damaged_trees(draw: Any, tree: Any, values: list[Any]) -> Any:
    """A nested dict or list in which one part is replaced, removed, repeated or renamed."""
    place = draw(st.sampled_from(list(_places(tree))))
    tree = copy.deepcopy(tree)
    parent, key = tree, place[-1]
    for step in place[:-1]:
        parent = parent[step]
    act = draw(st.sampled_from(["replace", "replace", "remove", "repeat", "rename"]))
    if act == "remove":
        del parent[key]
    elif act == "repeat":
        parent[key] = [parent[key]] * 3
    elif act == "rename" and isinstance(parent, dict):
        parent[f"{key}\0"] = parent.pop(key)
    else:
        parent[key] = draw(st.sampled_from(values))
    return tree


@st.composite
def damaged_bytes(draw: Any, whole: bytes) -> bytes:
    """A file that is cut, or in which some bytes are others."""
    place = draw(st.integers(0, len(whole) - 1))
    act = draw(st.sampled_from(["cut", "flip", "zeros", "insert", "double"]))
    if act == "cut":
        return whole[:place]
    if act == "double":
        return whole + whole
    middle = {
        "flip": bytes([whole[place] ^ (1 << draw(st.integers(0, 7)))]),
        "zeros": bytes(8),
        "insert": whole[place : place + 1] + b"\xff\0",
    }[act]
    skipped = 8 if act == "zeros" else 1
    return whole[:place] + middle + whole[place + skipped :]


@st.composite
def damaged_arrays(draw: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Arrays by name, of which one is of other numbers, of another type or shape, or missing."""
    name = draw(st.sampled_from(sorted(arrays)))
    array = np.asarray(arrays[name])
    changes: list[Callable[[], Any]] = [
        lambda: array[:0] if array.ndim else np.zeros(0),
        lambda: array[None],
        lambda: array.ravel(),
        lambda: np.array("x"),
        lambda: np.array(b"x"),
        lambda: np.zeros(array.shape, np.complex64),
        lambda: np.zeros(array.shape, ">f8"),
        lambda: np.zeros(array.shape, np.longdouble),
        lambda: np.zeros(array.shape, "M8[s]"),
        lambda: np.full(array.shape, np.nan, np.float32),
        lambda: np.full(array.shape, 10**6),
        lambda: np.full(array.shape, -1e30, np.float32),
        lambda: np.full(array.shape, True),
    ]
    rest = {each: value for each, value in arrays.items() if each != name}
    return rest | draw(st.sampled_from([{}, *({name: change()} for change in changes)]))
