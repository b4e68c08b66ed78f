"""What a study consists of, the runs that it lacks, and their evaluations."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from marinenav_env import WorldConfig
from marinenav_env.support.files import read_text
from marinenav_env.support.validation import LARGEST_NUMBER, ConfigError, is_count, require
from train_RL_agents.config.reading import (
    file_settings,
    flat_settings,
    flatten,
    from_dict,
    read_json,
    to_dict,
)
from train_RL_agents.config.resuming import RESUMABLE, changes
from train_RL_agents.config.schema import LARGEST_SEED, TrainConfig
from train_RL_agents.evaluation.contenders import (
    IN_COMMON,
    ActingOptions,
    Contender,
    common_world,
    run_set,
)
from train_RL_agents.evaluation.suites import SUITES, ScenarioSet, make_set
from train_RL_agents.experiments.runner import training_command
from train_RL_agents.run.checkpoint import LoadedPolicy, load_policy
from train_RL_agents.run.finding import CONFIG
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.files import inside, make_folder, sha256_of, write_atomically

_KEYS = {"agents", "settings", "seeds", "common", "suites", "which"}
_COLUMNS = ("env_steps", "train_time", "wall_time")
_FREE = [key for key in RESUMABLE if not key.startswith("trainer.")]
"""Settings that runs of a study may have otherwise than its file says: they change no result."""


@dataclass(frozen=True)
class Suite:
    """Scenarios that policies are evaluated on."""

    name: str
    """Of evaluation.suites."""
    episodes: int | None = None
    """Of each group; the suite's default if None."""
    seed: int | None = None
    """Likewise."""


@dataclass(frozen=True)
class Study:
    """Agents and settings to train, and suites to evaluate on."""

    groups: dict[str, TrainConfig[Any]]
    """Configuration of each agent with each of the settings."""
    seeds: tuple[int, ...]
    """Of the runs of every group."""
    suites: tuple[Suite, ...]
    """Scenarios that policies are evaluated on."""
    which: str
    """Which policy of a run: ``latest`` or ``best``."""


def read_study(path: Path) -> Study:
    """Read a study's file.

    Raises:
        ConfigError: when a key is not known, or a value cannot be used.
    """
    content = read_json(path)
    for key in content:
        allowed = f"one of {', '.join(sorted(_KEYS))}{did_you_mean(key, _KEYS)}"
        require(key in _KEYS, f"{path}: {key}", content[key], allowed)
    agents, seeds = content.get("agents", []), content.get("seeds", [0])
    require(_names(agents), f"{path}: agents", agents, "a list of configurations, names or files")
    fine = isinstance(seeds, list) and len(set(map(str, seeds))) == len(seeds) > 0
    fine = fine and all(type(each) is int and 0 <= each <= LARGEST_SEED for each in seeds)
    require(fine, f"{path}: seeds", seeds, "a list of different whole numbers")
    settings, common = content.get("settings", {"": {}}), content.get("common", {})
    for key, value in (("settings", settings), ("common", common)):
        require(isinstance(value, dict), f"{path}: {key}", value, "an object")
    require(len(settings) > 0, f"{path}: settings", settings, "one or more, or left out")
    groups = {}
    for agent, (name, own) in product(agents, settings.items()):
        require(isinstance(own, dict), f"{path}: settings.{name}", own, "an object with settings")
        title = f"{Path(agent).stem}, {name}" if name else Path(agent).stem
        agents_own, shared, stated = map(flat_settings, (file_settings(Path(agent)), common, own))
        groups[title] = from_dict(agents_own | shared | stated)
    fine = len({_slug(each) for each in groups}) == len(agents) * len(settings)
    require(fine, f"{path}: agents", agents, "of different names")
    first, *others = groups
    for name, key in product(others, IN_COMMON):
        ours, theirs = (getattr(groups[each].world, key) for each in (first, name))
        fine = ours == theirs
        require(fine, f"{path}: {name}", f"world.{key}", f"that of {first}, to be compared")
    which = content.get("which", "latest")
    require(which in ("latest", "best"), f"{path}: which", which, "latest or best")
    return Study(groups, tuple(seeds), _suites(path, content.get("suites", {"paper": {}})), which)


def _names(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _suites(path: Path, content: Any) -> tuple[Suite, ...]:
    fine = isinstance(content, dict) and len(content) > 0
    require(fine, f"{path}: suites", content, "an object with one or more suites")
    found = []
    for name, options in content.items():
        allowed = f"one of {', '.join(SUITES)}{did_you_mean(name, SUITES)}"
        require(name in SUITES, f"{path}: suites", name, allowed)
        fine = isinstance(options, dict) and options.keys() <= {"episodes", "seed"}
        fine = fine and all(is_count(each) and each <= LARGEST_SEED for each in options.values())
        require(fine, f"{path}: suites.{name}", options, "an object with episodes, seed or neither")
        suite, episodes = SUITES[name], options.get("episodes", 1)
        fine = episodes > 0 and not (suite.fixed and "episodes" in options)
        allowed = f"left out, {name} has {suite.episodes}" if suite.fixed else "at least 1"
        require(fine, f"{path}: suites.{name}.episodes", episodes, allowed)
        fine = SUITES[name].seed is not None or "seed" in options
        require(fine, f"{path}: suites.{name}", options, "given a seed, so that all runs have the same scenarios")
        found.append(Suite(name, **options))
    return tuple(found)


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


def check_suites(study: Study) -> None:
    """Draw all suites once, so that one that cannot be drawn is refused before anything is trained.

    Raises:
        ConfigError: for the first that cannot be drawn in the world of the first group.
    """
    world = next(iter(study.groups.values())).world
    for suite in study.suites:
        make_set(suite.name, world, suite.episodes, suite.seed)


# Training ---------------------------------------------------------------------------------------


def run_folders(study: Study, out: Path) -> dict[tuple[str, int], Path]:
    """The run folder of each group and seed; it need not be there."""
    return {(name, seed): out / "runs" / _slug(name) / f"seed_{seed}" for name in study.groups for seed in study.seeds}


def missing(study: Study, out: Path, argv: Sequence[str]) -> dict[str, list[str]]:
    """Commands, by name, that bring every run to its end; those that have not begun get a folder.

    Args:
        study: what is wanted.
        out: its folder.
        argv: the command, for the record.

    Raises:
        ConfigError: when a run is there with other settings, or a folder cannot be made.
    """
    commands = {}
    for (name, seed), path in run_folders(study, out).items():
        config = replace(study.groups[name], seed=(seed,))
        if not (path / CONFIG).exists():
            RunFolder.create(config, seed, argv, path.parent)
        before = RunFolder.open(path).config
        changed = changes(flatten(to_dict(before)), flatten(to_dict(config)), _FREE)
        if changed:
            raise ConfigError(
                f"{path}: is a run with other settings than the study's: "
                f"{'; '.join(changed)}; move it, or give another --out"
            )
        if env_steps(path) < config.total_timesteps:
            words = [f"total_timesteps={config.total_timesteps}"]
            commands[f"{name}, seed {seed}"] = training_command(path, words)
    return commands


def last_row(run: Path) -> dict[str, float]:
    """Env-steps and times (s) at the last evaluation of a run; empty if there is none.

    Raises:
        ConfigError: when its table is damaged.
    """
    table = inside(run, "evaluations.csv")
    if not table.is_file():
        return {}
    text = read_text(table, "a table of evaluations")
    try:
        last = dict([{}, *csv.DictReader(io.StringIO(text, newline=""))][-1])
        found = {key: float(last.get(key) or 0) for key in _COLUMNS}
    except (csv.Error, TypeError, ValueError) as error:
        raise ConfigError(f"{table}: damaged, or not a table of evaluations ({error})") from error
    fine = all(0.0 <= each <= LARGEST_NUMBER for each in found.values())
    require(fine, str(table), found, "numbers from 0")
    return found


def env_steps(run: Path) -> int:
    """Env-steps at the last evaluation of a run; a run ends with one."""
    return int(last_row(run).get("env_steps", 0))


# Evaluation -------------------------------------------------------------------------------------


def evaluate_all(study: Study, out: Path, device: torch.device) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
    """Evaluate the policies of all runs that have come to their ends, unless that is done already.

    Returns:
        By suite, and by group and seed: ``success`` of each episode, its ``group``, and ``name``,
        ``policy`` and ``suite``.

    Raises:
        ConfigError: when runs have other vessels, sensors or time steps than the first.
    """
    done = {
        key: path
        for key, path in run_folders(study, out).items()
        if env_steps(path) >= study.groups[key[0]].total_timesteps
    }
    policies = {key: load_policy(path, study.which, device) for key, path in done.items()}
    world = common_world([*map(Contender.of, policies.values())], WorldConfig())
    folder = inside(out, "evaluations")
    make_folder(folder)
    found: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for suite in study.suites:
        chosen = make_set(suite.name, world, suite.episodes, suite.seed)
        found[suite.name] = {}
        for (name, seed), policy in policies.items():
            file = folder / f"{_slug(name)}_seed_{seed}_{suite.name}.json"
            # A run that was moved away and made again has policies of the same names.
            about = {
                "name": name,
                "policy": policy.path.name,
                "env_steps": policy.env_steps,
                "suite": asdict(suite),
                "sha256": sha256_of(policy.path),
            }
            content = read_json(file) if file.exists() else {}
            if not _usable(content, about, chosen):
                content = about | _evaluated(policy, chosen, world, device)
                write_atomically(file, json.dumps(content) + "\n")
            found[suite.name][name, seed] = content
    return found


def _usable(content: dict[str, Any], about: dict[str, Any], chosen: ScenarioSet) -> bool:
    """Whether this is the evaluation of a policy on scenarios, complete."""
    success, group = content.get("success"), content.get("group")
    count = sum(len(part.scenarios) for part in chosen.parts)
    return (
        all(content.get(key) == value for key, value in about.items())
        and isinstance(success, list)
        and isinstance(group, list)
        and len(success) == len(group) == count
        and all(each in (0, 1) for each in success)
        and all(each in group for each in chosen.groups)
        and all(each in chosen.groups for each in group)
    )


def _evaluated(policy: LoadedPolicy, chosen: ScenarioSet, world: WorldConfig, device: torch.device) -> dict[str, Any]:
    """Success and group of each episode."""
    episodes, _ = run_set(Contender.of(policy), chosen, world, ActingOptions(), device)
    return {
        "success": episodes.success.int().tolist(),
        "group": [chosen.groups[level] for level in episodes.level.tolist()],
    }
