"""Search for settings with Optuna (the extra ``tune``), which proposes trials and learns from their results.

A study is a folder: Optuna's database, one training folder per trial, and the best configuration. It can be stopped at
any time and continued, by one process at a time.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from marinenav_env.support.extras import import_optional
from marinenav_env.support.files import require_overwritable
from marinenav_env.support.validation import ConfigError, is_number, require, strip_annotated
from train_RL_agents.config.overrides import unknown_setting_message
from train_RL_agents.config.reading import apply_overrides, known_settings, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.experiments.run import Run, check_memory
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.run.run_writer import acquire_lock
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import make_folder, read_json, sqlite_url, write_atomically

SearchSpace = dict[str, Any]
"""Optuna's distribution of each setting, by key; choices are JSON texts, because Optuna does not store lists."""
STORAGE_NAME = "study.db"
BEST_CONFIG_NAME = "best.json"
_LOCK_NAME = "study.lock"
_STUDY_NAME = "marinenav"
_NUM_STARTUP_TRIALS = 4
"""Number of trials before the search learns from results and prunes trials."""
_MAX_CONSECUTIVE_FAILURES = 10
"""Number of trials that are refused or fail in a row after which the search ends."""
_MAX_CHOICES = 100
"""Largest number of choices of a setting, each of which is checked when the space is read."""


class Search:
    """Proposer of trials in a new or continued study.

    It ends after ``num_trials`` finished ones; ``write_best`` applies the settings of the best to ``best_base``.
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
        self._states, self._consecutive_failures = optuna.trial.TrialState, 0
        self.score_name = "success" if config.env.is_built_in else "score"
        """Name of the maximised metric: success, or in external environments a score (success, or else return)."""
        self._pruned: set[int] = set()
        """Numbers of the trials that Optuna has pruned."""
        make_folder(folder)
        require_overwritable(folder / BEST_CONFIG_NAME)
        self._lock = acquire_lock(folder, _LOCK_NAME)
        with self._convert_storage_errors():
            self.study = optuna.create_study(
                storage=sqlite_url(folder / STORAGE_NAME),
                study_name=_STUDY_NAME,
                direction="maximize",
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(_NUM_STARTUP_TRIALS, n_warmup_steps=config.eval_freq),
            )
            self._check_same_search()
            # Those of a process that was killed.
            for trial in self.study.get_trials(deepcopy=False, states=(self._states.RUNNING,)):
                self.study.tell(trial.number, state=self._states.FAIL)

    @contextmanager
    def _convert_storage_errors(self) -> Iterator[None]:
        """Convert any error of the database in this context to a ConfigError of one sentence."""
        try:
            yield
        except ConfigError:
            raise
        except Exception as error:  # of Optuna or of a library that it uses
            file = self.folder / STORAGE_NAME
            raise ConfigError(f"{file}: damaged, no study, or cannot be written ({first_line(error)})") from error

    def _check_same_search(self) -> None:
        """Check that the Optuna study in the folder belongs to this search; record its settings if it is new."""
        settings = {"space of settings": repr(sorted(self.space.items())), "config": json.dumps(to_dict(self.config))}
        before = self.study.user_attrs
        for name, value in settings.items():
            is_same = before.get(name, value) == value
            require(is_same, "--study", str(self.folder), f"new, or of the same {name}")
            self.study.set_user_attr(name, value)

    def _count(self, *states: Any) -> int:
        """Return the number of trials in any of some Optuna states."""
        return len(self.study.get_trials(deepcopy=False, states=states))

    @property
    def num_finished(self) -> int:
        """Return the number of trials that ran to their ends or were pruned."""
        return self._count(self._states.COMPLETE, self._states.PRUNED)

    def runs(self, argv: Sequence[str], at_once: int = 1) -> Iterator[Run | None]:
        """Yield the runs of new trials until enough have finished; yield None while the last ones run."""
        while self.num_finished < self.num_trials:
            if self.num_finished + self._count(self._states.RUNNING) >= self.num_trials:
                yield None
            elif (run := self._propose(argv, at_once)) is not None:
                yield run

    def _propose(self, argv: Sequence[str], at_once: int) -> Run | None:
        """Return the run of a new trial; None if its settings are refused. The arguments are those of ``runs``."""
        with self._convert_storage_errors():
            # The seed depends on the trial's number, so that a continued study proposes other trials.
            seed = self.config.seed[0] + len(self.study.get_trials(deepcopy=False))
            self.study.sampler = self._optuna.samplers.TPESampler(n_startup_trials=_NUM_STARTUP_TRIALS, seed=seed)
            trial = self.study.ask(self.space)
            values = params_to_settings(trial.params, self.space)
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
        states, error = self._states, error.removeprefix("marinenav: error: ")
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
        with self._convert_storage_errors():
            self.study.tell(trial, success if state == states.COMPLETE else None, state)
        if self._consecutive_failures == _MAX_CONSECUTIVE_FAILURES:
            raise ConfigError(error)
        if error or state != states.FAIL:
            line += ", ".join(f"{key}={json.dumps(value)}" for key, value in values.items())
            print(f"trial {trial.number}: {line}", flush=True)
        if state == states.COMPLETE:
            self.write_best()

    def write_best(self) -> Any:
        """Write the configuration of the best trial for ``train -C``, and return Optuna's trial; None without any."""
        if not self._count(self._states.COMPLETE):
            return None
        best = self.study.best_trial
        config = apply_overrides(self._best_base, params_to_settings(best.params, self.space))
        content = json.dumps(to_dict(config), indent=2) + "\n"
        write_atomically(self.folder / BEST_CONFIG_NAME, content)
        return best


# Search spaces ----------------------------------------------------------------------------------


def read_space(path: Path, config: TrainConfig[Any]) -> SearchSpace:
    """Read a search space: ``{"key": {"low": 1, "high": 2, "log": true}, "other": [1, 2, 3]}``."""
    content = read_json(path)
    require(len(content) > 0, str(path), content, "an object with one or more settings")
    types = {key: strip_annotated(setting.annotation) for key, setting in known_settings(config).items()}
    for key, value in content.items():
        if key not in types:
            raise ConfigError(unknown_setting_message(key, value, list(types)))
    space = {key: _distribution(key, value, types[key]) for key, value in content.items()}
    for key, value in content.items():
        for choice in value if isinstance(value, list) else (value["low"], value["high"]):
            apply_overrides(config, {key: choice})
    return space


def _distribution(key: str, value: Any, annotation: Any) -> Any:
    """Return Optuna's distribution of a setting."""
    distributions = import_optional("optuna.distributions", "tune")
    allowed = 'left out: a study is of one agent; a space has lists or ranges, as in {"trainer.gamma": [0.98, 0.99]}'
    require(key != "agent_type", key, value, allowed)
    if isinstance(value, list):
        require(0 < len(value) <= _MAX_CHOICES, key, value, f"a list with 1 to {_MAX_CHOICES} values")
        return distributions.CategoricalDistribution([json.dumps(choice) for choice in value])
    is_range = isinstance(value, dict) and {"low", "high"} <= value.keys() <= {"low", "high", "log"}
    require(is_range, key, value, "a list of values, or an object with low, high and perhaps log")
    low, high, log = value["low"], value["high"], value.get("log", False)
    is_ordered = is_number(low) and is_number(high) and low < high and (low > 0 or not log)
    require(is_ordered, key, value, "numbers low < high, above 0 where log is true")
    require(isinstance(log, bool), f"{key}.log", log, "true or false")
    require(annotation in (int, float), key, value, "a list: the setting is not a single number")
    whole = annotation is int and low % 1 == high % 1 == 0
    kind = distributions.IntDistribution if whole else distributions.FloatDistribution
    return kind(low, high, log)


def params_to_settings(params: dict[str, Any], space: SearchSpace) -> dict[str, Any]:
    """Convert the parameters of an Optuna trial to settings by key; raise a ConfigError if one is missing."""
    missing = space.keys() - params.keys()
    require(not missing, "trial", params, f"one with {', '.join(sorted(missing))}")
    return {key: json.loads(params[key]) if hasattr(item, "choices") else params[key] for key, item in space.items()}
