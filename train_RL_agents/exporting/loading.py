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

NetworkFunction = Callable[..., Tensors]
"""Function from the inputs [B, ...] of a network, as separate tensors in their order, to its outputs [B, ...]."""
_FATAL_SEVERITY = 4
"""Lowest severity of the messages that ONNX Runtime prints (fatal errors)."""
_DTYPES_BY_ONNX_TYPE = {"tensor(float)": torch.float32}
"""Dtypes of inputs that are not float64, by ONNX Runtime's name of their type."""
_WEIGHTS_ONLY_VARIABLE = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


def load_network(path: Path, num_entries: int) -> NetworkFunction:
    """Return the network in an exported file as a function of separate inputs [B, ...].

    Args:
        path: file, whose suffix determines the format.
        num_entries: number of inputs that are entries of the observation.

    Raises:
        ConfigError: when the file cannot be read, or could do more than compute.
    """
    open_regular(path, "an exported file", MAX_FILE_SIZE).close()
    with _without_pickle():
        return LOADERS[path.suffix](path, num_entries)


@contextmanager
def _without_pickle() -> Iterator[None]:
    """Prevent torch from reading pickled objects, which ``torch.export.load`` does by default."""
    before = os.environ.get(_WEIGHTS_ONLY_VARIABLE)
    os.environ[_WEIGHTS_ONLY_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[_WEIGHTS_ONLY_VARIABLE]
        if before is not None:
            os.environ[_WEIGHTS_ONLY_VARIABLE] = before


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


def _load_program(path: Path, num_entries: int) -> NetworkFunction:
    content = allowlist.read_program(path)
    with suppress_warnings("torch.export"):
        module = torch.export.load(content).module()
    return lambda *inputs: as_tuple(module(*inputs))


def _load_onnx(path: Path, num_entries: int) -> NetworkFunction:
    onnxruntime = import_optional("onnxruntime", "export")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_SEVERITY  # errors are also raised
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # every thread needs memory
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    dtypes = {node.name: _DTYPES_BY_ONNX_TYPE.get(node.type, torch.float64) for node in session.get_inputs()}

    def call(*inputs: Tensor) -> Tensors:
        feed = {name: tensor.to(dtypes[name]).numpy() for name, tensor in zip(dtypes, inputs, strict=True)}
        outputs = (torch.from_numpy(output) for output in session.run(None, feed))
        return tuple(output.double() if output.is_floating_point() else output for output in outputs)

    return call


LOADERS: dict[str, Callable[[Path, int], NetworkFunction]] = {
    ".pt": torchscript.load,
    ".pt2": _load_program,
    ".onnx": _load_onnx,
}
"""Functions by the suffix of a file, from its path and the number of entries of the observation to its network."""
