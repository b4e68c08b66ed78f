"""The observation of a world: its entries, and the sensors besides perception."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.sensing.entries import KINDS, Entry, EntrySensor
from marinenav_env.sensing.perception import perception_entries
from marinenav_env.sensing.range_scan import RangeScan
from marinenav_env.support import plugins
from marinenav_env.support.validation import ConfigError, require


def observation_entries(config: WorldConfig) -> dict[str, Entry]:
    """Every entry of an observation by name, in the order of the keys.

    Raises:
        ConfigError: when a sensor that the configuration names cannot be used.
    """
    return described(config, entry_sensors(config))


def flattened(observation: Any, entries: Mapping[str, Entry]) -> Tensor:
    """All entries of observations [..., D], one after another; masks are 0 or 1.

    Args:
        observation: every entry by name, [..., *shape].
        entries: their descriptions.
    """
    parts = [observation[name].flatten(-len(entry.shape)) for name, entry in entries.items()]
    return torch.cat([part.to(parts[0].dtype) for part in parts], -1)


def described(config: WorldConfig, sensors: tuple[EntrySensor, ...]) -> dict[str, Entry]:
    """The entries of perception and of further sensors by name.

    Raises:
        ConfigError: when two have the same name.
    """
    entries: dict[str, Entry] = {}
    for entry in (*perception_entries(config), *(sensor.entry(config) for sensor in sensors)):
        require(entry.name not in entries, "world.sensor.entries", entry.name, "named once")
        entries[entry.name] = entry
    return entries


def entry_sensors(config: WorldConfig) -> tuple[EntrySensor, ...]:
    """The sensors besides perception, in the order of the purposes of their noise.

    Raises:
        ConfigError: when one that the configuration names cannot be loaded or used.
    """
    scan = (RangeScan(),) if config.sensor.scan_beams else ()
    return (*scan, *(_loaded(reference, config) for reference in config.sensor.entries))


def _loaded(reference: str, config: WorldConfig) -> EntrySensor:
    """A user's sensor.

    Raises:
        ConfigError: when it is not a usable EntrySensor.
    """
    found = plugins.resolve(plugins.OBSERVATIONS, reference)
    key = f"world.sensor.entries: {reference}"
    try:
        sensor = found() if isinstance(found, type) else found
        fine = isinstance(sensor, EntrySensor)
        require(fine, key, type(sensor).__name__, "an EntrySensor of marinenav_env")
        entry = sensor.entry(config)
    except ConfigError:
        raise
    except Exception as error:  # whatever the user's code raises
        raise ConfigError(f"{key}: {plugins.first_line(error)}") from error
    fine = isinstance(entry.name, str) and entry.name.isidentifier()
    require(fine, f"{key}.name", entry.name, "an identifier")
    require(entry.kind in KINDS, f"{key}.kind", entry.kind, f"one of {', '.join(KINDS)}")
    fine = all(isinstance(size, int) and size >= 1 for size in entry.shape)
    require(fine, f"{key}.shape", entry.shape, "whole numbers, at least 1")
    return sensor
