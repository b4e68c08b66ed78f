"""Allowlist for exported files from untrusted sources: files that could do more than compute are not loaded.

PyTorch evaluates strings of a ``torch.export`` program as Python and loads machine code inside it, and TorchScript can
write files. Files of ``marinenav export`` need none of this.
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
from train_RL_agents.utils.arrays import may_call_builtins, require_archive

_MAX_FILE_BYTES = 512 * 2**20
"""Largest size of an exported file, both packed and unpacked."""
_PROGRAM_ENTRY = re.compile(
    r"[^/]+/(models/\w+\.json|data/(weights|constants|sample_inputs)/"
    r"(?!\w*_obj)\w+(\.json|\.pt)?|(\.data/)?\w+)"
)
"""Pattern of the names of allowed entries of a ``torch.export`` program: the graph, tensors and versions."""
_SCRIPT_ENTRY = re.compile(
    r"[^/]+/(code/[\w/.]+\.py(\.debug_pkl)?|(data|constants|traced_inputs)"
    r"(\.pkl|/\w+)|(\.data/)?\w+|\.\w+)"
)
"""Pattern of the names of allowed entries of a TorchScript file: code, tensors and versions."""
_ALLOWED_OPERATOR = re.compile(r"(torch\.ops\.aten|_operator)\.(?!from_file|save)[\w.]+")
_SIZE_EXPRESSION = re.compile(
    r"(Symbol|Integer|Add|Mul|FloorDiv|Mod|Max|Min|positive|nonnegative|integer|"
    r"True|False|'\w+'|[\d(),= -])*"
)
_GUARD_SIDE = r"(L\['\w+'\]\[\d+\]\.size\(\)\[\d+\]|\d+)"
_GUARD = re.compile(rf"{_GUARD_SIDE} (==|!=|<=|>=|<|>) {_GUARD_SIDE}")
_CONTAINER_TYPES = (None, "builtins.tuple", "builtins.list", "builtins.dict")


def _has_plain_containers(text: str) -> bool:
    """Return True if the JSON text of a pytree spec has only tuples, lists and dicts; else raise a ValueError.

    PyTorch would import the modules of other containers.
    """

    def check_node(part: dict[str, Any]) -> dict[str, Any]:
        if "__enum__" in part or part.get("type") not in _CONTAINER_TYPES:
            raise ValueError
        if isinstance(context := part.get("context"), str):
            json.loads(context, object_hook=check_node)  # PyTorch also parses it
        return part

    json.loads(text, object_hook=check_node)
    return True


_FIELD_PREDICATES: dict[str, Callable[[str], Any]] = {
    "target": _ALLOWED_OPERATOR.fullmatch,
    "expr_str": _SIZE_EXPRESSION.fullmatch,
    "guards_code": lambda text: all(map(_GUARD.fullmatch, text)),
    "in_spec": _has_plain_containers,
    "out_spec": _has_plain_containers,
    "as_operator": lambda _: False,
}
"""Predicates by the name of a field that PyTorch looks up, imports or evaluates, true if a text is arithmetic."""
_FORBIDDEN_CODE = re.compile(rb"\b(save|from_file|classes|while|for|__setstate__)\b|\bops\.(?!prim\b)")
"""Pattern of TorchScript code that accesses more than tensors, runs while it is loaded, or might not terminate.

Networks and variables of these names are refused, too, as a method of a tensor cannot be told from them.
"""
_REFUSAL = "damaged, or does more than compute, and is not loaded"


def read_program(path: Path) -> io.BytesIO:
    """Return the content of a ``torch.export`` program after checking that it only computes.

    Raises:
        ConfigError: when the program could do more than compute, or cannot be read.
    """

    def check_fields(part: dict[str, Any]) -> dict[str, Any]:
        if not all(is_allowed(part[key]) for key, is_allowed in _FIELD_PREDICATES.items() if part.get(key)):
            raise ValueError
        return part

    def is_harmless(name: str, content: bytes) -> bool:
        if name.endswith(".json"):
            json.loads(content, object_hook=check_fields)
        elif may_call_builtins(content):
            return False
        return bool(_PROGRAM_ENTRY.fullmatch(name))

    return _read_checked(path, is_harmless)


def read_script(path: Path) -> io.BytesIO:
    """Return the content of a TorchScript file after checking that it only computes; raise a ConfigError otherwise."""

    def is_harmless(name: str, content: bytes) -> bool:
        found = _FORBIDDEN_CODE.search(content) if name.endswith((".py", ".pkl")) else None
        if found is not None:
            word = found.group().decode()
            raise ConfigError(f"{path}: {_REFUSAL}: its code may not have the word {word}, not even as a name")
        return bool(_SCRIPT_ENTRY.fullmatch(name))

    return _read_checked(path, is_harmless)


def _read_checked(path: Path, is_harmless: Callable[[str, bytes], bool]) -> io.BytesIO:
    """Return a copy of a ZIP archive with all its entries checked, so that nothing else is loaded.

    Args:
        path: archive to read.
        is_harmless: predicate of the name and the content of an entry, which may also raise if it is not harmless.

    Raises:
        ConfigError: when an entry is not harmless, or the file cannot be read.
    """
    require_archive(path, "an exported file", _MAX_FILE_BYTES)
    copy = io.BytesIO()
    try:
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(copy, "w") as target:
            for entry in source.infolist():
                content = source.read(entry)
                # PyTorch ignores the case of the names of entries.
                if not is_harmless(entry.filename.lower(), content):
                    raise ValueError
                target.writestr(entry.filename, content)
    except ConfigError:
        raise
    except Exception as error:  # damaged bytes may raise any error
        raise ConfigError(f"{path}: {_REFUSAL}") from error
    copy.seek(0)
    return copy
