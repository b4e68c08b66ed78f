"""Loading of exported files: one function per format, which rejects harmful files."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import open_regular
from train_RL_agents.exporting import allowlist, torchscript
from train_RL_agents.exporting.torchscript import Tensors, as_tuple
from train_RL_agents.utils.arrays import MAX_FILE_SIZE

Call = Callable[..., Tensors]
_FATAL = 4
"""Lowest severity of the messages that ONNX Runtime prints (fatal errors)."""
_KINDS = {"tensor(float)": torch.float32}
"""Dtypes by ONNX Runtime's names, for inputs that are not float64."""
_FORCED = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load(path: Path, entries: int) -> Call:
    """Return the network in an exported file as a function of separate inputs.

    Args:
        path: file, whose suffix determines the format.
        entries: number of inputs that are entries of the observation.

    Raises:
        ConfigError: when the file cannot be read, or could do more than compute.
    """
    open_regular(path, "an exported file", MAX_FILE_SIZE).close()
    with _without_pickle():
        return LOADERS[path.suffix](path, entries)


@contextmanager
def _without_pickle() -> Iterator[None]:
    """Prevent torch from reading pickled objects, which ``torch.export.load`` does by default."""
    before = os.environ.get(_FORCED)
    os.environ[_FORCED] = "1"
    try:
        yield
    finally:
        del os.environ[_FORCED]
        if before is not None:
            os.environ[_FORCED] = before


@contextmanager
def suppress_warnings(name: str) -> Iterator[None]:
    """Suppress all warnings, and all messages of the named logger except errors, in this context."""
    log = logging.getLogger(name)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)


def _program(path: Path, entries: int) -> Call:
    content = allowlist.program(path)
    with suppress_warnings("torch.export"):
        module = torch.export.load(content).module()
    return lambda *inputs: as_tuple(module(*inputs))


def _onnx(path: Path, entries: int) -> Call:
    onnxruntime = import_optional("onnxruntime", "export")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL  # errors are also raised
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # every thread needs memory
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    kinds = {node.name: _KINDS.get(node.type, torch.float64) for node in session.get_inputs()}

    def call(*inputs: Tensor) -> Tensors:
        feed = {name: tensor.to(kinds[name]).numpy() for name, tensor in zip(kinds, inputs, strict=True)}
        outputs = (torch.from_numpy(output) for output in session.run(None, feed))
        return tuple(output.double() if output.is_floating_point() else output for output in outputs)

    return call


LOADERS: dict[str, Callable[[Path, int], Call]] = {
    ".pt": torchscript.load,
    ".pt2": _program,
    ".onnx": _onnx,
}
"""Loading functions by the suffix of a file."""
