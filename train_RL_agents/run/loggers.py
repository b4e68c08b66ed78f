"""Loggers in addition to TensorBoard: those of torchrl.record.loggers, offline by default.

They are created from the run folder and the env-steps of the checkpoint from which the run is resumed (-1 for a new
run). A resumed run appends to the same files, or to the run of the same id.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torchrl.record.loggers.common import Logger
from torchrl.record.loggers.csv import CSVLogger
from torchrl.record.loggers.wandb import WandbLogger

from marinenav_env.support import plugins
from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import read_text
from marinenav_env.support.validation import require
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.tensorboard import TensorBoard
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import write_atomically

LoggerFactory = Callable[[Path, int], Any]
"""Function of the run folder and the env-steps at which the run is resumed (or -1) that returns a logger of torchrl."""
PROJECT_NAME = "marinenav"


class TorchRLLogger:
    """Logger that passes scalars and settings of a run to a logger of torchrl.

    If the logger fails, which logging services may do at any time, it is dropped with a warning and training continues.
    """

    def __init__(self, name: str, make: Callable[[], Any], settings: dict[str, Any]) -> None:
        self._name = name
        self._logger: Any = None
        with self._guarded():
            self._logger = make()
            self._logger.log_hparams(settings)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Drop the logger with a warning if it fails in this context."""
        try:
            yield
        except Exception as error:
            self._logger = None
            text = "the logger %s failed and is left out from now on (%s)"
            logging.getLogger(__name__).warning(text, self._name, first_line(error))

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """Log scalars unless the logger has failed."""
        if self._logger is not None:
            with self._guarded():
                self._logger.log_metrics(scalars, step=env_steps)

    def flush(self) -> None:
        """Do nothing, as loggers of torchrl write at once."""

    def close(self) -> None:
        """Close the logger unless it has failed."""
        if hasattr(self._logger, "close"):  # loggers of torchrl 0.13 have no close
            with self._guarded():
                self._logger.close()


RunLogger = TensorBoard | TorchRLLogger


def _make_csv(path: Path, resumed_at: int) -> Any:
    """Return a logger that writes a file for every scalar, with lines ``env_steps,value``."""
    for file in (path / "csv" / "scalars").rglob("*.csv"):
        lines = read_text(file, "a table of scalars").splitlines(keepends=True)
        # A resumed run repeats the steps after its checkpoint; the last line of a killed run may be incomplete.
        kept = [line for line in lines if line.endswith("\n") and int(line.partition(",")[0]) <= resumed_at]
        write_atomically(file, "".join(kept), replace_input=True)
    return CSVLogger("csv", str(path))


def _make_wandb(path: Path, resumed_at: int) -> Any:
    """Return a run of Weights & Biases, offline unless WANDB_MODE says otherwise."""
    wandb = import_optional("wandb", "wandb")
    offline = os.environ.get("WANDB_MODE", "offline") in ("offline", "dryrun")

    class Run(WandbLogger):
        def close(self, timeout: float | None = None) -> None:
            self.experiment.finish()

    file = path / "wandb_run_id"
    if not file.exists():
        write_atomically(file, secrets.token_hex(8), replace_input=True)
    return Run(
        f"{path.parent.name}/{path.name}",
        offline=offline,
        save_dir=str(path),
        id=read_text(file, "the name of a run"),
        project=os.environ.get("WANDB_PROJECT", PROJECT_NAME),
        log_env_packages=False,
        # The progress display belongs to this program.
        settings=wandb.Settings(console="off", silent=offline),
    )


_FACTORIES: dict[str, LoggerFactory] = {"csv": _make_csv, "wandb": _make_wandb}


def _find_factory(name: str) -> LoggerFactory:
    """Return the function that makes the logger of a name: a shipped one, or a class ``package.module:Class``."""
    if name in _FACTORIES:
        return _FACTORIES[name]
    logger_class = plugins.resolve(plugins.LOGGERS, name)
    is_logger = isinstance(logger_class, type) and issubclass(logger_class, Logger)
    require(is_logger, "loggers", name, "a class derived from torchrl.record.loggers.Logger")
    return lambda path, resumed_at: logger_class(exp_name=path.name, log_dir=str(path))


def check_loggers(names: Sequence[str]) -> None:
    """Check that loggers can be created."""
    for name in names:
        if name == "wandb":
            import_optional(name, name)
        elif name != "tensorboard":
            _find_factory(name)


def open_loggers(path: Path, config: TrainConfig[Any], resumed_at: int, heading: Sequence[str]) -> list[RunLogger]:
    """Return the loggers that ``config.loggers`` names, in this order."""
    settings = flatten(to_dict(config))

    def open_logger(name: str) -> RunLogger:
        if name == "tensorboard":
            return TensorBoard(path, config, resumed_at, heading)
        return TorchRLLogger(name, partial(_find_factory(name), path, resumed_at), settings)

    return [open_logger(name) for name in config.loggers]
