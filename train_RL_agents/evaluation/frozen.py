"""The benchmark: suites frozen by size, seed and a hash of their scenarios.

A change of what a suite consists of changes its hash, and requires a new ``entry.BENCHMARK``.
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
from marinenav_env.scenarios.parameters import COMMANDS, build_parameters
from marinenav_env.scenarios.scenario_file import stack_episodes
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.contenders import ActingOptions, Contender
from train_RL_agents.evaluation.entry import BENCHMARK, Entry, SuiteResult
from train_RL_agents.evaluation.recording import Recording
from train_RL_agents.evaluation.scoring import run_scored
from train_RL_agents.evaluation.seamanship import AsternShare, kept_by_role, tracks
from train_RL_agents.evaluation.suites import ENCOUNTER_SUITES, Part, ScenarioSet, make_set
from train_RL_agents.utils.files import sha256_of
from train_RL_agents.utils.provenance import revision, versions

SEED = 20_261
"""Of the scenarios and the measurement noise of all suites."""
DRAWN = "imazu"
"""The suite that is drawn."""


class Frozen(NamedTuple):
    """A suite of the benchmark."""

    episodes: int
    """Of each level or group."""
    scenarios: str
    """Hash of its scenarios."""


FROZEN: dict[str, Frozen] = {
    "fresh": Frozen(500, "84489a30e440c4a26970b329ee35068f"),
    "currents": Frozen(300, "cd55624001f601aa47ed3c97f50053b0"),
    "crowd": Frozen(100, "606aeedc53b0b9986f251f20090b9bda"),
    "noise": Frozen(50, "6759d8745f03466dd54e00c0946f323a"),
    "vessels": Frozen(100, "fa643d6b688dd742ceb57b6b3706839a"),
    "weather": Frozen(100, "6807b0b5b4c60ee61671812bb0f113dc"),
    "faults": Frozen(100, "6fbaa7e6ae3fc3e1afa1112fd70f8c1b"),
    "rules": Frozen(100, "2566abe7f889ef73d09eeab21a0657c8"),
    "encounters": Frozen(25, "73617b022372958adece8bf2bcd31b5c"),
    "imazu": Frozen(20, "9e60a1249e0b2e9a731096474454e551"),
    "encounters_own": Frozen(25, "8bd83129b263325d780a3578acd281d1"),
    "imazu_own": Frozen(20, "f696bb4fef4500db8560b4012ee4cda0"),
}
"""The suites, in the order of reports."""
_CHOSEN = {*COMMANDS, "max_objects", "table_row"}
"""Parameters that a policy may have as it likes, or that follow from others."""


def benchmark_world(found: Contender) -> WorldConfig:
    """The published world, with what a policy observes of it and the commands it chooses from.

    Raises:
        ConfigError: when the commands are stronger than the published ones.
    """
    world = WorldConfig()
    if found.trained is None:
        return world
    own, most = found.trained.config.world, world.vessel.max_thrust_rate
    commands = {name: getattr(own.vessel, name) for name in COMMANDS}
    for name, values in commands.items():
        fine = max(map(abs, values)) <= (max(most) if isinstance(most, tuple) else most)
        require(fine, f"world.vessel.{name}", values, f"at most {most:g} N/s in the benchmark")
    observes = {name: getattr(own.sensor, name) for name in ("max_objects", "scan_beams", "scan_angle", "entries")}
    return replace(world, vessel=replace(world.vessel, **commands), sensor=replace(world.sensor, **observes))


# Hashes -----------------------------------------------------------------------------------------


def hash_of(chosen: ScenarioSet) -> str:
    """Hash, half of SHA-256, of all that the episodes of a set depend on besides the policy.

    Numbers count to 1e-6, so that machines agree. A tensor of zeros counts as none: a setting of a
    later version that is off leaves hashes as they are.
    """
    digest = hashlib.sha256(repr(chosen.groups).encode())
    for part in chosen.parts:
        digest.update(repr((part.only_own, part.world.dt, part.world.substeps, part.world.max_steps)).encode())
        for name, tensor in sorted(_tensors(part)):
            if tensor.any():
                whole = (tensor.double() * 1e6).round().to(torch.int64)
                digest.update(f"{name} {list(whole.shape)}".encode() + whole.numpy().tobytes())
    return digest.hexdigest()[:32]


def _tensors(part: Part) -> Iterator[tuple[str, Tensor]]:
    """The tensors of scenarios and of their worlds, by name."""
    options = torch.device("cpu"), torch.float64
    if isinstance(part.scenarios, Scenario):
        scenario = part.scenarios
        robots = scenario.robot_mask.shape[-1]
        parameters, quantiles = build_parameters([part.world], robots, *options)
    else:
        scenario, parameters, quantiles = stack_episodes(part.scenarios, *options)
    yield "quantiles", quantiles
    held: Iterable[TensorDictBase] = (scenario.to_tensordict(), parameters.to_tensordict())
    for each in held:
        for name, tensor in each.items(include_nested=True, leaves_only=True):
            keys = name if isinstance(name, tuple) else (name,)
            if keys[-1] not in _CHOSEN:
                yield ".".join(keys), tensor


def require_frozen(entry: Entry, path: Path) -> None:
    """Refuse an entry on other scenarios than those of the benchmark.

    Raises:
        ConfigError: when a suite is missing, or its scenarios are others.
    """
    for name, frozen in FROZEN.items():
        given = entry.suites[name].scenarios if name in entry.suites else "missing"
        same = given == frozen.scenarios
        require(same, f"{path}: scenarios of {name}", given, f"those of benchmark {BENCHMARK}, {frozen.scenarios}")
    odd = ", ".join(entry.suites.keys() - FROZEN.keys())
    require(not odd, f"{path}: suites", odd, f"those of benchmark {BENCHMARK}")


# Running ----------------------------------------------------------------------------------------


def run_suite(found: Contender, name: str, device: torch.device, episodes: int | None = None) -> SuiteResult:
    """Run a suite of the benchmark.

    Args:
        found: who steers.
        name: of the suite.
        device: where to run.
        episodes: of each level or group; those of the benchmark if None.
    """
    world, acting = benchmark_world(found), ActingOptions(seed=SEED + 1)
    size = FROZEN[name].episodes if episodes is None else episodes
    chosen, counter = make_set(name, world, size, SEED), AsternShare()
    seen, recording, compliance = run_scored(found, chosen, world, acting, device, "entry", counter)
    figures = {
        group: {name: None if value is None else round(value, 4) for name, value in row.items()}
        for group, row in (compliance or {}).items()
    }
    result = SuiteResult.of(
        seen,
        scenarios=hash_of(chosen),
        seed=SEED,
        groups=chosen.groups,
        astern=round(counter.value, 4),
        compliance=figures,
    )
    if recording is None or name not in ENCOUNTER_SUITES:
        return result
    controlled = 1 if chosen.parts[0].only_own else recording.robot_mask.shape[-1]
    return replace(
        result,
        astern=figures["overall"]["astern"] or 0.0,
        duties=kept_by_role(recording, controlled),
        tracks=_rows(recording, chosen.groups) if name == DRAWN else (),
    )


def _rows(recording: Recording, groups: Sequence[str]) -> tuple[Any, ...]:
    """Tracks of the first episode of each group; see SuiteResult."""
    seen, every = tracks(recording), round(1.0 / recording.dt)
    drawn = []
    for group in groups:
        number = recording.groups.index(group)
        vessels = recording.robot_mask[number].nonzero().squeeze(-1).tolist()
        kept = [seen.poses[seen.there[:, number, each], number, each, :2] for each in vessels]
        drawn.append(
            tuple(tuple(torch.cat((path[:-1:every], path[-1:])).round(decimals=1).flatten().tolist()) for path in kept)
        )
    return tuple(drawn)


def describe(found: Contender, name: str) -> dict[str, Any]:
    """Who is evaluated: ``policy`` of an entry.

    Args:
        found: the policy.
        name: how it was called.
    """
    trained = found.trained
    if trained is None:
        return {"name": name, "agent": found.name, "env_steps": None, "file": None, "sha256": None}
    sensor = trained.config.world.sensor
    return {
        "name": name,
        "agent": found.name,
        "env_steps": trained.env_steps,
        "file": trained.path.name,
        "sha256": sha256_of(trained.path),
        "objects": sensor.slots,
        "scan_beams": sensor.scan_beams,
        "own_entries": ", ".join(sensor.entries),
    }


def make_entry(policy: dict[str, Any], suites: dict[str, SuiteResult]) -> Entry:
    """An entry of results of today.

    Args:
        policy: see ``describe``.
        suites: results by name.
    """
    commit, difference = revision()
    program = versions() | {"revision": commit, "changed": "yes" if difference else "no"}
    return Entry(policy, program, f"{datetime.now(UTC):%Y-%m-%d}", suites)
