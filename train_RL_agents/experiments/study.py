"""Studies of several agents and settings: reading of their files, unfinished runs, and evaluations of policies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import torch

from marinenav_env import WorldConfig
from marinenav_env.config import RewardConfig
from marinenav_env.support.validation import ConfigError, PositiveInt, at_least, at_most, check_fields, require
from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import load_config, setting_text, to_dict
from train_RL_agents.config.schema import MAX_SEED, TRAINING_REWARD_NAMES, TrainConfig
from train_RL_agents.evaluation.judging.policies import (
    ActingOptions,
    EvaluatedPolicy,
    common_world,
    differing_setting,
    run_set,
)
from train_RL_agents.evaluation.suites.frozen import scenario_hash
from train_RL_agents.evaluation.suites.sets import ScenarioSet
from train_RL_agents.evaluation.suites.suites import SUITES, make_scenario_set
from train_RL_agents.experiments.memory_plan import check_memory_plan, plan_memory
from train_RL_agents.experiments.run import Run
from train_RL_agents.run.checkpoint import LoadedPolicy, load_policy
from train_RL_agents.run.finding import CONFIG_FILE
from train_RL_agents.run.resuming import RESUMABLE_SETTINGS, list_changes
from train_RL_agents.run.run_folder import RunFolder, read_evaluations
from train_RL_agents.utils.closest import did_you_mean
from train_RL_agents.utils.files import make_folder, read_json, sha256_of, write_atomically

_STUDY_KEYS = {"agents", "settings", "seeds", "common", "suites", "which"}
_VARIABLE_SETTINGS = [key for key in RESUMABLE_SETTINGS if not key.startswith("trainer.")]
"""Settings in which existing runs may differ from the study's file, with which unfinished runs continue: those that may
change on resuming, without those of the trainer."""


@dataclass(frozen=True)
class Suite:
    """Suite of scenarios on which policies are evaluated."""

    name: str
    """Name of the suite in evaluation.suites."""
    episodes: PositiveInt | None = None
    """Number of episodes of each group; the suite's default if None."""
    seed: Annotated[int, at_least(0), at_most(MAX_SEED)] | None = None
    """Seed of the scenarios; the suite's default if None."""

    def __post_init__(self) -> None:
        check_fields(self, f"suites.{self.name}")


@dataclass(frozen=True)
class Study:
    """Agents and settings to train, and suites on which to evaluate them."""

    groups: dict[str, TrainConfig[Any]]
    """Configuration of each combination of an agent and a variant of settings, by the name of the combination."""
    seeds: tuple[int, ...]
    suites: tuple[Suite, ...]
    evaluated_policy: str
    """Policy of a run that is evaluated: ``latest`` or ``best``."""


def read_study(path: Path) -> Study:
    """Read a study's JSON file."""
    content = read_json(path, "agents to study")
    for key in content:
        allowed = f"one of {', '.join(sorted(_STUDY_KEYS))}{did_you_mean(key, _STUDY_KEYS)}"
        require(key in _STUDY_KEYS, f"{path}: {key}", content[key], allowed)
    agents, seeds = content.get("agents", []), content.get("seeds", [0])
    require(_is_list_of(str, agents), f"{path}: agents", agents, "a list of configurations, names or files")
    are_seeds = _is_list_of(int, seeds) and all(0 <= seed <= MAX_SEED for seed in seeds)
    are_seeds = are_seeds and len(set(seeds)) == len(seeds)
    require(are_seeds, f"{path}: seeds", seeds, "a list of different whole numbers")
    settings, common = content.get("settings", {"": {}}), content.get("common", {})
    for key, value in (("settings", settings), ("common", common)):
        require(isinstance(value, dict), f"{path}: {key}", value, "an object")
    require(len(settings) > 0, f"{path}: settings", settings, "one or more, or left out")
    groups = {}
    for agent, (name, varied) in product(agents, settings.items()):
        require(isinstance(varied, dict), f"{path}: settings.{name}", varied, "an object with settings")
        title = f"{Path(agent).stem}, {name}" if name else Path(agent).stem
        is_alike = not any(key.startswith("eval_schedule") for key in flatten(varied))
        allowed = "stated in common: all are evaluated on the same episodes"
        require(is_alike, f"{path}: settings.{name}", "eval_schedule", allowed)
        groups[title] = load_config(Path(agent), flatten(common) | flatten(varied))
        groups[title].env.require_built_in("studies")
    are_distinct = len({_slug(title) for title in groups}) == len(agents) * len(settings)
    require(are_distinct, f"{path}: agents", agents, "of different names")
    first, *others = groups
    for name in others:
        setting = differing_setting(groups[first].world, groups[name].world)
        require(setting is None, f"{path}: {name}", f"world.{setting}", f"that of {first}, to be compared")
    groups = _evaluated_alike(groups)
    which = content.get("which", "latest")
    require(which in ("latest", "best"), f"{path}: which", which, "latest or best")
    return Study(groups, tuple(seeds), _parse_suites(path, content.get("suites", {"paper": {}})), which)


def _evaluated_alike(groups: dict[str, TrainConfig[Any]]) -> dict[str, TrainConfig[Any]]:
    """Return groups with the same evaluations, those of the first; each is still trained with its own rewards.

    A reward that groups state differently has its default in evaluations.
    """
    first = next(iter(groups.values()))
    rewards = [config.world.reward for config in groups.values()]
    changed = [name for name in TRAINING_REWARD_NAMES if len({getattr(reward, name) for reward in rewards}) > 1]
    usual = {name: getattr(RewardConfig, name) for name in changed}
    alike = {}
    for title, config in groups.items():
        own, trained = config.world.reward, config.training.reward
        kept = {name: getattr(own, name) for name in changed if getattr(trained, name) is None}
        alike[title] = replace(
            config,
            world=replace(config.world, reward=replace(own, **usual)),
            training=replace(config.training, reward=replace(trained, **kept)),
            eval_schedule=first.eval_schedule,
        )
    return alike


def _is_list_of(kind: type, value: Any) -> bool:
    """Return whether a value is a list of one or more objects of exactly one type."""
    return isinstance(value, list) and bool(value) and all(type(item) is kind for item in value)


def _parse_suites(path: Path, content: Any) -> tuple[Suite, ...]:
    """Return the suites that the key ``suites`` of a study's file describes, given the path and the key's value."""
    is_object = isinstance(content, dict) and len(content) > 0
    require(is_object, f"{path}: suites", content, "an object with one or more suites")
    suites = []
    for name, options in content.items():
        key, allowed = f"{path}: suites.{name}", f"one of {', '.join(SUITES)}{did_you_mean(name, SUITES)}"
        require(name in SUITES, f"{path}: suites", name, allowed)
        are_options = isinstance(options, dict) and options.keys() <= {"episodes", "seed"}
        require(are_options, key, options, "an object with episodes, seed or neither")
        suite = Suite(name, **options)
        has_seed = SUITES[name].seed is not None or suite.seed is not None
        require(has_seed, key, options, "given a seed, so that all runs have the same scenarios")
        suites.append(suite)
    return tuple(suites)


def _slug(name: str) -> str:
    """Return a name with underscores in place of characters that file names should not contain."""
    return re.sub(r"[^\w.-]+", "_", name)


def check_suites(study: Study) -> None:
    """Generate the scenarios of all suites once, so that a suite that fails is refused before anything is trained."""
    world = next(iter(study.groups.values())).world
    for suite in study.suites:
        make_scenario_set(suite.name, world, suite.episodes, suite.seed)


# Training ---------------------------------------------------------------------------------------


def run_folders(study: Study, out: Path) -> dict[tuple[str, int], Path]:
    """Return the path of the run folder of each group and seed in the folder of a study; it may not exist yet."""
    return {(name, seed): out / "runs" / _slug(name) / f"seed_{seed}" for name in study.groups for seed in study.seeds}


def unfinished_runs(study: Study, out: Path, argv: Sequence[str], at_once: int = 1) -> list[Run]:
    """Return the runs that have not finished, and make the folders of those that have not begun."""
    runs = []
    lacking = {key: path for key, path in run_folders(study, out).items() if not (path / CONFIG_FILE).exists()}
    for name in dict.fromkeys(name for name, _ in lacking):
        check_memory_plan(plan_memory(study.groups[name]), study.groups[name], min(at_once, len(lacking)))
    for (name, seed), path in run_folders(study, out).items():
        config = replace(study.groups[name], seed=(seed,))
        if (name, seed) in lacking:
            RunFolder.create(config, seed, argv, path.parent)
        folder = RunFolder.open(path)
        before, now = flatten(to_dict(folder.config)), flatten(to_dict(config))
        changed = list_changes(before, now, _VARIABLE_SETTINGS)
        if changed:
            raise ConfigError(
                f"{path}: is a run with other settings than the study's: "
                f"{'; '.join(changed)}; move it, or give another --out"
            )
        done, total = env_steps_done(path), config.total_timesteps
        is_valid = done <= total or total >= folder.config.total_timesteps
        allowed = f"at least {done:,}, as {path} has already made so many; move it, or give another --out"
        require(is_valid, "total_timesteps", total, allowed)
        if done < total:
            overrides = [f"{key}={setting_text(now[key])}" for key in _VARIABLE_SETTINGS if now[key] != before[key]]
            runs.append(Run(f"{name}, seed {seed}", folder, overrides=overrides))
    return runs


def env_steps_done(run: Path) -> int:
    """Return the env-steps of a run until its last evaluation, which for a finished run are all its env-steps."""
    return max((int(row["env_steps"]) for row in read_evaluations(run)), default=0)


# Evaluation -------------------------------------------------------------------------------------


def evaluate_runs(study: Study, out: Path, device: torch.device) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
    """Return the evaluations of all finished runs by suite, then group and seed; saved ones are read."""
    done = {
        key: path
        for key, path in run_folders(study, out).items()
        if env_steps_done(path) >= study.groups[key[0]].total_timesteps
    }
    policies = {key: load_policy(path, study.evaluated_policy, device) for key, path in done.items()}
    world = common_world([*map(EvaluatedPolicy.from_loaded, policies.values())])
    folder = out / "evaluations"
    make_folder(folder)
    evaluations: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for suite in study.suites:
        scenarios = make_scenario_set(suite.name, world, suite.episodes, suite.seed)
        evaluations[suite.name] = {}
        for (name, seed), policy in policies.items():
            file = folder / f"{_slug(name)}_seed_{seed}_{suite.name}.json"
            # The hash is needed, because a run that was moved away and trained again has policies of the same names.
            origin = {
                "name": name,
                "policy": policy.path.name,
                "env_steps": policy.env_steps,
                "suite": asdict(suite),
                "sha256": sha256_of(policy.path),
                # The world is that of the first group, which may be another one than when the file was written.
                "scenarios": scenario_hash(scenarios),
            }
            content = read_json(file) if file.exists() else {}
            if any(content.get(key) != value for key, value in origin.items()):
                content = origin | _run_suite(scenarios, world, policy, device)
                write_atomically(file, json.dumps(content) + "\n")
            evaluations[suite.name][name, seed] = content
    return evaluations


def _run_suite(
    scenarios: ScenarioSet, world: WorldConfig, policy: LoadedPolicy, device: torch.device
) -> dict[str, Any]:
    """Return ``success`` (0 or 1) and ``group`` of every episode of a policy on a suite."""
    episodes, _ = run_set(EvaluatedPolicy.from_loaded(policy), scenarios, world, ActingOptions(), device)
    groups = [scenarios.groups[level] for level in episodes.level.tolist()]
    return {"success": episodes.success.int().tolist(), "group": groups}
