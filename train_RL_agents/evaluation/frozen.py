"""Benchmark of suites that are fixed by size, seed and a hash of their scenarios.

A change of the scenarios of a suite changes its hash, and requires a new ``entry.BENCHMARK_VERSION``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.scenarios.parameters import COMMAND_FIELDS, build_parameters
from marinenav_env.scenarios.scenario_file import stack_episodes
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from marinenav_env.vessels import PUBLISHED_VESSEL, scaled_world
from train_RL_agents.evaluation.contenders import ActingOptions, Contender, shipped_contender
from train_RL_agents.evaluation.entry import BENCHMARK_VERSION, Entry, SuiteResult
from train_RL_agents.evaluation.recording import Recording, present_robots
from train_RL_agents.evaluation.scoring import run_and_score
from train_RL_agents.evaluation.seamanship import AsternShare, count_duties_by_role
from train_RL_agents.evaluation.suites import ENCOUNTER_SUITES, LONG_SUITE, Part, ScenarioSet, make_scenario_set
from train_RL_agents.utils.files import sha256_of
from train_RL_agents.utils.provenance import git_revision, software_versions

BENCHMARK_SEED = 20_261
"""Seed of the scenarios and the measurement noise of all suites."""
TRACKED_SUITE = "imazu"
"""Name of the suite whose tracks are stored in an entry and drawn in the certificate."""


class FrozenSuite(NamedTuple):
    """Suite of the benchmark with a fixed size and fixed scenarios."""

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
"""Suites of the benchmark in the order of reports: first external situations and misbehaving vessels."""
OPTIONAL_SUITES: dict[str, FrozenSuite] = {LONG_SUITE: FrozenSuite(66_000, "e5c61d5bae5ccf9a55d1f7d7010f95c8")}
"""Suites that an entry may have in addition to those of FROZEN_SUITES."""
_UNHASHED_PARAMETERS = {*COMMAND_FIELDS, "max_objects", "table_row"}
"""Names of parameters that hashes leave out, because policies may choose them or they follow from others."""


def benchmark_world(contender: Contender) -> WorldConfig:
    """Return the published world; for a policy, scaled to its boat and with its sensor and commands.

    Raises:
        ConfigError: if the commands are stronger than the world's limit of thrust rates.
    """
    world = WorldConfig()
    if contender.trained is None:
        return world
    own_world = contender.trained.config.world
    if own_world.vessel.name != PUBLISHED_VESSEL:
        world = scaled_world(own_world.vessel)
    limit = world.vessel.max_thrust_rate
    most = max(limit) if isinstance(limit, tuple) else limit
    commands = {name: getattr(own_world.vessel, name) for name in COMMAND_FIELDS}
    for name, values in commands.items():
        is_allowed = max(map(abs, values)) <= most
        require(is_allowed, f"world.vessel.{name}", values, f"at most {most:g} N/s in the benchmark")
    sensor = {name: getattr(own_world.sensor, name) for name in ("max_objects", "scan_beams", "scan_angle", "entries")}
    return replace(world, vessel=replace(world.vessel, **commands), sensor=replace(world.sensor, **sensor))


# Hashes -----------------------------------------------------------------------------------------


def scenario_hash(scenario_set: ScenarioSet) -> str:
    """Return the hash (half of SHA-256) of everything that episodes depend on except the policy.

    Numbers are rounded to 1e-6, so that all machines compute the same hash. Tensors of zeros are left out, so that a
    new setting that is off does not change hashes. The hash includes the files of policies that steer other vessels.
    """
    digest = hashlib.sha256(repr(scenario_set.groups).encode())
    for part in scenario_set.parts:
        digest.update(repr((part.only_own, part.world.dt, part.world.substeps, part.world.max_steps)).encode())
        digest.update((_steering_label(part.others) + ("" if part.seed is None else f" {part.seed}")).encode())
        for name, tensor in sorted(_named_tensors(part)):
            if tensor.any():
                rounded = (tensor.double() * 1e6).round().to(torch.int64)
                digest.update(f"{name} {list(rounded.shape)}".encode() + rounded.numpy().tobytes())
    return digest.hexdigest()[:32]


def _steering_label(others: str) -> str:
    """Return the name of a contender that steers other vessels, with the SHA-256 of its file if it has one."""
    trained = shipped_contender(others, torch.device("cpu")).trained if others else None
    return others if trained is None else f"{others} {sha256_of(trained.path)}"


def _named_tensors(part: Part) -> Iterator[tuple[str, Tensor]]:
    """Yield (name, tensor) for all tensors of a part's scenarios and worlds."""
    options = torch.device("cpu"), torch.float64
    if isinstance(part.scenarios, Scenario):
        scenario = part.scenarios
        robots = scenario.robot_mask.shape[-1]
        parameters, quantiles = build_parameters([part.world], robots, *options)
    else:
        scenario, parameters, quantiles = stack_episodes(part.scenarios, *options)
    yield "quantiles", quantiles
    containers: Iterable[TensorDictBase] = (scenario.to_tensordict(), parameters.to_tensordict())
    for container in containers:
        for name, tensor in container.items(include_nested=True, leaves_only=True):
            keys = name if isinstance(name, tuple) else (name,)
            if keys[-1] not in _UNHASHED_PARAMETERS:
                yield ".".join(keys), tensor


def require_frozen(entry: Entry, path: Path) -> None:
    """Check that the scenarios of an entry are those of the benchmark.

    Raises:
        ConfigError: if a suite is missing or unknown, or its scenarios differ.
    """
    for name, frozen in (FROZEN_SUITES | OPTIONAL_SUITES).items():
        if name in OPTIONAL_SUITES and name not in entry.suites:
            continue
        scenarios = entry.suites[name].scenarios if name in entry.suites else "missing"
        is_same = scenarios == frozen.scenarios
        require(
            is_same,
            f"{path}: scenarios of {name}",
            scenarios,
            f"those of benchmark {BENCHMARK_VERSION}, {frozen.scenarios}",
        )
    unknown = ", ".join(entry.suites.keys() - FROZEN_SUITES.keys() - OPTIONAL_SUITES.keys())
    require(not unknown, f"{path}: suites", unknown, f"those of benchmark {BENCHMARK_VERSION}")


# Running ----------------------------------------------------------------------------------------


def run_suite(contender: Contender, name: str, device: torch.device, episodes: int | None = None) -> SuiteResult:
    """Run a suite of the benchmark, and return its result.

    Args:
        contender: policy or baseline.
        name: name of the suite.
        device: device of the world and the policy.
        episodes: number of episodes per level or group; None for that of the benchmark.
    """
    world, options = benchmark_world(contender), ActingOptions(seed=BENCHMARK_SEED + 1)
    count = (FROZEN_SUITES | OPTIONAL_SUITES)[name].episodes if episodes is None else episodes
    scenario_set, counter = make_scenario_set(name, world, count, BENCHMARK_SEED), AsternShare()
    outcomes, recording, compliance = run_and_score(contender, scenario_set, world, options, device, "entry", counter)
    metrics = {
        group: {name: None if value is None else round(value, 4) for name, value in row.items()}
        for group, row in (compliance or {}).items()
    }
    result = SuiteResult.from_episodes(
        outcomes,
        scenarios=scenario_hash(scenario_set),
        seed=BENCHMARK_SEED,
        groups=scenario_set.groups,
        astern=round(counter.value, 4),
        compliance=metrics,
        situations=scenario_set.situations,
    )
    if recording is None or name not in ENCOUNTER_SUITES:
        return result
    controlled = 1 if scenario_set.parts[0].only_own else recording.robot_mask.shape[-1]
    return replace(
        result,
        astern=metrics["overall"]["astern"] or 0.0,
        duties=count_duties_by_role(recording, controlled),
        tracks=_first_tracks(recording, scenario_set.groups) if name == TRACKED_SUITE else (),
    )


def _first_tracks(recording: Recording, groups: Sequence[str]) -> tuple[Any, ...]:
    """Return the tracks of all vessels in the first episode of each group, in the form of ``SuiteResult.tracks``."""
    there, interval = present_robots(recording), round(1.0 / recording.dt)
    result = []
    for group in groups:
        number = recording.groups.index(group)
        vessels = recording.robot_mask[number].nonzero().squeeze(-1).tolist()
        paths = [recording.poses[there[:, number, vessel], number, vessel, :2] for vessel in vessels]
        result.append(
            tuple(
                tuple(torch.cat((path[:-1:interval], path[-1:])).round(decimals=1).flatten().tolist()) for path in paths
            )
        )
    return tuple(result)


def describe_policy(contender: Contender, name: str) -> dict[str, Any]:
    """Return what an entry says about a contender: name, agent, env-steps, file, its SHA-256, and what it observes.

    Args:
        contender: policy or baseline.
        name: name that the user gave.
    """
    trained = contender.trained
    if trained is None:
        return {"name": name, "agent": contender.name, "env_steps": None, "file": None, "sha256": None}
    sensor, boat = trained.config.world.sensor, trained.config.world.vessel.name
    return {
        "name": name,
        "agent": contender.name,
        "env_steps": trained.env_steps,
        "file": trained.path.name,
        "sha256": sha256_of(trained.path),
        "objects": sensor.slots,
        "scan_beams": sensor.scan_beams,
        "own_entries": ", ".join(sensor.entries),
        **({} if boat == PUBLISHED_VESSEL else {"boat": boat}),
    }


def make_entry(policy: dict[str, Any], suites: dict[str, SuiteResult]) -> Entry:
    """Return an entry with today's date and the versions of the running program.

    Args:
        policy: description of the policy, from ``describe_policy``.
        suites: results by name of the suite.
    """
    commit, difference = git_revision()
    program = software_versions() | {"revision": commit, "changed": "yes" if difference else "no"}
    return Entry(policy, program, f"{datetime.now(UTC):%Y-%m-%d}", suites)
