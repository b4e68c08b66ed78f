"""Configuration from JSON files and ``key=value`` arguments, by one mechanism.

A file states only what differs from the defaults, as nested objects or with dotted keys. Keys given
on the command line are laid over it; a value there is JSON, or else plain text. The dataclasses
convert each value to the type that its field declares, and check it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_type_hints

from marinenav_env import LEVELS, Level
from marinenav_env.config import RewardConfig
from marinenav_env.support import files, plugins
from marinenav_env.support.validation import ConfigError, brief, members_of, require
from train_RL_agents.agents import AGENTS
from train_RL_agents.config.levels import SIZES, as_levels, level_dict, make_level
from train_RL_agents.config.overrides import in_full, read_word, split
from train_RL_agents.config.schema import LEVEL_KINDS, TRAINED, TrainConfig, TrainingSchedule
from train_RL_agents.utils.closest import closest, did_you_mean
from train_RL_agents.utils.shipped import find_shipped, shipped

Config = TypeVar("Config")

_WHAT = "JSON settings"
_DEEPEST = 20
"""Objects inside one another, or dots in a key."""


_PARTS = {
    "agent_type": plugins.AGENTS,
    "agent.entry_encoders": plugins.ENCODERS,
    "world.reward.function": plugins.REWARDS,
    "world.sensor.entries": plugins.OBSERVATIONS,
    "training_schedule.sampler": plugins.SCENARIOS,
}
"""Settings that name parts of a user's, with the group of their entry points."""
_IN_EXECUTION = ("device", "threads", "compile", "capture", "precision", "tf32", "fused_optimizer")
MOVED = {
    "agent.duelling": "agent.dueling",
    "trainer.average_decay": "trainer.ema_decay",
    **{f"trainer.{name}": f"training.reward.{name}" for name in TRAINED},
    "world.kernel": "execution.kernel",
    **{name: f"execution.{name}" for name in _IN_EXECUTION},
}
"""Former names of settings, which files and saved runs may still use, and their present ones."""

_PLURALS = {"weight": "weights", "starts_at": "timesteps"}
COLUMNS = {
    section: {_PLURALS.get(item.name, item.name): item.name for item in fields(kind)}
    for section, kind in LEVEL_KINDS.items()
}
"""Columns that levels may be given as, by section, with the field of a level that each fills."""


_RECORDED = {"training_time"}
"""Keys of files that programs of the field write into run folders, and that set nothing."""


@dataclass(frozen=True)
class Setting:
    """One key of the configuration."""

    key: str
    """Dotted name."""
    annotation: Any
    """Declared type."""
    default: Any
    """Value when nothing is said about it."""


# From and to files ------------------------------------------------------------------------------


def load_config(path: Path | None, overrides: Sequence[str] = ()) -> TrainConfig[Any]:
    """Read a configuration.

    Args:
        path: JSON file, or the name of a configuration that is shipped; None for the defaults.
        overrides: ``key=value`` arguments, laid over the file; of two for a key, the last counts.

    Raises:
        ConfigError: when the file cannot be read, a key is not known, or a value is of the wrong
            type or out of range.
    """
    values, words = file_settings(path), dict(map(split, overrides))
    own, asked = (agent_name(str(each.get("agent_type", ""))) for each in (values, words))
    if own != asked and {own, asked} <= AGENTS.keys():
        theirs, known = ({setting.key for setting in settings_of(default_config(name))} for name in (own, asked))
        if flat_settings(values).keys() & (theirs - known):
            raise ConfigError(
                f"agent_type={asked}: {path} is a configuration of {own}, with settings that "
                f"{asked} lacks{_for_agent(asked)}"
            )
    return from_dict(values, overrides)


def _for_agent(name: str) -> str:
    """Return the end of a sentence that proposes the configuration shipped for an agent."""
    own = name.lower().replace("-", "_")
    return f"; {own} is one of {name}" if own in shipped("configs") else ""


def file_settings(path: Path | None) -> dict[str, Any]:
    """The content of a configuration file."""
    if path is None:
        return {}
    found, known = find_shipped("configs", path), ", ".join(shipped("configs"))
    hint = did_you_mean(path.stem, shipped("configs"))
    require(found.exists(), "config", str(path), f"a JSON file{hint or f' or one of {known}'}")
    return {key: value for key, value in read_json(found).items() if key not in _RECORDED}


def saved_config(values: dict[str, Any]) -> TrainConfig[Any]:
    """Make a configuration from one that was saved whole, perhaps before some settings existed."""
    given = flatten(values)
    agent = default_config(given.get("agent_type", TrainConfig.agent_type)).agent
    added = {f"agent.{name}": value for name, value in agent.ADDED.items()}
    return from_dict({}, saved=added | given)


def from_dict(
    values: dict[str, Any], overrides: Sequence[str] = (), saved: dict[str, Any] | None = None
) -> TrainConfig[Any]:
    """Make a configuration from the content of a file; see load_config.

    Null stands for the default, unless the field may be null.

    Args:
        values: what the file states.
        overrides: see load_config.
        saved: a whole configuration below these, of which nobody knows what was stated.
    """
    below, given = flat_settings(saved or {}), flat_settings(values)
    texts = dict(map(split, overrides))
    for each in (below, given, texts):
        if isinstance(each.get("agent_type"), str):
            each["agent_type"] = agent_name(each["agent_type"])
    named = (below | given | texts).get("agent_type", TrainConfig.agent_type)
    config = default_config(named)
    below, given = (
        {key: value for key, value in each.items() if value != {} or not _is_section(config, key)}
        for each in (below, given)
    )
    known = known_settings(config)
    for key, value in (below | given | texts).items():
        if key not in known:
            raise ConfigError(unknown(key, value, list(known)))
    typed = {key: read_word(text, known[key].annotation) for key, text in texts.items()}
    read = below | given | typed
    for section in LEVEL_KINDS:
        read |= _read_levels(section, [below, given, typed])
    read |= {key: _reference(group, read[key]) for key, group in _PARTS.items() if key in read}
    for key in [key for key, value in read.items() if value is None]:
        if NoneType not in members_of(known[key].annotation):
            del read[key]
    said = {key: value for key, value in (given | typed).items() if key in read}
    try:
        config = _changed(config, "", read)
    except ConfigError as error:
        key = str(error).partition("=")[0]
        hint = in_full(texts[key], known[key].annotation) if key in texts else ""
        if not hint:
            raise
        raise ConfigError(f"{error}{hint}") from error
    # Levels of a file may be replaced on the command line.
    config = _without_levels(config, typed if "training_schedule.scenarios" in typed else said)
    return _with_stated_rewards(config, said, texts)


def _with_stated_rewards(config: TrainConfig[Any], stated: Collection[str], typed: Collection[str]) -> TrainConfig[Any]:
    """Let a run be trained on the rewards that are stated, for training or for the world.

    Args:
        config: as it was read.
        stated: keys that are given.
        typed: those of them that are arguments of the command.

    Raises:
        ConfigError: when both are stated, and contradict.
    """
    changes: dict[str, float | None] = {}
    for name in TRAINED:
        own, shared = f"training.reward.{name}", f"world.reward.{name}"
        mine, theirs = getattr(config.training.reward, name), getattr(config.world.reward, name)
        if shared in stated and own not in stated:
            changes[own] = None
            if name == "collision_penalty":  # it replaces that of a scenario file, too
                require(theirs <= 0.0, shared, theirs, "at most 0, to be trained on")
                changes[own] = theirs
        elif shared in typed or (shared in stated and theirs != getattr(RewardConfig, name)):
            # A file's default contradicts nothing: whole configurations state it beside the other.
            require(mine in (theirs, None), own, mine, f"{theirs}, as {shared} has it, or left out")
        elif mine == theirs and name != "collision_penalty":
            changes[own] = None
    own, shared = (f"{each}.reward.collision_penalty" for each in ("training", "world"))
    if "training_schedule.scenarios" in stated and not {own, shared} & set(stated):
        changes[own] = None  # each episode may state its own
    return _changed(config, "", changes) if changes else config


def _read_levels(section: str, layers: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make the levels of a schedule of the objects, or of the columns, that are stated.

    Args:
        section: training_schedule or eval_schedule.
        layers: settings by dotted key, each laid over those before.

    Returns:
        The levels under their key; empty when nothing is stated.

    Raises:
        ConfigError: when levels cannot be made of it.
    """
    kind, key = LEVEL_KINDS[section], f"{section}.levels"
    stated: Any = None
    columns: dict[str, tuple[Any, ...]] = {}
    for layer in layers:
        if layer.get(key) is not None:
            stated, columns = layer[key], {}
        given = {name: layer.get(f"{section}.{name}") for name in COLUMNS[section]}
        columns |= {name: _listed(value) for name, value in given.items() if value is not None}
    if stated is None and not columns:
        return {}
    stated = as_levels(kind, LEVELS) if stated is None else _listed(stated)
    levels = [
        each if isinstance(each, Level) else make_level(kind, each, where) for where, each in _numbered(key, stated)
    ]
    return {key: _with_columns(section, levels, columns)}


def _with_columns(section: str, levels: Sequence[Level], columns: dict[str, tuple[Any, ...]]) -> tuple[Level, ...]:
    """Make levels of columns, such as ``num_robots`` with a number for each level.

    Files of the original project have them. A column replaces a field of every level, an empty one
    by its default; columns of all sizes may make levels of another number.

    Args:
        section: training_schedule or eval_schedule.
        levels: what the columns are laid over.
        columns: values by name.

    Raises:
        ConfigError: when the columns do not fit together, or a value cannot be used.
    """
    kind, key, names = LEVEL_KINDS[section], f"{section}.levels", COLUMNS[section]
    first = columns.get("num_robots", levels)
    where = f"{section}.num_robots" if "num_robots" in columns else key
    require(len(first) > 0, where, first, "of one level or more")
    for name, column in columns.items():
        allowed = f"as long as num_robots, {len(first)} long"
        require(len(column) in (len(first), 0), f"{section}.{name}", column, allowed)
    made = [dict(vars(level)) for level in levels]
    if len(first) != len(levels):
        lacking = next((name for name in SIZES if not columns.get(name)), "")
        require(not lacking, where, first, f"{len(levels)} long, as {lacking} is, or {lacking} stated with it")
        made = [{} for _ in first]
    for name, column in columns.items():
        usual = (getattr(kind, names[name]),) * len(first)
        for level, value in zip(made, column or usual, strict=True):
            level[names[name]] = value
    try:
        return tuple(make_level(kind, each, where) for where, each in _numbered(key, made))
    except ConfigError as error:  # name what was written
        blamed = {
            f"level {number}: {names[name]}": f"{section}.{name}"
            for name in columns
            for number in range(1, len(made) + 1)
        }
        found, _, rest = str(error).removeprefix(f"{key}: ").partition("=")
        raise ConfigError(f"{blamed.get(found, f'{key}: {found}')}={rest}") from error


def _listed(value: Any) -> tuple[Any, ...]:
    """Return a list as it is, and a single value as a list of one."""
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _numbered(key: str, levels: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield what messages call each level, and the level."""
    return ((f"{key}: level {number}", each) for number, each in enumerate(levels, 1))


def _without_levels(config: TrainConfig[Any], stated: dict[str, Any]) -> TrainConfig[Any]:
    """Put the default levels, which are not used, in the place of others beside a scenario file.

    Args:
        config: as it was read.
        stated: settings that are given.

    Raises:
        ConfigError: for the first setting of levels that is stated.
    """
    schedule, usual = config.training_schedule, TrainingSchedule()
    if not schedule.scenarios:
        return config
    for key, value in stated.items():
        section, _, name = key.partition(".")
        if section == "training_schedule" and name not in ("scenarios", "strict"):
            # Whole configurations state defaults, too.
            part = "sampler" if name == "sampler" else "levels"
            allowed = f"left out: training_schedule.scenarios={schedule.scenarios} takes its place"
            require(getattr(schedule, part) == getattr(usual, part), key, value, allowed)
    alone = TrainingSchedule(scenarios=schedule.scenarios, strict=schedule.strict)
    return replace(config, training_schedule=alone)


def stated_keys(path: Path | None, overrides: Sequence[str] = ()) -> set[str]:
    """Dotted names of the settings that a file and arguments give; see load_config."""
    return {*flat_settings(file_settings(path)), *dict(map(split, overrides))}


def override(config: TrainConfig[Any], overrides: Sequence[str]) -> TrainConfig[Any]:
    """The same configuration with other values for some keys; see load_config."""
    return from_dict({}, overrides, to_dict(config))


def to_dict(config: Any) -> dict[str, Any]:
    """The whole configuration as JSON holds it; from_dict makes an equal one of it."""
    content = asdict(config)
    for section in LEVEL_KINDS.keys() & content.keys():
        content[section]["levels"] = [*map(level_dict, getattr(config, section).levels)]
    return dict(json.loads(json.dumps(content)))


def default_config(agent_type: str) -> TrainConfig[Any]:
    """The defaults for an agent.

    Raises:
        ConfigError: when there is no such agent.
    """
    return TrainConfig(agent_type=agent_type)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON file that holds an object.

    Raises:
        ConfigError: when it cannot be read or holds something else.
    """
    return parse_json(files.read_text(path, _WHAT), str(path))


def parse_json(text: Any, name: str) -> dict[str, Any]:
    """Parse a JSON object.

    Args:
        text: the JSON.
        name: where it is from, for messages.

    Raises:
        ConfigError: when it is no text, no JSON or no object.
    """
    content = files.parse_json(text, name, _WHAT)
    require(isinstance(content, dict), name, content, "a JSON object with settings")
    return dict(content)


def flatten(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested objects as one with dotted keys.

    Raises:
        ConfigError: when a key is given both ways, or objects are nested too deeply.
    """
    require(prefix.count(".") < _DEEPEST, prefix[:-1], "{...}", "nested less deeply")
    flat: dict[str, Any] = {}
    for name, value in nested.items():
        key = prefix + name
        # An empty object stays: it may be given in place of a value.
        nests = isinstance(value, dict) and value
        inner = flatten(value, f"{key}.") if nests else {key: value}
        for twice in inner.keys() & flat.keys():
            require(False, twice, inner[twice], "given once, nested or dotted")
        flat |= inner
    return flat


def _is_section(config: TrainConfig[Any], key: str) -> bool:
    """Whether a dotted key names a group of settings."""
    found: Any = config
    for name in key.split("."):
        found = getattr(found, name, None)
    return is_dataclass(found)


def flat_settings(nested: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a file by dotted key, under their present names.

    Raises:
        ConfigError: when a key is given twice, also under its former name; see flatten.
    """
    found: dict[str, Any] = {}
    for key, value in flatten(nested).items():
        # Saved configurations of a version that measured kernels have this value.
        if (key, value) == ("world.kernel", "auto"):
            continue
        name = MOVED.get(key, key)
        require(name not in found, name, value, f"given once{_formerly(name)}")
        found[name] = value
    return found


def _formerly(name: str) -> str:
    """Return the end of a sentence that says what a setting was called before."""
    return "".join(f"; {key} is its former name" for key, new in MOVED.items() if new == name)


def agent_name(name: str) -> str:
    """An agent's name as the registry has it, for one in other letters such as ac_iqn."""

    def plain(text: str) -> str:
        return re.sub(r"[-_]", "", text).lower()

    return {plain(known): known for known in AGENTS}.get(plain(name), name)


def _reference(group: str, value: Any) -> Any:
    """Names of users' parts as ``package.module:Name``; anything else as it is."""
    if isinstance(value, list | tuple):
        return [_reference(group, each) for each in value]
    if not isinstance(value, str) or value in AGENTS:
        return value
    entry, equals, name = value.rpartition("=")
    return entry + equals + plugins.reference_of(group, name)


def settings_of(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Every key below a configuration, those of nested sections last."""
    hints = get_type_hints(type(config))
    sections = []
    for item in fields(config):
        key, value = prefix + item.name, getattr(config, item.name)
        if is_dataclass(value):
            sections.append((key, value))
        else:
            yield Setting(key, hints[item.name], value)
    for key, section in sections:
        yield from settings_of(section, f"{key}.")


def known_settings(config: TrainConfig[Any]) -> dict[str, Setting]:
    """Return every key that can be given, with the columns that levels may be given as."""
    columns = (
        Setting(f"{section}.{name}", tuple[float, ...], ()) for section, names in COLUMNS.items() for name in names
    )
    return {setting.key: setting for setting in (*settings_of(config), *columns)}


# Messages and construction ----------------------------------------------------------------------


def unknown(key: str, value: Any, known: list[str]) -> str:
    """Return the message for a key that does not exist."""
    if key in MOVED:
        return f"{key}={brief(value)}: the setting is called {MOVED[key]} now"
    inside = [name for name in known if name.startswith(f"{key}.")]
    if inside:
        other = f"; or is it {key}_type={value}?" if f"{key}_type" in known else ""
        return f"{key}={brief(value)}: must be an object with settings such as {inside[0]}{other}"
    close = closest(key, known)
    hint = f"the closest: {', '.join(close)}" if close else "see marinenav train --help"
    return f"{key}={brief(value)}: there is no such setting; {hint}"


def _changed(config: Config, prefix: str, values: dict[str, Any]) -> Config:
    """A configuration with new values for dotted keys; each section is checked as a whole."""
    changes: dict[str, Any] = {}
    for item in fields(config):  # type: ignore[arg-type]
        key, value = prefix + item.name, getattr(config, item.name)
        if is_dataclass(value):
            changes[item.name] = _changed(value, f"{key}.", values)
        elif key in values:
            changes[item.name] = values[key]
    try:
        return replace(config, **changes)  # type: ignore[type-var]
    except ConfigError as error:
        names = {item.name for item in fields(config)}  # type: ignore[arg-type]
        raise ConfigError(_located(str(error), prefix, names)) from error


def _located(message: str, prefix: str, names: set[str]) -> str:
    """Name the key as the user writes it, where a check calls it by the class that it is in."""
    key = re.match(r"[\w.]+(?==)", message)
    if key is None or key[0].startswith(prefix or "\0"):
        return message
    last = key[0].rpartition(".")[2]
    ours = prefix + last if last in names else prefix[:-1] or key[0]
    return ours + message[key.end() :]
