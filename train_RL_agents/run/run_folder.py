"""The folder of a run: configuration, versions, evaluations, checkpoints, logs."""

from __future__ import annotations

import io
import itertools
import json
import math
import re
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import BaseFileLock
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import require_compatible_teacher
from train_RL_agents.config.reading import restore_config, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.results.table import Table
from train_RL_agents.run import lock
from train_RL_agents.run.checkpoint import (
    CHECKPOINTS_FOLDER,
    NOT_EVALUATED_NOTE,
    STOPPED_POLICY_FILE,
    TEACHER_FILE,
    find_run,
    load_policy,
    read_manifest,
    save_policy,
)
from train_RL_agents.run.finding import CONFIG_FILE, MANIFEST_FILE, VERSIONS_FILE
from train_RL_agents.run.loggers import check_loggers, open_loggers
from train_RL_agents.run.run_log import RunLog
from train_RL_agents.run.tags import result_scalars
from train_RL_agents.run.tensorboard import RunLogger
from train_RL_agents.utils.files import TEMPORARY_SUFFIX, read_json, write_atomically
from train_RL_agents.utils.provenance import git_revision, software_versions

LOCK_FILE = "run.lock"
"""Name of the file that is locked while a process writes to the run folder."""
LOG_FILE = "run.log"
"""Name of the file with the output of the terminal, warnings and errors."""


def _make_folder(path: Path) -> None:
    """Make a new folder and its missing parents.

    Raises:
        FileExistsError: when the folder exists.
        ConfigError: when the folder cannot be made.
    """
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        raise
    except OSError as error:
        raise ConfigError(f"{path}: the run folder cannot be made ({error})") from error


class RunFolder:
    """The folder of one run, SAVE_DIR/AGENT_TIME/seed_N."""

    def __init__(self, path: Path, config: TrainConfig[Any], seed: int) -> None:
        self.path, self.config, self.seed = path, config, seed
        self.checkpoints = path / CHECKPOINTS_FOLDER
        self.resumed_at = -1
        """Env-steps of the checkpoint that the run is resumed from; -1 for a new run."""
        self.heading: list[str] = []
        """Lines that the terminal showed before the run began, which its logs repeat."""
        self._written_config: dict[str, Any] | None = None
        self._loggers: list[RunLogger] | None = None
        self._lock: BaseFileLock | None = None
        self._log: RunLog | None = None

    @staticmethod
    def make_parent(config: TrainConfig[Any]) -> Path:
        """Make a new training folder, named after agent and time, for the runs of one command."""
        agent = re.sub(r"[^\w.-]", "_", config.agent_type.rpartition(":")[2])
        name = f"{agent}_{time.strftime('%Y-%m-%d-%H-%M-%S')}"
        named = path = Path(config.save_dir) / name
        for count in itertools.count(2):
            # Trying to make it is atomic: another command may start within the same second.
            with suppress(FileExistsError):
                _make_folder(path)
                break
            path = named.with_name(f"{named.name}_{count}")
        return path

    @classmethod
    def create(
        cls, config: TrainConfig[Any], seed: int, argv: Sequence[str] = (), parent: Path | None = None
    ) -> RunFolder:
        """Make the folder of a new run.

        Args:
            config: configuration of the run.
            seed: seed of the run.
            argv: command-line arguments to save; by default the arguments of this process.
            parent: training folder shared by the seeds of one command; by default a new one in
                ``config.save_dir``, see make_parent.

        Raises:
            ConfigError: when the run's folder exists already or cannot be made, the initial weights do not exist, or
                the teacher does not fit.
        """
        if config.load_model:
            load_policy(config.load_model)  # checked once here, before the process of every seed would refuse it
        teacher = b""
        if config.teacher:
            loaded = load_policy(config.teacher)
            require_compatible_teacher(config, loaded.config, config.teacher)
            teacher = loaded.path.read_bytes()
        parent = parent or cls.make_parent(config)
        path = parent / f"seed_{seed}"
        require(not path.exists(), "run folder", str(path), "new; use --resume to go on with it")
        run = cls(path, replace(config, seed=(seed,)), seed)
        _make_folder(run.checkpoints)
        if teacher:
            run._write(TEACHER_FILE, teacher)
        run.write_config()
        commit, patch = git_revision()
        run._write_json(VERSIONS_FILE, software_versions() | {"git revision": commit, "time": time.time()})
        run._write("git_diff.patch", patch)
        run._write("command.txt", shlex.join(argv or sys.argv) + "\n")
        return run

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Return the run of a folder that create made, or the only run inside a training folder.

        Raises:
            ConfigError: when there is no run, or more than one.
        """
        folder = find_run(Path(path))
        path = folder / CONFIG_FILE
        config = restore_config(read_json(path), str(path))
        return cls(folder, config, config.seed[0])

    # The writer -------------------------------------------------------------------------------

    def begin(self) -> None:
        """Lock the folder for this process, remove incomplete files of a killed process, and open run.log.

        Raises:
            ConfigError: when another process trains this run, or the package of a logger is missing.
        """
        check_loggers(self.config.loggers)
        read_manifest(self.checkpoints)  # fails now if it is damaged, not at the first policy
        self._lock = lock.acquire_lock(self.path, LOCK_FILE)
        for folder in (self.path, self.checkpoints):
            for file in folder.glob(f".*{TEMPORARY_SUFFIX}"):
                with suppress(OSError):
                    file.unlink()
        self._log = RunLog(self.path / LOG_FILE)
        for line in self.heading:
            self.write_log_line(line)

    def write_log_line(self, line: str) -> None:
        """Add a line to run.log, if this process writes the run."""
        if self._log is not None:
            self._log.add(line)

    @contextmanager
    def writing(self, ends: bool) -> Iterator[None]:
        """Log warnings and errors of this context to run.log, and release the folder on an error.

        Args:
            ends: whether the folder is also released at the end of the context without an error.
        """
        try:
            with self._log.watching() if self._log is not None else nullcontext():
                yield
        except BaseException:
            self.release()
            raise
        if ends:
            self.release()

    def release(self) -> None:
        """Unlock the folder, and close its log."""
        with suppress(ConfigError):  # an error of the run itself is reported instead
            self.close()
        if self._log is not None:
            self._log.close()
        if self._lock is not None:
            self._lock.release()
        self._log = self._lock = None

    # Files --------------------------------------------------------------------------------------

    def _write(self, name: str, content: str | bytes) -> None:
        write_atomically(self.path / name, content, replace_input=True)

    def _write_json(self, name: str, content: Any) -> None:
        self._write(name, json.dumps(content, indent=2, allow_nan=False) + "\n")

    def write_config(self) -> None:
        """Write the configuration for open to read, unless it has not changed since the last call."""
        config = to_dict(self.config)
        if config != self._written_config:
            self._write_json(CONFIG_FILE, config)
            self._written_config = config

    def write_scenarios(self, text: str) -> None:
        """Write the scenarios of the run's evaluations, as the text of a scenario file."""
        self._write("eval_configs.json", text)

    def _call_loggers(self, call: Callable[[RunLogger], None]) -> None:
        """Call a function with each logger, after opening the loggers if they are closed."""
        try:
            if self._loggers is None:
                threading.excepthook = _report_thread_error
                self._loggers = open_loggers(self.path, self.config, self.resumed_at, self.heading)
            for logger in self._loggers:
                call(logger)
        except OSError as error:
            raise ConfigError(f"{self.path}: events for TensorBoard cannot be written ({error})") from error

    def log(self, scalars: dict[str, float | None], env_steps: int) -> None:
        """Log the scalars that are finite, with env-steps as the x axis."""
        finite = {name: value for name, value in scalars.items() if value is not None and math.isfinite(value)}
        self._call_loggers(lambda logger: logger.log(finite, env_steps))

    def log_histogram(self, name: str, values: Tensor, env_steps: int) -> None:
        """Log a histogram of the values that are finite, if there are any."""
        values = values[values.isfinite()]
        if len(values):
            self._call_loggers(lambda logger: logger.log_histogram(name, values, env_steps))

    def log_image(self, name: str, pixels: NDArray[np.uint8], env_steps: int) -> None:
        """Log an image [height, width, 3]."""
        self._call_loggers(lambda logger: logger.log_image(name, pixels, env_steps))

    def log_end(self, env_steps: int) -> None:
        """Log that the run has completed all its env-steps."""
        self._call_loggers(lambda logger: logger.log_end(env_steps))

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

    def write_evaluations(self, rows: list[dict[str, Any]], arrays: dict[str, Any]) -> None:
        """Write the results of all evaluations so far to evaluations.csv and evaluations.npz."""
        # Rows of a resumed run may lack metrics that a later version added.
        self._write("evaluations.csv", Table.from_rows(rows).csv())
        file = io.BytesIO()
        np.savez(file, **arrays)
        self._write("evaluations.npz", file.getvalue())

    def add_policy(self, name: str, env_steps: int, metrics: dict[str, Any]) -> bool:
        """Add a policy to the manifest as the latest, and return whether it is the best so far."""
        manifest = read_manifest(self.checkpoints)
        entry = {"file": name, "env_steps": env_steps, "metrics": metrics}
        # A resumed run repeats what came after its checkpoint.
        kept = [
            old for old in manifest["policies"] if old["env_steps"] < env_steps and old["file"] != STOPPED_POLICY_FILE
        ]
        best = best_policy([*kept, entry])
        content = {"time": time.time(), "latest": name, "best": best["file"], "policies": [*kept, entry]}
        self._write_json(f"{self.checkpoints.name}/{MANIFEST_FILE}", content)
        if name != STOPPED_POLICY_FILE:
            (self.checkpoints / STOPPED_POLICY_FILE).unlink(missing_ok=True)
        return best is entry

    def save_stopped_policy(self, agent: Agent[Any], env_steps: int) -> None:
        """Save the policy of a run that stops, unless a policy of the same env-steps is already saved."""
        saved = [entry["env_steps"] for entry in read_manifest(self.checkpoints)["policies"]]
        if env_steps not in saved:
            metrics = {"note": NOT_EVALUATED_NOTE}
            save_policy(self.checkpoints / STOPPED_POLICY_FILE, agent, self.config, env_steps, metrics)
            self.add_policy(STOPPED_POLICY_FILE, env_steps, metrics)


def _report_thread_error(error: threading.ExceptHookArgs) -> None:
    """Report an error of a thread, except for TensorBoard's writer, whose error the next entry reports."""
    writer = type(error.thread).__module__.startswith("tensorboard.")
    if not (writer and issubclass(error.exc_type, OSError)):
        threading.__excepthook__(error)


def seed_folders(path: Path) -> list[Path]:
    """Return the run folders of all seeds in a training folder, or the path itself if there are none."""
    return sorted(file.parent for file in path.glob(f"seed_*/{CONFIG_FILE}")) or [path]


def best_policy(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry of the best policy among the entries of a manifest, which must not be empty.

    Policies whose success rate is below the highest by at most its standard error or one episode (the larger) count as
    equal, because the highest of many success rates over few episodes is mostly luck (the one-standard-error rule,
    Breiman et al. 1984). The best of them has the fewest collisions, then the highest return.
    """

    def metric(entry: dict[str, Any], name: str) -> float:
        # If the weights are not finite, the evaluation has no return.
        value = entry["metrics"].get(name)
        return -math.inf if value is None else float(value)

    def success(entry: dict[str, Any]) -> float:
        return metric(entry, "success_rate")

    highest = max(entries, key=success)
    top, episodes = success(highest), highest["metrics"].get("episodes")
    error = max(math.sqrt(top * (1.0 - top) / episodes), 1.0 / episodes) if episodes and top >= 0.0 else 0.0
    # The bound is lowered slightly, so that rounding of the rates excludes no policy.
    near = [entry for entry in entries if not success(entry) < top - error - 1e-9]
    return max(
        near,
        key=lambda entry: (
            -(entry["metrics"].get("collision_rate") or 0.0),
            metric(entry, "avg_return"),
            success(entry),
        ),
    )


def record_policy(
    run: RunFolder, agent: Agent[Any], env_steps: int, metrics: dict[str, Any], scalars: dict[str, Any], last: bool
) -> bool:
    """Log an evaluation, save its policy, and return whether it is the best so far."""
    run.log({f"eval/{name}": value for name, value in scalars.items()} | result_scalars(metrics), env_steps)
    name = f"policy_{env_steps:012d}.pt"
    save_policy(run.checkpoints / name, agent, run.config, env_steps, metrics)
    best = run.add_policy(name, env_steps, metrics)
    if last:
        run.log_end(env_steps)
    return best
