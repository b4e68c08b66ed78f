"""Search for settings with Optuna (the extra ``tune``), which proposes trials and learns from their results.

A study is a folder: Optuna's database, one training folder per trial, and the best configuration. It can be stopped at
any time and continued.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import require_overwritable
from marinenav_env.support.validation import ConfigError, is_number, require
from train_RL_agents.config.reading import apply_overrides, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.experiments.run import Run, check_memory
from train_RL_agents.experiments.space import SearchSpace, params_to_settings, suggest_settings
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import make_folder, sqlite_url, write_atomically

STORAGE_NAME = "study.db"
BEST_CONFIG_NAME = "best.json"
_STUDY_NAME = "marinenav"
_NUM_STARTUP_TRIALS = 4
"""Number of trials before the search learns from results and prunes trials."""
_MAX_CONSECUTIVE_FAILURES = 10
"""Number of trials that are refused or fail in a row after which the search ends."""
HEARTBEAT_INTERVAL = 10
"""Time between heartbeats of a trial (s)."""
GRACE_PERIOD = 60
"""Time without a heartbeat after which a trial counts as failed, and SQLite's lock timeout (s)."""
_MAX_STORAGE_ATTEMPTS = 3
"""Number of attempts to create a database that another process may create at the same time."""
_UNWRITABLE_MESSAGES = (
    "database or disk is full",
    "disk I/O error",
    "unable to open database file",
    "attempt to write a readonly database",
    "database is locked",
)
"""Beginnings of SQLite's messages when nothing can be written."""


class Search:
    """Proposer of trials in a new or continued study, on which several processes may work at once.

    If a process is killed, the heartbeats of its trials stop, and these count as failed a minute later.

    Args:
        folder: folder of the study; created if it is missing.
        config: configuration that trials have in common.
        space: settings that trials vary, with their distributions.
        num_trials: number of finished trials at which the study ends.
        best_base: configuration to which ``write_best`` applies the settings of the best trial; by default ``config``.
    """

    def __init__(
        self,
        folder: Path,
        config: TrainConfig[Any],
        space: SearchSpace,
        num_trials: int = sys.maxsize,
        best_base: TrainConfig[Any] | None = None,
    ) -> None:
        optuna = self._optuna = import_optional("optuna", "tune")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        require(len(config.seed) == 1, "seed", config.seed, "one number, since a trial is one run")
        self.folder, self.config, self.space, self.num_trials = folder, config, space, num_trials
        self._best_base = best_base or config
        self._trial_states, self._consecutive_failures = optuna.trial.TrialState, 0
        self.score_name = "success" if config.env.is_built_in else "score"
        """Name of the maximised metric: success, or in external environments a score (success, or else return)."""
        self._trial_ids: dict[int, int] = {}
        """Optuna's identifiers of the trials that run in this process, by number."""
        self._pruned: set[int] = set()
        """Numbers of the trials that Optuna has pruned."""
        make_folder(folder)
        require_overwritable(folder / BEST_CONFIG_NAME)
        try:
            with self._convert_storage_errors():
                self.study = self._open_study()
                self._check_same_search()
                self._check_trials()
        except ConfigError:
            raise
        except Exception as error:  # of Optuna or of a library that it uses
            raise ConfigError(f"{folder / STORAGE_NAME}: damaged, or no study ({first_line(error)})") from error

    def _open_study(self) -> Any:
        """Return the Optuna study in the folder, which is created if it is missing."""
        optuna = self._optuna
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            for attempt in range(_MAX_STORAGE_ATTEMPTS):
                try:
                    storage = optuna.storages.RDBStorage(
                        sqlite_url(self.folder / STORAGE_NAME),
                        engine_kwargs={"connect_args": {"timeout": GRACE_PERIOD}},
                        heartbeat_interval=HEARTBEAT_INTERVAL,
                        grace_period=GRACE_PERIOD,
                    )
                    break
                except Exception as error:
                    # Another process may create the storage at the same time.
                    is_race = any(text in str(error) for text in ("already exists", "UNIQUE constraint"))
                    if not is_race or attempt == _MAX_STORAGE_ATTEMPTS - 1:
                        raise
                    time.sleep(1.0)
        self._record_heartbeat = storage.record_heartbeat
        return optuna.create_study(
            storage=storage,
            study_name=_STUDY_NAME,
            direction="maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(_NUM_STARTUP_TRIALS, n_warmup_steps=self.config.eval_freq),
        )

    @contextmanager
    def _convert_storage_errors(self) -> Iterator[None]:
        """Convert errors of a database that cannot be written to a ConfigError of one sentence, in this context."""
        try:
            yield
        except Exception as error:
            inner: BaseException | None = error
            while inner is not None and not isinstance(inner, sqlite3.OperationalError):
                inner = inner.__cause__ or inner.__context__
            if inner is None or not str(inner).startswith(_UNWRITABLE_MESSAGES):
                raise
            raise ConfigError(f"{self.folder / STORAGE_NAME}: cannot be written ({inner})") from error

    def _check_same_search(self) -> None:
        """Check that the Optuna study in the folder belongs to this search; record its settings if it is new."""
        settings = {"space of settings": repr(sorted(self.space.items())), "config": json.dumps(to_dict(self.config))}
        maximizes = self.study.directions == [self._optuna.study.StudyDirection.MAXIMIZE]
        require(maximizes, "--study", str(self.folder), "a study that maximises one figure")
        before = self.study.user_attrs
        for name, value in settings.items():
            is_same = before.get(name, value) == value
            require(is_same, "--study", str(self.folder), f"new, or of the same {name}")
            self.study.set_user_attr(name, value)

    def _check_trials(self) -> None:
        """Raise a ConfigError if a stored trial is damaged, before the next one begins."""
        complete, ended = self._trial_states.COMPLETE, (self._trial_states.COMPLETE, self._trial_states.PRUNED)
        for number, trial in enumerate(self.study.get_trials(deepcopy=False)):
            has_all = trial.state not in ended or self.space.keys() <= trial.params.keys()
            values = (*(trial.values or ()), *trial.intermediate_values.values())
            is_rated = bool(trial.values) or trial.state != complete
            is_whole = trial.number == number and has_all and is_rated and all(map(is_number, values))
            require(is_whole, str(self.folder / STORAGE_NAME), f"trial {number}", "whole; it is damaged")

    # Trials of all processes --------------------------------------------------------------------

    def _count(self, *states: Any) -> int:
        """Return the number of trials in any of some Optuna states."""
        return len(self.study.get_trials(deepcopy=False, states=states))

    @property
    def num_finished(self) -> int:
        """Return the number of trials that ran to their ends or were pruned."""
        return self._count(self._trial_states.COMPLETE, self._trial_states.PRUNED)

    @property
    def num_running(self) -> int:
        """Return the number of trials that run now, in any process."""
        return self._count(self._trial_states.RUNNING)

    # Trials of this process ---------------------------------------------------------------------

    def runs(self, argv: Sequence[str], at_once: int = 1) -> Iterator[Run | None]:
        """Yield the runs of new trials until enough have finished; yield None while other trials must end first.

        The iterator goes on while other processes run the last trials, because these trials may fail.
        """
        ended, waits = threading.Event(), False
        threading.Thread(target=self._record_heartbeats, args=(ended,), daemon=True).start()
        try:
            while self.num_finished < self.num_trials:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", self._optuna.exceptions.ExperimentalWarning)
                    self._optuna.storages.fail_stale_trials(self.study)
                if self.num_finished + self.num_running < self.num_trials:
                    run = self._propose(argv, at_once)
                    if run is not None:
                        yield run
                    continue
                others = self.num_running - len(self._trial_ids)
                if others and not waits:
                    print(f"waiting for other processes, which run {others} of the last trials", flush=True)
                    waits = True
                yield None
        finally:
            ended.set()

    def _record_heartbeats(self, ended: threading.Event) -> None:
        """Record the heartbeats of the trials of this process until an event is set; runs in a thread."""
        while not ended.wait(HEARTBEAT_INTERVAL):
            for key in [*self._trial_ids.values()]:
                with suppress(Exception):  # a full disk is reported when the trial ends
                    self._record_heartbeat(key)

    def _propose(self, argv: Sequence[str], at_once: int) -> Run | None:
        """Return the run of a new trial; None if its settings are refused. The arguments are those of ``runs``."""
        with self._convert_storage_errors(), warnings.catch_warnings():
            # Optuna itself records heartbeats only if it calls a function for each trial.
            warnings.filterwarnings("ignore", message="Heartbeat of storage")
            trial = self.study.ask()
            self._record_heartbeat(trial._trial_id)
            # The seed depends on the trial's number, so that processes propose different trials.
            self.study.sampler = self._optuna.samplers.TPESampler(
                n_startup_trials=_NUM_STARTUP_TRIALS, seed=self.config.seed[0] + trial.number
            )
            values = suggest_settings(trial, self.space)
        self._trial_ids[trial.number] = trial._trial_id
        try:
            config = apply_overrides(self.config, values)
            check_memory(config, at_once)
            folder = RunFolder.create(config, config.seed[0], argv, self.folder / f"trial_{trial.number:04d}")
        except ConfigError as error:
            self._end_trial(trial, values, 1, str(error), False)
            return None
        except BaseException:
            self._end_trial(trial, values, 1, "", False)
            raise
        report, end = partial(self._report, trial, config.total_timesteps), partial(self._end_trial, trial, values)
        return Run(f"trial {trial.number}", folder, on_evaluation=report, on_end=end)

    def _report(self, trial: Any, total: int, env_steps: int, success: float) -> bool:
        """Report an evaluation of a trial to Optuna, and return whether to prune the trial."""
        with self._convert_storage_errors():
            # The pruner compares trials at equal steps, but batches of other sizes end at other env-steps.
            trial.report(success, total if env_steps >= total else env_steps - env_steps % self.config.eval_freq)
            if env_steps < total and trial.should_prune():
                self._pruned.add(trial.number)
        return trial.number in self._pruned

    def _end_trial(self, trial: Any, values: dict[str, Any], status: int, error: str, diverged: bool) -> None:
        """Record the end of a trial, and print a line on its result."""
        states, error = self._trial_states, error.removeprefix("marinenav: error: ")
        reports = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        success = reports[max(reports)] if reports else 0.0
        if trial.number in self._pruned:
            state, line = states.PRUNED, f"pruned at {self.score_name} {success:.3f} with "
        elif diverged:
            state, line = states.PRUNED, f"{error}; it had "
        elif error:
            state, line = states.FAIL, f"refused, {error}; it had "
        else:
            state, line = (states.FAIL if status else states.COMPLETE), f"{self.score_name} {success:.3f} with "
        self._consecutive_failures = self._consecutive_failures + 1 if state == states.FAIL and error else 0
        del self._trial_ids[trial.number]
        with self._convert_storage_errors():
            # Optuna keeps the last report of a pruned trial. After a pause, another process may have ended the trial.
            self.study.tell(trial, success if state == states.COMPLETE else None, state, skip_if_finished=True)
        if self._consecutive_failures == _MAX_CONSECUTIVE_FAILURES:
            raise ConfigError(error)
        if error or state != states.FAIL:
            line += ", ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
            print(f"trial {trial.number}: {line}", flush=True)
        if state == states.COMPLETE:
            self.write_best()

    def write_best(self) -> Any:
        """Write the configuration of the best trial for ``train -C``, and return Optuna's trial; None without any."""
        if not self._count(self._trial_states.COMPLETE):
            return None
        best = self.study.best_trial
        config = apply_overrides(self._best_base, params_to_settings(best.params, self.space))
        content = json.dumps(to_dict(config), indent=2) + "\n"
        write_atomically(self.folder / BEST_CONFIG_NAME, content)
        return best
