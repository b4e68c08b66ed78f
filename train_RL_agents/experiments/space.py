"""Search spaces: the settings that a search varies, with the values or range of each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import ConfigError, is_number, require, strip_annotated
from train_RL_agents.config.overrides import unknown_setting_message
from train_RL_agents.config.reading import apply_overrides, known_settings
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.utils.files import read_json

SearchSpace = dict[str, Any]
"""Optuna's distribution of each setting, by key; choices are JSON texts, because Optuna does not store lists."""
_MAX_CHOICES = 100
"""Largest number of choices of a setting, each of which is checked when the space is read."""


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


def suggest_settings(trial: Any, space: SearchSpace) -> dict[str, Any]:
    """Let Optuna choose the settings of one of its trials in a space, and return their values by key."""
    for key, item in space.items():
        if hasattr(item, "choices"):
            trial.suggest_categorical(key, item.choices)
        else:
            number = trial.suggest_int if isinstance(item.low, int) else trial.suggest_float
            number(key, item.low, item.high, log=item.log)
    return params_to_settings(trial.params, space)


def params_to_settings(params: dict[str, Any], space: SearchSpace) -> dict[str, Any]:
    """Convert the parameters of an Optuna trial to settings by key; raise a ConfigError if one is missing."""
    missing = space.keys() - params.keys()
    require(not missing, "trial", params, f"one with {', '.join(sorted(missing))}")
    return {key: json.loads(params[key]) if hasattr(item, "choices") else params[key] for key, item in space.items()}
