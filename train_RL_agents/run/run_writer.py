"""The writer of a run: the lock of its folder, run.log and the loggers."""

from __future__ import annotations

import logging
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from marinenav_env.support.files import TEMPORARY_SUFFIX
from marinenav_env.support.validation import ConfigError
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.checkpoint import CHECKPOINTS_FOLDER, read_manifest
from train_RL_agents.run.loggers import RunLogger, check_loggers, open_loggers
from train_RL_agents.utils.errors import first_line

LOCK_FILE = "run.lock"
LOG_FILE = "run.log"


class RunLog(logging.Handler):
    """Handler of ``logging`` that writes lines of this program and of libraries to a file."""

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        self._path = path.absolute()
        try:
            self._write("")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror})") from error

    def _write(self, text: str) -> None:
        # Opened for each of the few lines: a run that nobody closes holds no file.
        with self._path.open("a", encoding="utf-8", errors="replace") as file:
            file.write(text)

    def add(self, line: str) -> None:
        """Add a line with the current time to the file."""
        # On a full disk the other files of the run raise an error that is reported.
        with suppress(OSError):
            self._write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")

    def emit(self, record: logging.LogRecord) -> None:
        """Add a record of ``logging`` as a line."""
        self.add(f"{record.levelname.lower()}: {record.getMessage()}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Add the warnings raised in this context, and the error that ends it, to the file."""
        showwarning, root, torch = warnings.showwarning, logging.getLogger(), logging.getLogger("torch")

        def show(message: Warning | str, *where: Any, **options: Any) -> None:
            self.add(f"warning: {message}")
            showwarning(message, *where, **options)

        # Once the root has a handler, logging no longer prints warnings on the terminal.
        fallback = [] if root.handlers or not logging.lastResort else [logging.lastResort]
        warnings.showwarning = show
        for handler in (self, *fallback):
            root.addHandler(handler)
        torch.addHandler(self)  # the logger of torch does not pass records on to the root
        try:
            yield
        except BaseException as error:
            self.add(f"ended by {type(error).__name__}: {first_line(error)}")
            raise
        finally:
            warnings.showwarning = showwarning
            for handler in (self, *fallback):
                root.removeHandler(handler)
            torch.removeHandler(self)


class RunWriter:
    """Writer of the run in a folder, which has one at a time."""

    def __init__(self, path: Path, config: TrainConfig[Any]) -> None:
        self._path, self.config = path, config
        self.resumed_at = -1
        """Env-steps of the checkpoint that the run is resumed from; -1 for a new run."""
        self.heading: list[str] = []
        """Lines that the terminal showed before the run began, which its logs repeat."""
        self._loggers: list[RunLogger] | None = None
        self._lock: BaseFileLock | None = None
        self._log: RunLog | None = None

    def begin(self) -> None:
        """Lock the folder for this process, remove incomplete files of a killed process, and open run.log."""
        check_loggers(self.config.loggers)
        read_manifest(self._path / CHECKPOINTS_FOLDER)  # fails now if it is damaged, not at the first policy
        self._lock = acquire_lock(self._path, LOCK_FILE)
        for folder in (self._path, self._path / CHECKPOINTS_FOLDER):
            for file in folder.glob(f".*{TEMPORARY_SUFFIX}"):
                with suppress(OSError):
                    file.unlink()
        self._log = RunLog(self._path / LOG_FILE)
        for line in self.heading:
            self.write_log_line(line)

    def write_log_line(self, line: str) -> None:
        """Add a line to run.log, if this process writes the run."""
        if self._log is not None:
            self._log.add(line)

    @contextmanager
    def writing(self, ends: bool) -> Iterator[None]:
        """Log warnings and errors of this context to run.log, and release the folder on an error."""
        try:
            with self._log.watching() if self._log is not None else nullcontext():
                yield
        except BaseException:
            self.release()
            raise
        if ends:
            self.release()

    def release(self) -> None:
        """Unlock the folder, and close its loggers."""
        with suppress(ConfigError):  # an error of the run itself is reported instead
            self.close()
        if self._lock is not None:
            self._lock.release()
        self._log = self._lock = None

    def _call_loggers(self, call: Callable[[RunLogger], None]) -> None:
        """Call a function with each logger, after opening the loggers if they are closed."""
        try:
            if self._loggers is None:
                threading.excepthook = _report_thread_error
                self._loggers = open_loggers(self._path, self.config, self.resumed_at, self.heading)
            for logger in self._loggers:
                call(logger)
        except OSError as error:
            raise ConfigError(f"{self._path}: events for TensorBoard cannot be written ({error})") from error

    def log(self, scalars: dict[str, float | None], env_steps: int) -> None:
        """Log the scalars that are finite, with env-steps as the x axis."""
        finite = {name: value for name, value in scalars.items() if value is not None and math.isfinite(value)}
        self._call_loggers(lambda logger: logger.log(finite, env_steps))

    def flush(self) -> None:
        """Write all log entries to the disk."""
        if self._loggers is not None:
            self._call_loggers(lambda logger: logger.flush())

    def close(self) -> None:
        """Close the loggers; the next entry opens them again."""
        if self._loggers is not None:
            try:
                self._call_loggers(lambda logger: logger.close())
            finally:
                self._loggers = None


def _report_thread_error(error: threading.ExceptHookArgs) -> None:
    """Report an error of a thread, except for TensorBoard's writer, whose error the next entry reports."""
    writer = type(error.thread).__module__.startswith("tensorboard.")
    if not (writer and issubclass(error.exc_type, OSError)):
        threading.__excepthook__(error)


def acquire_lock(folder: Path, name: str) -> BaseFileLock:
    """Acquire the lock of a folder; it ends with this process or when it is released."""
    path = folder / name
    # One lock for all objects of this process, so that a run can be opened again where it was not closed.
    lock = FileLock(path, timeout=0, is_singleton=True, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigError(f"{folder}: another process uses it; wait until it ends") from None
    except (OSError, NotImplementedError) as error:
        raise ConfigError(f"{path}: cannot be locked ({error})") from error
    return lock
