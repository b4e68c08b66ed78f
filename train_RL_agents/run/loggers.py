"""Loggers beside TensorBoard: those of torchrl.record.loggers, offline unless told otherwise.

Each is made from the run folder, and from the env-steps of the checkpoint that the run is resumed
from (-1 for a new run). A resumed run adds to the same files, or to the run of the same id.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torchrl.record.loggers.common import Logger
from torchrl.record.loggers.csv import CSVLogger
from torchrl.record.loggers.wandb import WandbLogger

from marinenav_env.support import plugins
from marinenav_env.support.extras import need
from marinenav_env.support.files import read_text
from marinenav_env.support.validation import require
from train_RL_agents.config.reading import flatten, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.logger import RunLogger
from train_RL_agents.run.tensorboard import TensorBoard
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import changed_in_place, inside, sqlite_url, write_atomically

Make = Callable[[Path, int], Any]
"""Makes a logger of torchrl's."""
PROJECT = "marinenav"
_PARAMETERS = 100
"""That MLflow takes at a time."""


class TorchRLLogger(RunLogger):
    """Scalars and settings of a run in a logger of torchrl's.

    A service may fail at any time: then a warning says so, and training continues without it.

    Args:
        name: of the logger, for the warning.
        make: makes it.
        settings: of the run, by dotted key.
    """

    def __init__(self, name: str, make: Callable[[], Any], settings: dict[str, Any]) -> None:
        self._name = name
        self._logger: Any = None
        with self._guarded():
            self._logger = make()
            self._logger.log_hparams(settings)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._logger = None
            text = "the logger %s failed and is left out from now on (%s)"
            logging.getLogger(__name__).warning(text, self._name, first_line(error))

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """See RunLogger."""
        if self._logger is not None:
            with self._guarded():
                self._logger.log_metrics(scalars, step=env_steps)

    def close(self) -> None:
        """See RunLogger."""
        if hasattr(self._logger, "close"):  # torchrl 0.13 has none
            with self._guarded():
                self._logger.close()


def _csv(path: Path, resumed_at: int) -> Any:
    """A file for each scalar, with lines ``env_steps,value``."""
    folder = inside(path, "csv")
    for each in folder.rglob("*"):
        changed_in_place(folder, str(each.relative_to(folder)))
    for file in (folder / "scalars").rglob("*.csv"):
        lines = read_text(file, "a table of scalars").splitlines(keepends=True)
        # A resumed run repeats what came after its checkpoint; a killed one cuts its last line.
        kept = [line for line in lines if line.endswith("\n") and int(line.partition(",")[0]) <= resumed_at]
        write_atomically(file, "".join(kept), own=True)
    return CSVLogger("csv", str(path))


def _wandb(path: Path, resumed_at: int) -> Any:
    """A run of Weights & Biases, offline unless WANDB_MODE says otherwise."""
    wandb = need("wandb", "wandb")
    offline = os.environ.get("WANDB_MODE", "offline") in ("offline", "dryrun")

    class Run(WandbLogger):
        def close(self, timeout: float | None = None) -> None:
            self.experiment.finish()

    file = inside(path, "wandb_run_id")
    inside(path, "wandb")  # refused if it is a link that leads elsewhere
    if not file.exists():
        write_atomically(file, secrets.token_hex(8), own=True)
    return Run(
        f"{path.parent.name}/{path.name}",
        offline=offline,
        save_dir=str(path),
        id=read_text(file, "the name of a run"),
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        log_env_packages=False,
        # The display of progress is this program's.
        settings=wandb.Settings(console="off", silent=offline),
    )


class _MLflow:
    """A run of MLflow, with the methods that TorchRLLogger calls.

    MLFlowLogger of torchrl cannot go on with a run, and logs settings only with another package.

    Args:
        mlflow: the package; it writes to its active run.
        known: settings that the run has, which MLflow does not let change.
    """

    def __init__(self, mlflow: Any, known: Container[str]) -> None:
        self._mlflow, self._known = mlflow, known

    def log_hparams(self, settings: dict[str, Any]) -> None:
        new = [each for each in settings.items() if each[0] not in self._known]
        for first in range(0, len(new), _PARAMETERS):
            self._mlflow.log_params(dict(new[first : first + _PARAMETERS]))

    def log_metrics(self, scalars: dict[str, float], step: int) -> None:
        self._mlflow.log_metrics(scalars, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


def _mlflow(path: Path, resumed_at: int) -> _MLflow:
    """A run of MLflow, in a file of the run folder unless MLFLOW_TRACKING_URI says otherwise."""
    mlflow, file = need("mlflow", "mlflow"), inside(path, "mlflow_run_id")
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    store = sqlite_url(changed_in_place(path, "mlflow.db"))
    mlflow.set_tracking_uri(os.environ.get("MLFLOW_TRACKING_URI", store))
    if file.exists():
        run = mlflow.start_run(read_text(file, "the name of a run"))
    else:
        known = mlflow.get_experiment_by_name(PROJECT)
        number = known.experiment_id if known else mlflow.create_experiment(PROJECT)
        run = mlflow.start_run(experiment_id=number)
        write_atomically(file, run.info.run_id, own=True)
    mlflow.set_tag("mlflow.runName", f"{path.parent.name}/{path.name}")
    return _MLflow(mlflow, run.data.params)


_MAKERS: dict[str, Make] = {"csv": _csv, "wandb": _wandb, "mlflow": _mlflow}
_EXTRAS = ("wandb", "mlflow")
"""Loggers that need a package, and an extra, of the same name."""


def _maker(name: str) -> Make:
    """What makes a logger.

    Raises:
        ConfigError: when it is a user's and cannot be used.
    """
    if name in _MAKERS:
        return _MAKERS[name]
    found = plugins.resolve(plugins.LOGGERS, name)
    fine = isinstance(found, type) and issubclass(found, Logger)
    require(fine, "loggers", name, "a class derived from torchrl.record.loggers.Logger")
    return lambda path, resumed_at: found(exp_name=path.name, log_dir=str(path))


def check_loggers(names: Sequence[str]) -> None:
    """Check that loggers can be made.

    Raises:
        ConfigError: when a package is missing, or a logger of the user's cannot be used.
    """
    for name in names:
        if name in _EXTRAS:
            need(name, name)
        elif name != "tensorboard":
            _maker(name)


def open_loggers(path: Path, config: TrainConfig[Any], resumed_at: int, heading: Sequence[str]) -> list[RunLogger]:
    """The loggers of a run; see TensorBoard."""
    settings = flatten(to_dict(config))

    def opened(name: str) -> RunLogger:
        if name == "tensorboard":
            return TensorBoard(path, config, resumed_at, heading)
        return TorchRLLogger(name, partial(_maker(name), path, resumed_at), settings)

    return [opened(name) for name in config.loggers]
