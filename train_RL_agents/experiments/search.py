"""Search for settings with Optuna (the extra ``tune``): what is searched, a trial, and the study.

A study is a folder: its storage, one training folder per trial, and the best configuration. It can
be stopped at any time and continued.
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from marinenav_env.support.extras import need
from marinenav_env.support.files import require_output
from marinenav_env.support.validation import ConfigError, is_number, require
from train_RL_agents.config.reading import (
    MOVED,
    from_dict,
    known_settings,
    parse_json,
    read_json,
    saved_config,
    to_dict,
    unknown,
)
from train_RL_agents.config.schema import TrainConfig, with_execution
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.sizing.plan import check, plan
from train_RL_agents.torchrl_trainer import DivergedError, TorchRLTrainer
from train_RL_agents.utils.compiling import compiled_or_not
from train_RL_agents.utils.device import resolve_device
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import (
    changed_in_place,
    make_folder,
    sqlite_url,
    write_atomically,
)

STORAGE, BEST = "study.db", "best.json"
_NAME = "marinenav"
_STARTUP = 4
"""Trials that are never pruned, and that the search starts from."""
_MOST_REFUSED = 10
"""Trials in a row whose settings do not go together, after which the search ends."""
_PROCESS = "process"
"""Attribute of a trial that says who runs it."""
BEAT, GRACE, _LOOK = 10, 60, 1.0
"""Seconds between a trial's signs of life; without them, until it counts as failed, or until
another process stops waiting for the storage; between looks at trials of other processes."""
_ATTEMPTS = 3
"""To make a storage that another process makes at the same time."""
_UNWRITABLE = (
    "database or disk is full",
    "disk I/O error",
    "unable to open database file",
    "attempt to write a readonly database",
    "database is locked",
)
"""What SQLite says where nothing can be written."""


# What is searched -------------------------------------------------------------------------------


Space = dict[str, Any]
"""Optuna's distribution of each setting; choices are JSON texts, as Optuna keeps no lists."""

_CHOICES = 100
"""Most values of a list; each is tried as a setting when the space is read."""


def read_space(path: Path, config: TrainConfig[Any]) -> Space:
    """Read a search space: ``{"key": {"low": 1, "high": 2, "log": true}, "other": [1, 2, 3]}``.

    Args:
        path: JSON file.
        config: what the settings are settings of.

    Raises:
        ConfigError: when a setting is not known, or an end or a choice cannot be its value.
    """
    content = {MOVED.get(key, key): value for key, value in read_json(path).items()}
    require(len(content) > 0, str(path), content, "an object with one or more settings")
    types = {key: setting.annotation for key, setting in known_settings(config).items()}
    for key, value in content.items():
        if key not in types:
            raise ConfigError(unknown(key, value, list(types)))
    space = {key: _distribution(key, value, types[key]) for key, value in content.items()}
    for key, value in content.items():
        for each in value if isinstance(value, list) else (value["low"], value["high"]):
            changed(config, {key: each})
    return space


def _distribution(key: str, value: Any, annotation: Any) -> Any:
    distributions = need("optuna.distributions", "tune")
    require(key != "agent_type", key, value, "left out: a study is of one agent")
    if isinstance(value, list):
        require(0 < len(value) <= _CHOICES, key, value, f"a list with 1 to {_CHOICES} values")
        return distributions.CategoricalDistribution([json.dumps(each) for each in value])
    fine = isinstance(value, dict) and {"low", "high"} <= value.keys() <= {"low", "high", "log"}
    require(fine, key, value, "a list of values, or an object with low, high and perhaps log")
    low, high, log = value["low"], value["high"], value.get("log", False)
    fine = is_number(low) and is_number(high) and low < high and (low > 0 or not log)
    require(fine, key, value, "numbers low < high, above 0 where log is true")
    require(isinstance(log, bool), f"{key}.log", log, "true or false")
    require(annotation in (int, float), key, value, "a list: the setting is not a single number")
    whole = annotation is int and low % 1 == high % 1 == 0
    kind = distributions.IntDistribution if whole else distributions.FloatDistribution
    return kind(low, high, log)


def changed(config: TrainConfig[Any], values: dict[str, Any]) -> TrainConfig[Any]:
    """A configuration with other values for some keys."""
    return from_dict(values, saved=to_dict(config))


def _suggest(trial: Any, key: str, item: Any) -> None:
    """Let Optuna choose a setting of a trial."""
    if hasattr(item, "choices"):
        trial.suggest_categorical(key, item.choices)
    else:
        suggest = trial.suggest_int if isinstance(item.low, int) else trial.suggest_float
        suggest(key, item.low, item.high, log=item.log)


def chosen(params: dict[str, Any], space: Space) -> dict[str, Any]:
    """The settings that a trial's parameters stand for."""
    missing = space.keys() - params.keys()
    require(not missing, "trial", params, f"one with {', '.join(sorted(missing))}")
    return {key: json.loads(params[key]) if hasattr(item, "choices") else params[key] for key, item in space.items()}


# A trial ----------------------------------------------------------------------------------------


class Pruning:
    """A callback of the trainer that reports every evaluation, and stops a trial that is pruned.

    Args:
        trial: of Optuna.
    """

    def __init__(self, trial: Any) -> None:
        self._trial, self._reported, self.pruned = trial, 0, False

    def __call__(self, trainer: TorchRLTrainer) -> None:
        """Report a new evaluation, and ask whether to continue."""
        if len(trainer.rows) == self._reported:
            return
        self._reported = len(trainer.rows)
        self._trial.report(trainer.rows[-1]["success_rate"], trainer.env_steps)
        if self._trial.should_prune() and not trainer.finished:
            self.pruned = True
            trainer.stop()


# The study --------------------------------------------------------------------------------------


class _RefusedError(Exception):
    """Settings of a trial do not go together."""


class _LeftOutError(Exception):
    """A trial that is refused, or one too many."""


class Search:
    """A search in a folder, new or continued; several processes may work on it at once.

    Each process proposes trials of its own. One that ends without a word stops to give signs of
    life, and its trial counts as failed a minute later.

    Args:
        folder: of the study; made if it is not there.
        config: what trials have in common.
        space: what they try.
        trials: how many to make in all.

    Raises:
        ConfigError: when Optuna is missing, the folder is of another search, or nothing can be
            written to it.
    """

    def __init__(self, folder: Path, config: TrainConfig[Any], space: Space, trials: int = sys.maxsize) -> None:
        optuna = self._optuna = need("optuna", "tune")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.folder, self.config, self.space, self.trials = folder, config, space, trials
        self._states = optuna.trial.TrialState
        self._compiled, self._refused = True, 0
        make_folder(folder)
        require_output(folder / BEST)
        changed_in_place(folder, STORAGE)
        try:
            self.study = self._opened()
            self._check_same()
            self._check_trials()
        except ConfigError:
            raise
        except Exception as error:  # of whichever library below it
            reason = first_line(error)
            raise self._full(error) or ConfigError(f"{folder / STORAGE}: damaged, or no study ({reason})") from error

    def _opened(self) -> Any:
        """Optuna's study, made if it is not there."""
        optuna = self._optuna
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            for attempt in range(_ATTEMPTS):
                try:
                    storage = optuna.storages.RDBStorage(
                        sqlite_url(self.folder / STORAGE),
                        engine_kwargs={"connect_args": {"timeout": GRACE}},
                        heartbeat_interval=BEAT,
                        grace_period=GRACE,
                    )
                    break
                except Exception as error:
                    # Another process makes it at the same time.
                    made = any(each in str(error) for each in ("already exists", "UNIQUE constraint"))
                    if not made or attempt == _ATTEMPTS - 1:
                        raise
                    time.sleep(1.0)
        beat = storage.record_heartbeat

        def beat_if_possible(trial: int) -> None:
            """Leave it to the trial to report a disk that is full."""
            with suppress(Exception):
                beat(trial)

        storage.record_heartbeat = beat_if_possible
        return optuna.create_study(
            storage=storage,
            study_name=_NAME,
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(_STARTUP, n_warmup_steps=self.config.eval_freq),
        )

    def _full(self, error: BaseException) -> ConfigError | None:
        """Message for an error in writing the storage; None for another error."""
        inner: BaseException | None = error
        while inner is not None and not isinstance(inner, sqlite3.OperationalError):
            inner = inner.__cause__ or inner.__context__
        if inner is None or not str(inner).startswith(_UNWRITABLE):
            return None
        return ConfigError(f"{self.folder / STORAGE}: cannot be written ({inner})")

    def _check_same(self) -> None:
        """Refuse to mix two searches."""
        ours = {
            "space of settings": repr(sorted(self.space.items())),
            "config": json.dumps(to_dict(self.config)),
        }
        fine = self.study.directions == [self._optuna.study.StudyDirection.MAXIMIZE]
        require(fine, "--study", str(self.folder), "a study that maximises one figure")
        before = dict(self.study.user_attrs)
        if "config" in before:  # settings that are newer than the study have their defaults
            given = parse_json(before["config"], f"{self.folder / STORAGE}: config")
            before["config"] = json.dumps(to_dict(saved_config(given)))
        for name, value in ours.items():
            fine = before.get(name, value) == value
            require(fine, "--study", str(self.folder), f"new, or of the same {name}")
            self.study.set_user_attr(name, value)

    def _check_trials(self) -> None:
        """Refuse trials that cannot be, before the next one is begun."""
        complete, ended = self._states.COMPLETE, (self._states.COMPLETE, self._states.PRUNED)
        for number, trial in enumerate(self.study.get_trials(deepcopy=False)):
            whole = trial.state not in ended or self.space.keys() <= trial.params.keys()
            values = (*(trial.values or ()), *trial.intermediate_values.values())
            rated = bool(trial.values) or trial.state != complete
            fine = trial.number == number and whole and rated and all(map(is_number, values))
            require(fine, str(self.folder / STORAGE), f"trial {number}", "whole; it is damaged")

    # Trials of all processes --------------------------------------------------------------------

    def _count(self, *states: Any) -> int:
        return len(self.study.get_trials(deepcopy=False, states=states))

    @property
    def done(self) -> int:
        """Trials that ran to their end or were pruned."""
        return self._count(self._states.COMPLETE, self._states.PRUNED)

    @property
    def running(self) -> int:
        """Trials that run now, in any process."""
        return self._count(self._states.RUNNING)

    def lacks_trials(self, log: Callable[[str], None]) -> bool:
        """Whether there are trials to make.

        While other processes make the last ones, this waits, as these may fail.

        Args:
            log: is told about waiting.
        """
        waits = False
        while self.done < self.trials:
            self._fail_abandoned()
            if self.done + self.running < self.trials:
                return True
            if not waits:
                log(f"waiting for other processes, which run {self.running} of the last trials")
            waits = True
            time.sleep(_LOOK)
        return False

    def _fail_abandoned(self) -> None:
        """Close the trials of processes that ended without doing so."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
            self._optuna.storages.fail_stale_trials(self.study)
        # Studies of before gave no signs of life.
        for trial in self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,)):
            age = (datetime.now() - trial.datetime_start).total_seconds()
            if _PROCESS not in trial.user_attrs and age > GRACE:
                self.study.tell(trial.number, state=self._states.FAIL)

    def run_trial(self, argv: Sequence[str], **display: bool) -> str:
        """Run one trial.

        Args:
            argv: the command, for the record.
            display: see TorchRLTrainer.

        Returns:
            A line on how it went.

        Raises:
            ConfigError: when one after another was refused, or nothing can be written.
            KeyboardInterrupt: when it was asked to stop.
        """
        lines: list[str] = []

        def objective(trial: Any) -> float:
            trial.set_user_attr(_PROCESS, f"{os.getpid()} on {socket.gethostname()}")
            # Another process may have begun the last one at the same time.
            counted = (self._states.COMPLETE, self._states.PRUNED, self._states.RUNNING)
            others = self.study.get_trials(deepcopy=False, states=counted)
            if sum(each.number < trial.number for each in others) >= self.trials:
                raise _LeftOutError
            # Of the trial's number, so that processes propose different ones.
            self.study.sampler = self._optuna.samplers.TPESampler(
                n_startup_trials=_STARTUP, seed=self.config.seed[0] + trial.number
            )
            for key, item in self.space.items():
                _suggest(trial, key, item)
            return self._made(trial, argv, display, lines.append)

        try:
            self.study.optimize(objective, n_trials=1, catch=(_LeftOutError,))
        except Exception as error:
            full = self._full(error)
            if full is None:
                raise
            raise full from error
        return lines[0] if lines else ""

    def _made(self, trial: Any, argv: Sequence[str], display: dict[str, bool], log: Callable[[str], None]) -> float:
        """Train a trial; its last success rate."""
        values, pruning = chosen(trial.params, self.space), Pruning(trial)
        words = ", ".join(f"{key}={json.dumps(item)}" for key, item in values.items())
        name = f"trial {trial.number}:"
        try:
            with self._refusals():
                config = changed(self.config, values)
                device = resolve_device(config.execution.device, "execution.device")
                check(plan(config, device), config)
                parent = self.folder / f"trial_{trial.number:04d}"
                run = RunFolder.create(config, config.seed[0], argv, parent)
            trainer = self._trained(run, pruning, display)
        except DivergedError as error:
            log(f"{name} {error}; it had {words}")
            raise self._optuna.TrialPruned from error
        except _RefusedError as error:
            log(f"{name} refused, {error}; it had {words}")
            raise _LeftOutError from error
        if trainer.stopped and not pruning.pruned:
            raise KeyboardInterrupt
        success = float(trainer.rows[-1]["success_rate"])
        end = "pruned at success" if pruning.pruned else "success"
        log(f"{name} {end} {success:.3f} with {words}")
        if pruning.pruned:  # Optuna keeps its last report as its value
            raise self._optuna.TrialPruned
        return success

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        """Within it, settings that do not go together, though fine one by one, end a trial only."""
        try:
            yield
        except ConfigError as error:
            self._refused += 1
            if self._refused == _MOST_REFUSED:
                raise
            raise _RefusedError(str(error)) from error

    def _trained(self, run: RunFolder, pruning: Pruning, display: dict[str, bool]) -> TorchRLTrainer:
        """Train a run, without generated code where that cannot be had."""

        def attempt(compiled: bool) -> TorchRLTrainer:
            compiled = compiled and run.config.execution.compile
            run.config = with_execution(run.config, compile=compiled)
            with self._refusals():
                trainer = TorchRLTrainer(run, callbacks=[pruning], **display)
            self._refused = 0
            trainer.train()
            return trainer

        def log(line: str) -> None:
            run.close()
            run.heading, self._compiled = [line], False
            print(line, flush=True)

        return compiled_or_not(attempt, log) if self._compiled else attempt(False)

    def write_best(self) -> Any:
        """Write the configuration of the best trial, so that ``train -C`` takes it.

        Returns:
            Optuna's best trial; None while no trial has run to its end.
        """
        if not self._count(self._states.COMPLETE):
            return None
        best = self.study.best_trial
        config = changed(self.config, chosen(best.params, self.space))
        content = json.dumps(to_dict(config), indent=2) + "\n"
        write_atomically(self.folder / BEST, content)
        return best
