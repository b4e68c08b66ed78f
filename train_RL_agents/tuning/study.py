"""Search for settings with Optuna (the extra ``tune``): what is searched, a trial, and the study.

A study is a folder: its storage, one training folder per trial, and the best configuration. It can
be stopped at any time and continued.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from marinenav_env.extras import need
from marinenav_env.validation import ConfigError, is_number, require
from train_RL_agents.config.reading import (
    flatten,
    from_dict,
    read_json,
    saved_config,
    settings_of,
    to_dict,
)
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import DivergedError, TorchRLTrainer
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.files import write_atomically

STORAGE, BEST = "study.db", "best.json"
_NAME = "marinenav"
_STARTUP = 4
"""Trials that are never pruned, and that the search starts from."""
_MOST_REFUSED = 10
"""Trials in a row whose settings do not go together, after which the search ends."""


# What is searched -------------------------------------------------------------------------------


Space = dict[str, Any]
"""Optuna's distribution of each setting; choices are JSON texts, as Optuna keeps no lists."""


def read_space(path: Path, config: TrainConfig[Any]) -> Space:
    """Read a search space: ``{"key": {"low": 1, "high": 2, "log": true}, "other": [1, 2, 3]}``.

    Args:
        path: JSON file.
        config: what the settings are settings of.

    Raises:
        ConfigError: when a setting is not known, or an end or a choice cannot be its value.
    """
    content = read_json(path)
    require(len(content) > 0, str(path), content, "an object with one or more settings")
    types = {setting.key: setting.annotation for setting in settings_of(config)}
    space = {key: _distribution(key, value, types.get(key)) for key, value in content.items()}
    for key, value in content.items():
        for each in value if isinstance(value, list) else (value["low"], value["high"]):
            changed(config, {key: each})
    return space


def _distribution(key: str, value: Any, annotation: Any) -> Any:
    distributions = need("optuna.distributions", "tune")
    require(key != "agent_type", key, value, "left out: a study is of one agent")
    require(annotation is not None, key, value, "of a setting; see marinenav train --help")
    if isinstance(value, list):
        require(len(value) > 0, key, value, "a list with one or more values")
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
    return from_dict(flatten(to_dict(config)) | values)


def chosen(params: dict[str, Any], space: Space) -> dict[str, Any]:
    """The settings that a trial's parameters stand for."""
    return {key: json.loads(params[key]) if hasattr(item, "choices") else params[key]
            for key, item in space.items()}  # fmt: skip


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


class Study:
    """A search in a folder, new or continued.

    Args:
        folder: of the study; made if it is not there.
        config: what trials have in common.
        space: what they try.

    Raises:
        ConfigError: when Optuna is missing, or the folder is of another search.
    """

    def __init__(self, folder: Path, config: TrainConfig[Any], space: Space) -> None:
        optuna = self._optuna = need("optuna", "tune")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.folder, self.config, self.space = folder, config, space
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"{folder}: the study's folder cannot be made ({error})") from error
        storage = f"sqlite:///{folder.resolve() / STORAGE}"
        pruner = optuna.pruners.MedianPruner(_STARTUP, n_warmup_steps=config.eval_freq)
        try:
            self.study = optuna.create_study(
                storage=storage, study_name=_NAME, direction="maximize", load_if_exists=True,
                pruner=pruner,
            )  # fmt: skip
        except Exception as error:  # of whichever library below it
            reason = first_line(error)
            raise ConfigError(f"{folder / STORAGE}: damaged, or no study ({reason})") from error
        # Another seed after every stop, or the search would propose the same again.
        seed = config.seed[0] + len(self.study.trials)
        self.study.sampler = optuna.samplers.TPESampler(n_startup_trials=_STARTUP, seed=seed)
        self._refused = 0
        self._check_same()
        self._fail_interrupted()

    def _check_same(self) -> None:
        """Refuse to mix two searches."""
        ours = {
            "space of settings": repr(sorted(self.space.items())),
            "config": json.dumps(to_dict(self.config)),
        }
        before = dict(self.study.user_attrs)
        if "config" in before:  # settings that are newer than the study have their defaults
            before["config"] = json.dumps(to_dict(saved_config(json.loads(before["config"]))))
        for name, value in ours.items():
            fine = before.get(name, value) == value
            require(fine, "--study", str(self.folder), f"new, or of the same {name}")
            self.study.set_user_attr(name, value)

    def _fail_interrupted(self) -> None:
        """Close the trials that a stopped process left open."""
        states = self._optuna.trial.TrialState
        for trial in self.study.get_trials(states=(states.RUNNING,)):
            self.study.tell(trial.number, state=states.FAIL)

    @property
    def done(self) -> int:
        """Trials that ran to their end or were pruned."""
        states = self._optuna.trial.TrialState
        return len(self.study.get_trials(states=(states.COMPLETE, states.PRUNED)))

    def run_trial(self, argv: Sequence[str], **display: bool) -> str:
        """Run one trial.

        Args:
            argv: the command, for the record.
            display: see TorchRLTrainer.

        Returns:
            A line on how it went.

        Raises:
            ConfigError: when one after another was refused.
            KeyboardInterrupt: when it was asked to stop.
        """
        states = self._optuna.trial.TrialState
        trial = self.study.ask(self.space)
        values = chosen(trial.params, self.space)
        words = ", ".join(f"{key}={json.dumps(item)}" for key, item in values.items())
        state, success, pruning = states.FAIL, None, Pruning(trial)
        try:
            try:
                config = changed(self.config, values)
                parent = self.folder / f"trial_{trial.number:04d}"
                run = RunFolder.create(config, config.seed[0], argv, parent)
                trainer = TorchRLTrainer(run, callbacks=[pruning], **display)
            except ConfigError as error:
                # Settings that are fine one by one may not go together.
                self._refused += 1
                if self._refused == _MOST_REFUSED:
                    raise
                return f"trial {trial.number}: refused, {error}; it had {words}"
            self._refused = 0
            try:
                trainer.train()
            except DivergedError as error:
                state = states.PRUNED
                return f"trial {trial.number}: {error}; it had {words}"
            if trainer.stopped and not pruning.pruned:
                raise KeyboardInterrupt
            success = trainer.rows[-1]["success_rate"]
            state = states.PRUNED if pruning.pruned else states.COMPLETE
        finally:
            # Optuna keeps the last report of a pruned trial as its value.
            self.study.tell(trial, success if state == states.COMPLETE else None, state=state)
        end = "pruned at success" if pruning.pruned else "success"
        return f"trial {trial.number}: {end} {success:.3f} with {words}"

    def write_best(self) -> Any:
        """Write the configuration of the best trial, so that ``train -C`` takes it.

        Returns:
            Optuna's best trial; None while no trial has run to its end.
        """
        states = self._optuna.trial.TrialState
        if not self.study.get_trials(states=(states.COMPLETE,)):
            return None
        best = self.study.best_trial
        config = changed(self.config, chosen(best.params, self.space))
        content = json.dumps(to_dict(config), indent=2) + "\n"
        write_atomically(self.folder / BEST, content)
        return best
