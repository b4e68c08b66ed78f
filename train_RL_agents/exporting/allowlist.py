"""Exported files may be from elsewhere: those that could do more than compute are not loaded.

PyTorch evaluates texts in a ``torch.export`` program as Python and loads machine code that comes
with it, and TorchScript can write files. What ``marinenav export`` writes needs none of this.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from marinenav_env.support.validation import ConfigError
from train_RL_agents.utils.arrays import calls_builtins, require_archive

_LARGEST = 512 * 2**20
"""Bytes that an exported file may have, also unpacked."""
_ENTRY = re.compile(
    r"[^/]+/(models/\w+\.json|data/(weights|constants|sample_inputs)/"
    r"(?!\w*_obj)\w+(\.json|\.pt)?|(\.data/)?\w+)"
)
"""Entries of a program: the graph, tensors and versions."""
_SCRIPT_ENTRY = re.compile(
    r"[^/]+/(code/[\w/.]+\.py(\.debug_pkl)?|(data|constants|traced_inputs)"
    r"(\.pkl|/\w+)|(\.data/)?\w+|\.\w+)"
)
"""Entries of TorchScript: code, tensors and versions."""
_OPERATOR = re.compile(r"(torch\.ops\.aten|_operator)\.(?!from_file|save)[\w.]+")
_SIZE = re.compile(
    r"(Symbol|Integer|Add|Mul|FloorDiv|Mod|Max|Min|positive|nonnegative|integer|"
    r"True|False|'\w+'|[\d(),= -])*"
)
_SIDE = r"(L\['\w+'\]\[\d+\]\.size\(\)\[\d+\]|\d+)"
_GUARD = re.compile(rf"{_SIDE} (==|!=|<=|>=|<|>) {_SIDE}")
_TYPES = (None, "builtins.tuple", "builtins.list", "builtins.dict")


def _plain(text: str) -> bool:
    """Return whether inputs or outputs are only tuples, lists and dictionaries; others are imported."""

    def look(part: dict[str, Any]) -> dict[str, Any]:
        if "__enum__" in part or part.get("type") not in _TYPES:
            raise ValueError
        if isinstance(context := part.get("context"), str):
            json.loads(context, object_hook=look)  # PyTorch reads it likewise
        return part

    json.loads(text, object_hook=look)
    return True


_FIELDS: dict[str, Callable[[str], Any]] = {
    "target": _OPERATOR.fullmatch,
    "expr_str": _SIZE.fullmatch,
    "guards_code": lambda text: all(map(_GUARD.fullmatch, text)),
    "in_spec": _plain,
    "out_spec": _plain,
    "as_operator": lambda _: False,
}
"""What PyTorch looks up, imports or evaluates, and whether that is only arithmetic."""
_ACTS = re.compile(rb"\b(save|from_file|classes|while|for|__setstate__)\b|\bops\.(?!prim\b)")
"""What reaches beyond tensors in TorchScript, runs while it is loaded, or might not end."""


def program(path: Path) -> io.BytesIO:
    """Return the content of a ``torch.export`` program that only computes.

    Raises:
        ConfigError: when it could do more, or cannot be read.
    """

    def allowed(part: dict[str, Any]) -> dict[str, Any]:
        if not all(fine(part[key]) for key, fine in _FIELDS.items() if part.get(key)):
            raise ValueError
        return part

    def harmless(name: str, content: bytes) -> bool:
        if name.endswith(".json"):
            json.loads(content, object_hook=allowed)
        elif calls_builtins(content):
            return False
        return bool(_ENTRY.fullmatch(name))

    return _content(path, harmless)


def script(path: Path) -> io.BytesIO:
    """Return the content of a TorchScript file that only computes; see program."""

    def harmless(name: str, content: bytes) -> bool:
        code = name.endswith((".py", ".pkl"))
        return bool(_SCRIPT_ENTRY.fullmatch(name)) and not (code and _ACTS.search(content))

    return _content(path, harmless)


def _content(path: Path, harmless: Callable[[str, bytes], bool]) -> io.BytesIO:
    """Return an archive of the entries that were looked at, so that nothing else is loaded.

    Args:
        path: the file.
        harmless: says so of the name and content of an entry, or raises.

    Raises:
        ConfigError: see program.
    """
    require_archive(path, "an exported file", _LARGEST)
    copy = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as given, zipfile.ZipFile(copy, "w") as taken:
            for entry in given.infolist():
                content = given.read(entry)
                # PyTorch finds entries whatever the case of their names.
                if not harmless(entry.filename.lower(), content):
                    raise ValueError
                taken.writestr(entry.filename, content)
    except Exception as error:  # damaged bytes can lead anywhere
        text = "damaged, or does more than compute, and is not loaded"
        raise ConfigError(f"{path}: {text}") from error
    copy.seek(0)
    return copy
