"""Reading of configurations from files, Python programs and the command line.

A file states only what differs from the defaults, as nested objects or with dotted keys; settings from
a program or the command line override it. The dataclasses convert each value to the type that its field
declares, and check it.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any

from marinenav_env.config import RewardConfig, VesselConfig
from marinenav_env.levels import Level
from marinenav_env.support import plugins
from marinenav_env.support.validation import (
    ConfigError,
    field_types,
    replace_settings,
    require,
    strip_annotated,
    union_members,
)
from train_RL_agents.agents import AGENTS, registered_agent_name
from train_RL_agents.config.boat import BOAT_KEY, UNIT_SCALE, merge_boat_settings, merge_profiles
from train_RL_agents.config.levels import LEVEL_CLASSES, LEVEL_COLUMNS, level_to_dict, read_levels
from train_RL_agents.config.overrides import (
    CommandLineValue,
    Overrides,
    flatten,
    flatten_overrides,
    unknown_setting_message,
)
from train_RL_agents.config.schema import TRAINING_REWARD_NAMES, TrainConfig
from train_RL_agents.utils.files import read_json
from train_RL_agents.utils.shipped import require_config

PLUGIN_GROUPS = {
    "agent_type": plugins.AGENTS,
    "agent.entry_encoders": plugins.ENCODERS,
    "env.name": plugins.ENVIRONMENTS,
    "world.reward.function": plugins.REWARDS,
    "world.sensor.entries": plugins.OBSERVATIONS,
    "training_schedule.sampler": plugins.SCENARIOS,
}
"""Entry-point group of the plugins that the value of a setting may name, by key of the setting."""
_OLD_SETTINGS = {f"execution.{name}": f"trainer.{name}" for name in ("precision", "tf32", "fused_optimizer")}
"""New keys of settings that saved configurations of version 0.2 have under other keys."""
_IGNORED_SETTINGS = ("training_time", "execution.kernel", "draw_evaluations", "on_divergence")
"""Keys that files may have and that are ignored: a record of other programs, and settings of version 0.2."""
_REMOVED_SETTINGS = {
    "trainer.scale_returns": False,
    "agent.value_clip": 0.0,
    "agent.state_dependent_std": False,
    "agent.normalize_observations": False,
}
"""Settings that earlier saved configurations have and that no longer exist, with the values without effect."""


@dataclass(frozen=True)
class Setting:
    """A setting of a configuration, with its type and value."""

    key: str
    """Dotted name of the setting."""
    annotation: Any
    """Declared type; typing.Annotated adds its bounds."""
    value: Any
    """Value in the configuration that the setting was read from; in a new configuration, its default."""
    section: type[Any]
    """Dataclass that declares the setting as a field."""


def iterate_settings(config: Any, prefix: str = "") -> Iterator[Setting]:
    """Yield every setting of a configuration or a section of one, nested sections last; keys begin with ``prefix``."""
    sections = []
    kind: Any = type(config)
    for name, annotation in field_types(kind).items():
        key, value = prefix + name, getattr(config, name)
        if is_dataclass(value):
            sections.append((key, value))
        else:
            yield Setting(key, annotation, value, kind)
    for key, section in sections:
        yield from iterate_settings(section, f"{key}.")


def known_settings(config: TrainConfig[Any]) -> dict[str, Setting]:
    """Return every setting that a file or an override may state, by key.

    In addition to those of ``config`` these are columns of levels (LEVEL_COLUMNS) and the name of a boat (BOAT_KEY).
    """
    columns = (
        Setting(f"{section}.{name}", tuple[float, ...], (), LEVEL_CLASSES[section])
        for section, names in LEVEL_COLUMNS.items()
        for name in names
    )
    boat = Setting(BOAT_KEY, str, VesselConfig.name, VesselConfig)
    return {setting.key: setting for setting in (*iterate_settings(config), *columns, boat)}


def setting_text(value: Any) -> str:
    """Return the text of a setting's value as it could be given on the command line."""
    if isinstance(value, list | tuple):
        texts = [*map(setting_text, value)]
        return texts[0] if len(texts) == 1 else f"[{','.join(texts)}]"
    if isinstance(value, Level):
        return json.dumps(level_to_dict(value))
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def changed_settings(config: TrainConfig[Any]) -> dict[str, str]:
    """Return the texts of the settings that differ from the defaults of the agent, whose name is among them, by key."""
    defaults = {item.key: item.value for item in iterate_settings(TrainConfig(agent_type=config.agent_type))}
    return {
        item.key: setting_text(item.value)
        for item in iterate_settings(config)
        if item.value != defaults[item.key] or item.key == "agent_type"
    }


# From and to files ------------------------------------------------------------------------------


def load_config(path: Path | None, overrides: Overrides = ()) -> TrainConfig[Any]:
    """Read a configuration from a JSON file, or the shipped one of that name, and overrides; None for the defaults.

    Overrides are values by name (dotted or nested), or ``key=value`` arguments.
    """
    return from_dict(read_file_settings(path), overrides)


def read_file_settings(path: Path | None, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Return the settings of a JSON file, or of the shipped configuration ``path``, by dotted key; empty for None.

    With ``"extends": NAME``, the file adds to another one, which lies next to it or is shipped, and overrides it.
    """
    if path is None:
        return {}
    file = require_config(path)
    values = flatten(read_json(file))
    base = values.pop("extends", None)
    require(base is None or isinstance(base, str), f"{path}: extends", base, "the name of one configuration")
    extended_by += (file.resolve(),)
    settings = {}
    if base:
        beside = file.parent / base
        extended = require_config(beside if beside.is_file() else Path(base), f"{path}: extends")
        require(extended.resolve() not in extended_by, f"{path}: extends", base, "a file that does not extend this one")
        settings = read_file_settings(extended, extended_by)
    return settings | {key: value for key, value in values.items() if key not in _IGNORED_SETTINGS}


def apply_overrides(config: TrainConfig[Any], overrides: Overrides) -> TrainConfig[Any]:
    """Return a copy of a configuration with overrides applied; raises the errors of ``load_config``."""
    return from_dict(to_dict(config), overrides, is_complete=True)


def restore_config(values: dict[str, Any], source: str) -> TrainConfig[Any]:
    """Make a configuration from the saved settings of a complete one."""
    if "execution" not in values:
        raise ConfigError(f"{source}: has settings of a version before 0.2, which this one does not read")
    flat = {key: value for key, value in flatten(values).items() if key not in _IGNORED_SETTINGS}
    settings = {_OLD_SETTINGS.get(key, key): value for key, value in flat.items()}
    if isinstance(settings.get("loggers"), list):
        settings["loggers"] = [name for name in settings["loggers"] if name != "mlflow"]  # of version 0.2, too
    for key in [key for key, value in _REMOVED_SETTINGS.items() if settings.get(key) == value]:
        del settings[key]
    return from_dict(settings, is_complete=True)


def to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration, or a section of one, as nested dicts of JSON types; ``from_dict`` is the inverse."""
    content = asdict(config)
    for section in LEVEL_CLASSES.keys() & content.keys():
        content[section]["levels"] = [*map(level_to_dict, getattr(config, section).levels)]
    return dict(json.loads(json.dumps(content)))


def from_dict(values: dict[str, Any], overrides: Overrides = (), is_complete: bool = False) -> TrainConfig[Any]:
    """Make a configuration from the settings of a file, nested or dotted, and overrides, a dict or words ``KEY=VALUE``.

    None stands for the default, unless the setting may be None (null in JSON). If the values are all settings
    (``is_complete``), stated ones cannot be told from defaults.
    """
    words = flatten_overrides(overrides)
    layers = [flatten(values), words]
    for layer in layers:
        if isinstance(layer.get("agent_type"), str):
            layer["agent_type"] = registered_agent_name(layer["agent_type"])
    name = (layers[0] | words).get("agent_type", TrainConfig.agent_type)
    config: TrainConfig[Any] = TrainConfig(agent_type=name)
    settings = known_settings(config)
    file, last = (_parse_values(layer, settings, name) for layer in layers)
    if last.get("training_schedule.scenarios"):  # replaces the levels of a file
        replaced = {key for key in file if key.startswith("training_schedule.") and not key.endswith("strict")}
        file = {key: file[key] for key in file.keys() - replaced}
    read, scale = merge_boat_settings(file, last, is_complete)
    read = merge_profiles(read, file, last)
    for section in LEVEL_CLASSES:
        # The levels of a schedule that a scenario file replaces keep their defaults.
        factors = UNIT_SCALE if read.get(f"{section}.scenarios") else scale
        read[f"{section}.levels"] = read_levels(section, (file, last), factors)
    read |= {key: _plugin_reference(group, read[key]) for key, group in PLUGIN_GROUPS.items() if key in read}
    read = {
        key: value
        for key, value in read.items()
        if value is not None or NoneType in union_members(strip_annotated(settings[key].annotation))
    }
    stated = {key: value for key, value in (last if is_complete else file | last).items() if key in read}
    return _with_training_rewards(replace_settings(config, read), stated, last)


def _parse_values(layer: dict[str, Any], settings: dict[str, Setting], agent: str) -> dict[str, Any]:
    """Return settings of an agent by dotted key, with values from the command line parsed by type of the setting."""
    values: dict[str, Any] = {}
    for key, value in layer.items():
        inside = any(name.startswith(f"{key}.") for name in settings)
        if isinstance(value, CommandLineValue) and (inside or key in settings):
            value = value.parse(settings[key].annotation if key in settings else dict)
        if key in settings:
            is_home = isinstance(value, str) and value.startswith("~")  # shells leave key=~/... alone
            values[key] = str(Path(value).expanduser()) if is_home else value
        elif inside and isinstance(value, dict):  # an object from the command line, or a section without settings
            values |= _parse_values(flatten(value, f"{key}."), settings, agent)
        else:
            others = [name for name in AGENTS if key in known_settings(TrainConfig(agent_type=name))]
            allowed = f"left out: {agent} has no such setting, only {', '.join(others)}"
            require(not others, key, value, allowed)
            names = sorted(settings, key=PLUGIN_GROUPS.__contains__, reverse=":" in str(value))  # a part of others
            raise ConfigError(unknown_setting_message(key, value, names))
    return values


def _plugin_reference(group: str, value: Any) -> Any:
    """Replace entry-point names in a text (``NAME`` or ``entry=NAME``) or a list by ``package.module:Name``."""
    if isinstance(value, list | tuple):
        return [_plugin_reference(group, part) for part in value]
    if not isinstance(value, str) or value in AGENTS:
        return value
    entry, equals, name = value.rpartition("=")
    return entry + equals + plugins.resolve_entry_point_name(group, name)


def _with_training_rewards(
    config: TrainConfig[Any], stated: Collection[str], overridden: Collection[str]
) -> TrainConfig[Any]:
    """Return a copy that trains with the rewards stated in ``training.reward``, or else in ``world.reward``."""
    changes: dict[str, float | None] = {}
    for name in TRAINING_REWARD_NAMES:
        training_key, world_key = f"training.reward.{name}", f"world.reward.{name}"
        trained, usual = getattr(config.training.reward, name), getattr(config.world.reward, name)
        if world_key in stated and training_key not in stated:
            changes[training_key] = None
            if name == "collision_penalty":  # it replaces that of a scenario file, too
                require(usual <= 0.0, world_key, usual, "at most 0, to be trained on")
                changes[training_key] = usual
        elif world_key in overridden or (world_key in stated and usual != getattr(RewardConfig, name)):
            # A default in a file is not a contradiction, because complete configurations state both values.
            require(trained in (usual, None), training_key, trained, f"{usual}, as {world_key} has it, or left out")
    training_key, world_key = (f"{section}.reward.collision_penalty" for section in ("training", "world"))
    if "training_schedule.scenarios" in stated and not {training_key, world_key} & set(stated):
        changes[training_key] = None  # each episode may state its own
    return replace_settings(config, changes) if changes else config
