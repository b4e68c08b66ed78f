"""Sandbox for networks in untrusted files: every network runs in a separate process with limits.

``allowlist`` rejects files that would do more than compute. Other files may still crash their runtime, take all memory
or not terminate; this then ends only a process that does nothing else.
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
from train_RL_agents.exporting.loading import load_network
from train_RL_agents.exporting.torchscript import Tensors
from train_RL_agents.utils.arrays import stores_all_elements
from train_RL_agents.utils.errors import first_line

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

_LOAD_CPU_SECONDS = 10.0
"""CPU-time limit for loading the file (s)."""
_CPU_SECONDS_PER_ROW = 0.02
"""CPU-time limit per row of the inputs (s); unused time carries over to later rows."""
_MAX_EXTRA_BYTES = 1536 * 2**20
"""Largest memory in addition to that of the libraries."""
_MAX_BATCH_ROWS = 256
"""Largest number of rows computed at once."""
_MAX_THREADS = 4
"""Largest number of threads, as every thread needs memory."""
_MAX_REPLY_BYTES = 2**28
"""Largest size of a reply of the process."""
_LENGTH_BYTES = 8
"""Size of the length that precedes the content of a message."""
_NO_GPU_VARIABLES = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""Environment variables of the process, which hide all GPUs."""


class SandboxedNetwork:
    """Network of an exported file, computed in another process; several threads may call it.

    Args:
        path: file of the network.
        num_entries: number of inputs that are entries of the observation.

    Raises:
        ConfigError: when the file cannot be loaded, or is rejected; see loading.load_network.
    """

    def __init__(self, path: Path, num_entries: int) -> None:
        self._path, self._shapes = path, list[torch.Size]()
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", __name__, str(path), str(num_entries)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | _NO_GPU_VARIABLES,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        weakref.finalize(self, _end_process, self._process)
        self._exchange()

    def __call__(self, *inputs: Tensor) -> Tensors:
        """Return the outputs [B, ...] for inputs [B, ...].

        Raises:
            ConfigError: when the outputs cannot be computed within the limits, or have unexpected sizes.
        """
        parts = zip(*(tensor.split(_MAX_BATCH_ROWS) for tensor in inputs), strict=True)
        with self._lock:
            columns = zip(*[self._outputs(list(part)) for part in parts], strict=True)
        return tuple(map(torch.cat, columns))

    def _outputs(self, inputs: list[Tensor]) -> list[Tensor]:
        """Return the outputs for at most _MAX_BATCH_ROWS rows; raise a ConfigError if their sizes are unexpected."""
        outputs = self._exchange(inputs)
        are_valid = all(
            stores_all_elements(output)
            and not output.is_complex()
            and output.ndim > 0
            and len(output) == len(inputs[0])
            for output in outputs
        )
        shapes = [output.shape[1:] for output in outputs] if are_valid else []
        self._shapes = self._shapes or shapes
        if not are_valid or shapes != self._shapes:
            raise ConfigError(f"{self._path}: gives outputs of other sizes than its inputs ask for")
        return outputs

    def _exchange(self, inputs: list[Tensor] | None = None) -> list[Tensor]:
        """Send inputs [B, ...], if any, to the process, and return the outputs that it answers with.

        Raises:
            ConfigError: when the answer is an error, or missing.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            if inputs is not None:
                _send(self._process.stdin, inputs)
            reply = _receive(self._process.stdout)
        except (EOFError, OSError) as error:
            raise ConfigError(f"{self._path}: cannot be run, as it {self._describe_end()}") from error
        except BaseException as error:
            self._process.kill()  # its next reply would be the reply to this request
            if not isinstance(error, Exception):
                raise
            raise ConfigError(f"{self._path}: cannot be run ({first_line(error)})") from error
        if isinstance(reply, str):
            raise ConfigError(reply)
        return list(reply)

    def _describe_end(self) -> str:
        """Return the end of a sentence on the process: how it ended."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return "gives more than it may"
        if status < 0 and -status == getattr(signal, "SIGXCPU", None):
            return "takes too long"
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        return f"ended the process that ran it ({name})"


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and close its pipes."""
    process.kill()
    process.communicate()


def _send(stream: IO[bytes], content: list[Tensor] | str) -> None:
    """Write the length of the content, then the content, tensors or the text of an error, to a stream."""
    file = io.BytesIO()
    torch.save(content, file)
    text = file.getvalue()
    stream.write(len(text).to_bytes(_LENGTH_BYTES, "little") + text)
    stream.flush()


def _receive(stream: IO[bytes]) -> Any:
    """Return the content that ``_send`` wrote to a stream.

    Raises:
        EOFError: when the sender has ended, or sends too much.
    """
    length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
    content = stream.read(length) if length <= _MAX_REPLY_BYTES else b""
    if not content or len(content) < length:
        raise EOFError
    return torch.load(io.BytesIO(content), weights_only=True)


class _ResourceLimits:
    """Limits of the memory and CPU time of this process; ``allow`` increases the limit of CPU time."""

    def __init__(self) -> None:
        this = psutil.Process()
        times, memory = this.cpu_times(), this.memory_info()
        self._seconds = times.user + times.system + _LOAD_CPU_SECONDS
        if resource is not None:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            if hasattr(memory, "data"):  # on other systems than Linux it limits little
                _set_limit(resource.RLIMIT_DATA, memory.data + _MAX_EXTRA_BYTES)
        self.allow(0)

    def allow(self, rows: int) -> None:
        """Increase the limit of CPU time by that for a number of rows."""
        self._seconds += _CPU_SECONDS_PER_ROW * rows
        if resource is not None:
            _set_limit(resource.RLIMIT_CPU, math.ceil(self._seconds))


def _set_limit(kind: int, most: int) -> None:
    _, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _error_line(error: Exception) -> str:
    """Return the informative line of an error; TorchScript puts it last."""
    first = first_line(error)
    return str(error).strip().splitlines()[-1] if "in the TorchScript" in first else first


def _serve(requests: IO[bytes], replies: IO[bytes], path: Path, num_entries: int) -> None:
    """Load a file, then compute its outputs for all inputs that arrive.

    Raises:
        EOFError: when there are no more inputs.
    """
    torch.set_num_threads(min(torch.get_num_threads(), _MAX_THREADS))
    limits, call, inputs = _ResourceLimits(), None, []
    while True:
        content: list[Tensor] | str = []
        try:
            if call is None:
                call = load_network(path, num_entries)
            else:
                limits.allow(len(inputs[0]))
                content = [output.detach() for output in call(*inputs)]
        except ConfigError as error:
            content = str(error)
        except Exception as error:  # whatever the runtime raises
            content = f"{path}: cannot be run ({_error_line(error)})"
        _send(replies, content)
        inputs = _receive(requests)


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)  # output of the runtime must not mix with replies
        _serve(sys.stdin.buffer, replies, Path(sys.argv[1]), int(sys.argv[2]))
