"""Evaluation of policies in the environment that they were trained in, built-in or external."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

import torch

from marinenav_env import WorldConfig
from marinenav_env.support.validation import require
from train_RL_agents.config.environment import EnvConfig
from train_RL_agents.config.schema import MAX_SEED
from train_RL_agents.evaluation.comparing import scoring
from train_RL_agents.evaluation.comparing.tables import Evaluation, Result
from train_RL_agents.evaluation.judging.policies import ActingOptions, EvaluatedPolicy, require_effect
from train_RL_agents.utils.rows import OVERALL, nonfinite_to_none

_BUILT_IN_OPTIONS = ("suite", "scenarios", "levels", "strict", "record", "others", "shield", "judge", "report")
"""Names of the options that only evaluations in the built-in environment have."""


def shared_environment(policies: Mapping[str, EvaluatedPolicy]) -> EnvConfig:
    """Return the settings of the environment that all policies share; baselines act in the built-in one."""
    names = {
        name: EnvConfig() if evaluated.trained is None else evaluated.trained.config.env
        for name, evaluated in policies.items()
    }
    (first, env), *others = names.items()
    for name, other in others:
        is_same = other.episode_settings == env.episode_settings
        require(is_same, f"{name}: env", f"that of {other.name}", f"that of {first}, to be compared")
    return env


def evaluate_all(
    policies: Mapping[str, EvaluatedPolicy],
    options: dict[str, Any],
    device: torch.device,
    progress: Callable[[str, int, int], None] | None = None,
) -> Evaluation:
    """Run the same episodes with every policy, and return the results."""
    env = shared_environment(policies)
    if env.is_built_in:
        return scoring.evaluate_built_in(policies, options, device, progress)
    from train_RL_agents.environments.episodes import compute_metrics, run_same_episodes

    for name in _BUILT_IN_OPTIONS:
        require(name not in options, f"--{name}", options.get(name), f"left out: {env.name} has none")
    require_effect(policies, options.get("risk"), "stochastic" in options)
    trained = [evaluated.trained for evaluated in policies.values() if evaluated.trained is not None]
    usual = trained[0].config.eval_schedule.seed
    seed = secrets.randbelow(2**31) if "fresh" in options else int(options.get("seed", usual))
    require(0 <= seed <= MAX_SEED, "--seed", seed, f"from 0 to {MAX_SEED}")
    episodes = int(options.get("episodes", env.eval_episodes))
    acting = ActingOptions(options.get("risk"), "stochastic" in options, seed + 1)
    # The default world is enough, because only baselines and estimates of returns read it.
    acts = {name: evaluated.make_policy(WorldConfig(), acting) for name, evaluated in policies.items()}
    tables = run_same_episodes(env, acts, episodes, seed, device, progress)
    results = [
        Result(name, policies[name].about(), {OVERALL: nonfinite_to_none(compute_metrics(table))})
        for name, table in tables.items()
    ]
    setting = scoring.describe_setting(results, options, seed, episodes, device)
    return Evaluation(results, setting | {"suite": env.name, "env": vars(env)})
