"""Entries of the observations of a world, and the sensors of all entries but those of sensing.perception."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.sensing.entries import ENTRY_KINDS, Entry, EntrySensor
from marinenav_env.sensing.perception import perception_entries
from marinenav_env.sensing.range_scan import RangeScan
from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError, is_number, require


def observation_entries(config: WorldConfig | None = None) -> dict[str, Entry]:
    """Return the descriptions of all observation entries by name; by default of the published world."""
    config = config or WorldConfig()
    return describe_entries(config, make_entry_sensors(config))


def flatten_observation(observation: Any, entries: Mapping[str, Entry]) -> Tensor:
    """Concatenate the entries of observations, each [..., *shape], to one tensor [..., D]; masks become 0 or 1."""
    parts = [observation[name].flatten(-len(entry.shape)) for name, entry in entries.items()]
    return torch.cat([part.to(parts[0].dtype) for part in parts], -1)


def describe_entries(config: WorldConfig, sensors: tuple[EntrySensor, ...]) -> dict[str, Entry]:
    """Return the descriptions of the entries of perception and of additional sensors by name, after checking them."""
    entries: dict[str, Entry] = {}
    for entry in (*perception_entries(config), *(sensor.entry(config) for sensor in sensors)):
        require(entry.name not in entries, "world.sensor.entries", entry.name, "named once")
        entries[entry.name] = entry
    masks = {name: entry.shape for name, entry in entries.items() if entry.kind == "mask"}
    for name, entry in entries.items():
        is_mask = not entry.mask or masks.get(entry.mask) == entry.shape[:1]
        allowed = f"an entry of kind mask with the shape {entry.shape[:1]}"
        require(is_mask, f"world.sensor.entries: {name}.mask", entry.mask, allowed)
    return entries


def make_entry_sensors(config: WorldConfig) -> tuple[EntrySensor, ...]:
    """Create the sensors of a world other than perception: the range scan and those of ``world.sensor.entries``.

    Their order assigns the random streams of their noise.
    """
    scan = (RangeScan(),) if config.sensor.scan_beams else ()
    return (*scan, *(_load_sensor(reference, config) for reference in config.sensor.entries))


def _load_sensor(reference: str, config: WorldConfig) -> EntrySensor:
    """Load a user-defined sensor, named ``package.module:Class`` or by its entry point, and check its entry."""
    plugin = plugins.resolve(plugins.OBSERVATIONS, reference)
    key = f"world.sensor.entries: {reference}"
    try:
        sensor = plugin() if isinstance(plugin, type) else plugin
        is_sensor = isinstance(sensor, EntrySensor)
        require(is_sensor, key, type(sensor).__name__, "an EntrySensor of marinenav_env")
        entry = sensor.entry(config)
    except ConfigError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise ConfigError(f"{key}: {plugins.summarize_error(error)}") from error
    is_identifier = isinstance(entry.name, str) and entry.name.isidentifier()
    require(is_identifier, f"{key}.name", entry.name, "an identifier")
    require(entry.kind in ENTRY_KINDS, f"{key}.kind", entry.kind, f"one of {', '.join(ENTRY_KINDS)}")
    is_shape = len(entry.shape) > 0 and all(isinstance(size, int) and size >= 1 for size in entry.shape)
    require(is_shape, f"{key}.shape", entry.shape, "whole numbers, at least 1")
    width = entry.shape[-1]
    is_scale = len(entry.scale) in (0, 1, width) and all(is_number(number) and number > 0.0 for number in entry.scale)
    require(is_scale, f"{key}.scale", entry.scale, f"numbers above 0, one or {width}")
    are_limits = len(entry.limits) in (1, width) and all(low <= high for low, high in entry.limits)
    require(are_limits, f"{key}.limits", entry.limits, f"pairs (low, high), one or {width}")
    return sensor
