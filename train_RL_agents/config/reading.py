"""Configuration from files, programs and the command line, by one mechanism.

A file states only what differs from the defaults, as nested objects or with dotted keys; settings of
a program or of the command line are laid over it. The dataclasses convert each value to the type that
its field declares, and check it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

from marinenav_env import LEVELS, Level
from marinenav_env.config import RewardConfig
from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError, brief, field_types, members_of, require, strip_annotated
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.boat import Boat, boat_of, take_boat
from train_RL_agents.config.levels import SIZES, as_levels, level_dict, make_level, scaled
from train_RL_agents.config.overrides import Overrides, Word, as_settings, flatten
from train_RL_agents.config.schema import LEVEL_KINDS, TRAINED, TrainConfig
from train_RL_agents.utils.closest import closest, did_you_mean, plain_name
from train_RL_agents.utils.files import read_json
from train_RL_agents.utils.shipped import find_shipped, shipped

Config = TypeVar("Config")
PARTS = {
    "agent_type": plugins.AGENTS,
    "agent.entry_encoders": plugins.ENCODERS,
    "env.name": plugins.ENVIRONMENTS,
    "world.reward.function": plugins.REWARDS,
    "world.sensor.entries": plugins.OBSERVATIONS,
    "training_schedule.sampler": plugins.SCENARIOS,
}
"""Settings that name parts of a user's, with the group of their entry points."""
_SIZES = {name: name for name in SIZES}
COLUMNS = {
    "training_schedule": _SIZES | {"timesteps": "starts_at"},
    "eval_schedule": _SIZES | {"num_episodes": "num_episodes"},
}
"""Columns of files of the original project, by section, with the field of a level that each fills."""
_RECORDED = {"training_time"}
"""Keys of files that programs of the field write into run folders, and that set nothing."""


@dataclass(frozen=True)
class Setting:
    """One key of the configuration."""

    key: str
    """Dotted name."""
    annotation: Any
    """Declared type, with its rules."""
    default: Any
    """Default value of the setting."""
    section: type[Any]
    """Dataclass that declares it."""


def settings_of(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Yield every key below a configuration, those of nested sections last."""
    sections = []
    kind: Any = type(config)
    for name, annotation in field_types(kind).items():
        key, value = prefix + name, getattr(config, name)
        if is_dataclass(value):
            sections.append((key, value))
        else:
            yield Setting(key, annotation, value, kind)
    for key, section in sections:
        yield from settings_of(section, f"{key}.")


def known_settings(config: TrainConfig[Any]) -> dict[str, Setting]:
    """Return every key that can be given, with the columns that levels may be given as."""
    columns = (
        Setting(f"{section}.{name}", tuple[float, ...], (), LEVEL_KINDS[section])
        for section, names in COLUMNS.items()
        for name in names
    )
    return {setting.key: setting for setting in (*settings_of(config), *columns)}


# From and to files ------------------------------------------------------------------------------


def load_config(path: Path | None, overrides: Overrides = ()) -> TrainConfig[Any]:
    """Read a configuration.

    Args:
        path: JSON file, or the name of a configuration that is shipped; None for the defaults.
        overrides: settings laid over the file, as values by name, dotted or nested, or as
            ``key=value`` arguments.

    Raises:
        ConfigError: when the file cannot be read, a key is not known, or a value is of the wrong
            type or out of range.
    """
    values, changes = file_settings(path), as_settings(overrides)
    before, now = (agent_name(str(settings.get("agent_type", ""))) for settings in (values, changes))
    if before != now and {before, now} <= AGENTS.keys():
        theirs, kept = (known_settings(TrainConfig(agent_type=name)).keys() for name in (before, now))
        if values.keys() & (theirs - kept):
            name = now.lower().replace("-", "_")
            hint = f"; {name} is one of {now}" if name in shipped("configs") else ""
            raise ConfigError(
                f"agent_type={now}: {path} is a configuration of {before}, with settings that {now} lacks{hint}"
            )
    return from_dict(values, changes)


def file_settings(path: Path | None) -> dict[str, Any]:
    """Return the settings of a configuration file by dotted key."""
    if path is None:
        return {}
    file, names = find_shipped("configs", path), ", ".join(shipped("configs"))
    hint = did_you_mean(path.stem, shipped("configs"))
    require(file.exists(), "config", str(path), f"a JSON file{hint or f' or one of {names}'}")
    return {key: value for key, value in flatten(read_json(file)).items() if key not in _RECORDED}


def stated_keys(path: Path | None, overrides: Overrides = ()) -> set[str]:
    """Return the dotted names of the settings that a file and overrides give; see load_config."""
    return {*file_settings(path), *as_settings(overrides)}


def override(config: TrainConfig[Any], overrides: Overrides) -> TrainConfig[Any]:
    """Return the same configuration with other values for some keys; see load_config."""
    return from_dict({}, overrides, to_dict(config))


def saved_config(values: dict[str, Any], source: str) -> TrainConfig[Any]:
    """Make a configuration from one that was saved whole.

    Args:
        values: settings as to_dict returns them.
        source: name of their source, for messages.

    Raises:
        ConfigError: when they are of a version before 0.2, or are not a valid configuration.
    """
    if "execution" not in values:
        raise ConfigError(f"{source}: has settings of a version before 0.2, which this one does not read")
    return from_dict({}, saved=values)


def to_dict(config: Any) -> dict[str, Any]:
    """Return the configuration as a JSON-serialisable dict; the inverse of from_dict."""
    content = asdict(config)
    for section in LEVEL_KINDS.keys() & content.keys():
        content[section]["levels"] = [*map(level_dict, getattr(config, section).levels)]
    return dict(json.loads(json.dumps(content)))


def from_dict(
    values: dict[str, Any], overrides: Overrides = (), saved: dict[str, Any] | None = None
) -> TrainConfig[Any]:
    """Make a configuration from the content of a file; see load_config.

    Null stands for the default, unless the field may be null.

    Args:
        values: settings of the file.
        overrides: see load_config.
        saved: whole configuration below these, of which it is not known what was stated.
    """
    layers = [flatten(saved or {}), flatten(values), as_settings(overrides)]
    for layer in layers:
        if isinstance(layer.get("agent_type"), str):
            layer["agent_type"] = agent_name(layer["agent_type"])
    name = (layers[0] | layers[1] | layers[2]).get("agent_type", TrainConfig.agent_type)
    config: TrainConfig[Any] = TrainConfig(agent_type=name)
    settings = known_settings(config)
    is_named = take_boat(layers)
    for layer in layers:
        for key, value in [*layer.items()]:
            if value == {} and any(name.startswith(f"{key}.") for name in settings):
                del layer[key]  # a section of which nothing is stated
            elif key not in settings:
                raise ConfigError(unknown(key, value, list(settings)))
    below, file, last = (
        {
            key: value.value(settings[key].annotation) if isinstance(value, Word) else value
            for key, value in layer.items()
        }
        for layer in layers
    )
    if last.get("training_schedule.scenarios"):  # replaces the levels of a file
        replaced = {key for key in settings if key.startswith("training_schedule.") and not key.endswith("strict")}
        below, file = ({key: layer[key] for key in layer.keys() - replaced} for layer in (below, file))
    boat = boat_of(below | file | last) if is_named else None
    read = below | (boat.derived if boat else {}) | file | last
    for section in LEVEL_KINDS:
        read |= _read_levels(section, [below, file, last], boat)
    read |= {key: _reference(group, read[key]) for key, group in PARTS.items() if key in read}
    read = {
        key: value
        for key, value in read.items()
        if value is not None or NoneType in members_of(strip_annotated(settings[key].annotation))
    }
    stated = {key: value for key, value in (file | last).items() if key in read}
    try:
        config = _changed(config, "", read)
    except ConfigError as error:
        key = str(error).partition("=")[0]
        word = layers[2].get(key)
        hint = word.in_full(settings[key].annotation) if isinstance(word, Word) else ""
        raise ConfigError(f"{error}{hint}") from error
    if not config.env.built_in:
        ineffective = stated.keys() & {"draw_evaluations"}
        ineffective |= {"agent.risk"} if stated.get("agent.risk") == "adaptive" else set()
        for key in sorted(ineffective):
            require(False, key, stated[key], f"left out: it has no effect in {config.env.name}")
    return _with_stated_rewards(config, stated, last)


def agent_name(name: str) -> str:
    """Return an agent's name as the registry has it, for one in other letters such as ac_iqn."""
    return {plain_name(agent): agent for agent in AGENTS}.get(plain_name(name), name)


def _reference(group: str, value: Any) -> Any:
    """Return names of users' parts as ``package.module:Name``; anything else as it is."""
    if isinstance(value, list | tuple):
        return [_reference(group, part) for part in value]
    if not isinstance(value, str) or value in AGENTS:
        return value
    entry, equals, name = value.rpartition("=")
    return entry + equals + plugins.reference_of(group, name)


# Rewards and levels -----------------------------------------------------------------------------


def _with_stated_rewards(config: TrainConfig[Any], stated: Collection[str], last: Collection[str]) -> TrainConfig[Any]:
    """Let a run be trained on the rewards that are stated, for training or for the world.

    Args:
        config: configuration as it was read.
        stated: keys that are stated.
        last: those of them that override a file.

    Raises:
        ConfigError: when both are stated, and contradict.
    """
    changes: dict[str, float | None] = {}
    for name in TRAINED:
        training_key, world_key = f"training.reward.{name}", f"world.reward.{name}"
        trained, usual = getattr(config.training.reward, name), getattr(config.world.reward, name)
        if world_key in stated and training_key not in stated:
            changes[training_key] = None
            if name == "collision_penalty":  # it replaces that of a scenario file, too
                require(usual <= 0.0, world_key, usual, "at most 0, to be trained on")
                changes[training_key] = usual
        elif world_key in last or (world_key in stated and usual != getattr(RewardConfig, name)):
            # A file's default contradicts nothing: whole configurations state it beside the other.
            require(trained in (usual, None), training_key, trained, f"{usual}, as {world_key} has it, or left out")
    training_key, world_key = (f"{section}.reward.collision_penalty" for section in ("training", "world"))
    if "training_schedule.scenarios" in stated and not {training_key, world_key} & set(stated):
        changes[training_key] = None  # each episode may state its own
    return _changed(config, "", changes) if changes else config


def _read_levels(section: str, layers: Sequence[dict[str, Any]], boat: Boat | None = None) -> dict[str, Any]:
    """Make the levels of a schedule of the objects, or of the columns, that are stated.

    Args:
        section: training_schedule or eval_schedule.
        layers: settings by dotted key, each laid over those before.
        boat: boat that is named, to which distances that are not stated are scaled.

    Returns:
        The levels under their key; empty when nothing is stated.

    Raises:
        ConfigError: when levels cannot be made of it.
    """
    kind, key = LEVEL_KINDS[section], f"{section}.levels"
    scale = boat.scale if boat else None
    usual = [scaled(level, scale) for level in as_levels(kind, LEVELS)]
    levels: list[Level] | None = None
    for layer in layers:
        if layer.get(key) is not None:
            stated = enumerate(_listed(layer[key]), 1)
            levels = [make_level(kind, level, f"{key}: level {number}", scale) for number, level in stated]
        columns = {
            name: _listed(layer[f"{section}.{name}"])
            for name in COLUMNS[section]
            if layer.get(f"{section}.{name}") is not None
        }
        if columns:
            levels = _with_columns(section, usual if levels is None else levels, columns)
    if levels is None and scale and not any(layer.get(f"{section}.scenarios") for layer in layers):
        levels = usual
    return {} if levels is None else {key: tuple(levels)}


def _with_columns(section: str, levels: Sequence[Level], columns: dict[str, tuple[Any, ...]]) -> list[Level]:
    """Lay columns, such as ``num_robots`` with a number for each level, over levels.

    Files of the original project have them. Columns of all sizes make new levels.

    Args:
        section: training_schedule or eval_schedule.
        levels: levels that the columns override.
        columns: values by name.

    Raises:
        ConfigError: when the columns are not as long as the levels, or a value cannot be used.
    """
    kind = LEVEL_KINDS[section]
    rows = [dict(vars(level)) for level in levels]
    if columns.keys() >= {*SIZES}:
        rows = [{} for _ in columns["num_robots"]]
    for name, column in columns.items():
        allowed = f"{len(rows)} long, one for each level; levels of another number are {section}.levels"
        require(len(column) == len(rows), f"{section}.{name}", column, allowed)
        for row, value in zip(rows, column, strict=True):
            row[COLUMNS[section][name]] = value
    return [make_level(kind, row, f"{section}.levels: level {number}") for number, row in enumerate(rows, 1)]


def _listed(value: Any) -> tuple[Any, ...]:
    """Return a list as it is, and a single value as a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


# Messages and construction ----------------------------------------------------------------------


def unknown(key: str, value: Any, keys: list[str]) -> str:
    """Return the message for a key that does not exist."""
    inside = [name for name in keys if name.startswith(f"{key}.")]
    if inside:
        other = f"; or is it {key}_type={value}?" if f"{key}_type" in keys else ""
        return f"{key}={brief(value)}: must be an object with settings such as {inside[0]}{other}"
    close = closest(key, keys)
    hint = f"the closest: {', '.join(close)}" if close else "see marinenav train --help"
    return f"{key}={brief(value)}: there is no such setting; {hint}"


def _changed(config: Config, prefix: str, values: dict[str, Any]) -> Config:
    """Return a configuration with new values for dotted keys; each section is checked as a whole."""
    changes: dict[str, Any] = {}
    for item in fields(config):  # type: ignore[arg-type]
        key, value = prefix + item.name, getattr(config, item.name)
        if is_dataclass(value):
            changes[item.name] = _changed(value, f"{key}.", values)
        elif key in values:
            changes[item.name] = values[key]
    return replace(config, **changes)  # type: ignore[type-var]
