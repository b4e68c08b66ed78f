"""Suites that are frozen by size, seed and a hash of their scenarios, so that a change of the scenarios is noticed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.physics.shores import has_shores
from marinenav_env.scenarios.episode import stack_episodes
from marinenav_env.scenarios.parameters import COMMAND_FIELDS, build_parameters
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from marinenav_env.vessels import PUBLISHED_VESSEL, largest_value, scaled_world
from train_RL_agents.evaluation.suites.sets import Part, ScenarioSet
from train_RL_agents.utils.files import sha256_of
from train_RL_agents.utils.shipped import shipped_paths

FROZEN_SEED = 20_261
"""Seed of the scenarios and the measurement noise of all frozen suites."""


class FrozenSuite(NamedTuple):
    """Size and scenarios of a frozen suite."""

    episodes: int
    """Number of episodes, per group or level (see Suite.episodes)."""
    scenarios: str
    """Hash of its scenarios, see scenario_hash."""


FROZEN_SUITES: dict[str, FrozenSuite] = {
    "dnv": FrozenSuite(10, "2afd41341b57d5a13afecf3f267829e7"),
    "dnv_own": FrozenSuite(10, "64ebb7dea3bf877b9b751d42d4550510"),
    "imazu_ntnu": FrozenSuite(10, "56a586e2157078746bb75a193151f002"),
    "imazu_ntnu_own": FrozenSuite(10, "602f0a691212e0716585834fc154f3ba"),
    "unruly": FrozenSuite(25, "c9a2638ed79790acc3825f677cc18c47"),
    "fresh": FrozenSuite(500, "84489a30e440c4a26970b329ee35068f"),
    "currents": FrozenSuite(300, "cd55624001f601aa47ed3c97f50053b0"),
    "crowd": FrozenSuite(100, "606aeedc53b0b9986f251f20090b9bda"),
    "noise": FrozenSuite(50, "6759d8745f03466dd54e00c0946f323a"),
    "vessels": FrozenSuite(100, "fa643d6b688dd742ceb57b6b3706839a"),
    "weather": FrozenSuite(100, "6807b0b5b4c60ee61671812bb0f113dc"),
    "faults": FrozenSuite(100, "6fbaa7e6ae3fc3e1afa1112fd70f8c1b"),
    "rules": FrozenSuite(100, "2566abe7f889ef73d09eeab21a0657c8"),
    "encounters": FrozenSuite(25, "73617b022372958adece8bf2bcd31b5c"),
    "imazu": FrozenSuite(20, "9e60a1249e0b2e9a731096474454e551"),
    "encounters_own": FrozenSuite(25, "8bd83129b263325d780a3578acd281d1"),
    "imazu_own": FrozenSuite(20, "f696bb4fef4500db8560b4012ee4cda0"),
}
"""Frozen suites in the order of reports: first external situations and misbehaving vessels."""
OWN_ENTRIES = ("max_objects", "scan_beams", "scan_angle", "duties", "objects_id", "entries")
"""Settings of the sensor that say what a policy observes, which its own world has."""
_UNHASHED_PARAMETERS = {*COMMAND_FIELDS, "max_objects", "table_row"}
"""Names of parameters that hashes leave out, because policies may choose them or they follow from others."""


def frozen_world(own: WorldConfig) -> WorldConfig:
    """Return the published world, scaled to the boat of a policy's own world and with its sensor and commands."""
    world = WorldConfig() if own.vessel.name == PUBLISHED_VESSEL else scaled_world(own.vessel)
    most = largest_value(world.vessel.max_thrust_rate)
    commands = {name: getattr(own.vessel, name) for name in COMMAND_FIELDS}
    for name, values in commands.items():
        is_allowed = max(map(abs, values)) <= most
        require(is_allowed, f"world.vessel.{name}", values, f"at most {most:g} N/s in frozen suites")
    sensor = {name: getattr(own.sensor, name) for name in OWN_ENTRIES}
    return replace(
        world,
        vessel=replace(world.vessel, **commands),
        sensor=replace(world.sensor, **sensor),
        scenario=replace(world.scenario, shore_segments=own.scenario.shore_segments),
    )


# Hashes -----------------------------------------------------------------------------------------


def scenario_hash(scenario_set: ScenarioSet) -> str:
    """Return the hash (half of SHA-256) of everything that episodes depend on except the policy.

    Numbers are rounded to 1e-6, so that all machines compute the same hash. Tensors of zeros are left out, so that a
    new setting that is off does not change hashes. The hash includes the files of policies that steer other vessels.
    """
    digest = hashlib.sha256(repr(scenario_set.groups).encode())
    for part in scenario_set.parts:
        digest.update(repr((part.only_own, part.world.dt, part.world.substeps, part.world.max_steps)).encode())
        digest.update(part.others.encode())
        folder = shipped_paths("pretrained").get(part.others.removeprefix("blind:"))
        digest.update(b"" if folder is None else f" {sha256_of(folder / 'policy.pt')}".encode())
        digest.update(b"" if part.seed is None else f" {part.seed}".encode())
        for name, tensor in sorted(_named_tensors(part)):
            if tensor.any():
                rounded = (tensor.double() * 1e6).round().to(torch.int64)
                digest.update(f"{name} {list(rounded.shape)}".encode() + rounded.numpy().tobytes())
    return digest.hexdigest()[:32]


def _named_tensors(part: Part) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) for all tensors of a part's scenarios and worlds."""
    options = torch.device("cpu"), torch.float64
    if isinstance(part.scenarios, Scenario):
        scenario = part.scenarios
        robots = scenario.robot_mask.shape[-1]
        parameters, quantiles = build_parameters([part.world], robots, *options)
    else:
        scenario, parameters, quantiles = stack_episodes(part.scenarios, *options)
    if not has_shores(scenario):  # there may be room for shores
        scenario = scenario.replace(shores=None, route=None, map_size=None)
    yield "quantiles", quantiles
    containers: Iterable[TensorDictBase] = (scenario.to_tensordict(), parameters.to_tensordict())
    for container in containers:
        for name, tensor in container.items(include_nested=True, leaves_only=True):
            keys = name if isinstance(name, tuple) else (name,)
            if keys[-1] not in _UNHASHED_PARAMETERS:
                yield ".".join(keys), tensor
