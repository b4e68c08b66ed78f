"""run.log: what the terminal showed, warnings, and the sentence that ended a run."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import open_without_links


class RunLog(logging.Handler):
    """Adds lines to a file; as a handler of ``logging``, those of libraries too.

    Args:
        path: the file; made if it is not there, never followed if it is a link.

    Raises:
        ConfigError: when it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(logging.WARNING)
        descriptor = open_without_links(path, os.O_WRONLY | os.O_APPEND)
        self._file = os.fdopen(descriptor, "a", encoding="utf-8", errors="replace")

    def add(self, line: str) -> None:
        """Add a line."""
        # On a full disk the files of the run itself are reported.
        with suppress(OSError, ValueError):
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')}  {line}\n")
            self._file.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        self.add(f"{record.levelname.lower()}: {record.getMessage()}")

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within it, warnings are added, and the error that ends it."""
        shown, root, torch = warnings.showwarning, logging.getLogger(), logging.getLogger("torch")

        def show(message: Warning | str, *where: Any, **options: Any) -> None:
            self.add(f"warning: {message}")
            shown(message, *where, **options)

        # With a handler there, logging does not fall back to the terminal any more.
        usual = [] if root.handlers or not logging.lastResort else [logging.lastResort]
        warnings.showwarning = show
        for handler in (self, *usual):
            root.addHandler(handler)
        torch.addHandler(self)  # passes nothing on to the root
        try:
            yield
        except BaseException as error:
            self.add(f"ended by {type(error).__name__}: {first_line(error)}")
            raise
        finally:
            warnings.showwarning = shown
            for handler in (self, *usual):
                root.removeHandler(handler)
            torch.removeHandler(self)

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):
            self._file.close()
        super().close()
