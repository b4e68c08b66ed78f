"""Log file of a run: output of the terminal, warnings, and the error that ended the run."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from marinenav_env.support.validation import ConfigError
from train_RL_agents.utils.errors import first_line


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
