"""Networks in files from elsewhere, each run in a process of its own with limits.

``allowlist`` refuses files that would do more than compute. What only computes may still crash its
runtime, take all memory or not end; here it ends a process that holds nothing else.
"""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import IO, Any

import psutil
import torch
from torch import Tensor

from marinenav_env.support.validation import ConfigError
from train_RL_agents.exporting.loading import load
from train_RL_agents.exporting.torchscript import Tensors
from train_RL_agents.utils.arrays import is_whole
from train_RL_agents.utils.errors import first_line

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

_SECONDS, _SECONDS_A_ROW = 10.0, 0.02
"""Processor time for loading, and more with every row; what is saved may be used later."""
_BYTES, _ROWS = 1536 * 2**20, 256
"""Memory besides that of the libraries, and rows that are computed at once."""
_THREADS = 4
"""At most, as each needs memory."""
_LARGEST_REPLY, _LENGTH = 2**28, 8
"""Bytes of a reply, and of the number before it that says how many."""
_NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""Variables of the process, so that it cannot take a GPU's memory."""


class Sandbox:
    """The network in an exported file, computed in another process; several threads may call it.

    Args:
        path: the file.
        entries: how many of the inputs are entries of the observation.

    Raises:
        ConfigError: when the file cannot be loaded, or is refused; see loading.load.
    """

    def __init__(self, path: Path, entries: int) -> None:
        self._path, self._shapes = path, list[torch.Size]()
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(path), str(entries)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | _NO_GPU,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        weakref.finalize(self, _end, self._process)
        self._reply()

    def __call__(self, *inputs: Tensor) -> Tensors:
        """Return the outputs [B, ...] for inputs [B, ...].

        Raises:
            ConfigError: when they cannot be computed within the limits, or have other sizes.
        """
        parts = zip(*(each.split(_ROWS) for each in inputs), strict=True)
        with self._lock:
            columns = zip(*[self._outputs(list(part)) for part in parts], strict=True)
        return tuple(map(torch.cat, columns))

    def _outputs(self, inputs: list[Tensor]) -> list[Tensor]:
        """Return the outputs for a part of the rows; see __call__."""
        outputs = self._reply(inputs)
        fine = all(
            is_whole(each) and not each.is_complex() and each.ndim > 0 and len(each) == len(inputs[0])
            for each in outputs
        )
        shapes = [each.shape[1:] for each in outputs] if fine else []
        self._shapes = self._shapes or shapes
        if not fine or shapes != self._shapes:
            raise ConfigError(f"{self._path}: gives outputs of other sizes than its inputs ask for")
        return outputs

    def _reply(self, question: list[Tensor] | None = None) -> list[Tensor]:
        """What the process answers.

        Raises:
            ConfigError: when it is an error, or there is none.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            if question is not None:
                _send(self._process.stdin, question)
            answer = _receive(self._process.stdout)
        except (EOFError, OSError) as error:
            raise ConfigError(f"{self._path}: cannot be run, as it {self._ending()}") from error
        except BaseException as error:
            self._process.kill()  # its next answer would be that to this question
            if not isinstance(error, Exception):
                raise
            raise ConfigError(f"{self._path}: cannot be run ({first_line(error)})") from error
        if isinstance(answer, str):
            raise ConfigError(answer)
        return list(answer)

    def _ending(self) -> str:
        """How the process ended."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "gives more than it may"
        if status < 0 and -status == getattr(signal, "SIGXCPU", None):
            return "takes too long"
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"ended the process that ran it ({name})"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and close its pipes."""
    process.kill()
    process.communicate()


def _send(stream: IO[bytes], content: list[Tensor] | str) -> None:
    """Write the length of the content, and the content."""
    file = io.BytesIO()
    torch.save(content, file)
    text = file.getvalue()
    stream.write(len(text).to_bytes(_LENGTH, "little") + text)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    """What was sent.

    Raises:
        EOFError: when the other side has ended, or sends too much.
    """
    length = int.from_bytes(stream.read(_LENGTH), "little")
    content = stream.read(length) if length <= _LARGEST_REPLY else b""
    if not content or len(content) < length:
        raise EOFError
    return torch.load(io.BytesIO(content), weights_only=True)


class _Limits:
    """What this process may use."""

    def __init__(self) -> None:
        this = psutil.Process()
        times, memory = this.cpu_times(), this.memory_info()
        self._seconds = times.user + times.system + _SECONDS
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if hasattr(memory, "data"):  # elsewhere than on Linux it limits little
                _limit(resource.RLIMIT_DATA, memory.data + _BYTES)
        self.allow(0)

    def allow(self, rows: int) -> None:
        """Allow what so many rows need."""
        self._seconds += _SECONDS_A_ROW * rows
        if resource is not None:
            _limit(resource.RLIMIT_CPU, math.ceil(self._seconds))


def _limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _reason(error: Exception) -> str:
    """One line of an error; TorchScript names the operation first, and the reason last."""
    first = first_line(error)
    return str(error).strip().splitlines()[-1] if "in the TorchScript" in first else first


def _serve(given: IO[bytes], taken: IO[bytes], path: Path, entries: int) -> None:
    """Load a file, then compute its outputs for all inputs that come.

    Raises:
        EOFError: when no more come.
    """
    torch.set_num_threads(min(torch.get_num_threads(), _THREADS))
    limits, call, inputs = _Limits(), None, []
    while True:
        content: list[Tensor] | str = []
        try:
            if call is None:
                call = load(path, entries)
            else:
                limits.allow(len(inputs[0]))
                content = [each.detach() for each in call(*inputs)]
        except ConfigError as error:
            content = str(error)
        except Exception as error:  # whatever the runtime raises
            content = f"{path}: cannot be run ({_reason(error)})"
        _send(taken, content)
        inputs = _receive(given)


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # what the runtime prints must not come between
        _serve(sys.stdin.buffer, replies, Path(sys.argv[1]), int(sys.argv[2]))
