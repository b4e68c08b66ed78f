"""Evaluations in external environments: seeded episodes with their returns, lengths and successes."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env.specs import STATISTICS
from marinenav_env.support.validation import require
from train_RL_agents.agents import Agent
from train_RL_agents.config.environment import EnvConfig
from train_RL_agents.environments.group_env import GroupEnv
from train_RL_agents.environments.makers import make_env
from train_RL_agents.evaluation.running.history import Evaluations, Metrics
from train_RL_agents.evaluation.running.steps import Policy, ProgressCallback, run_until_ended
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.utils.statistics import ratio_estimate, wilson_interval

MAX_EVAL_ENVS = 64
MAX_STEPS_WITHOUT_END = 20_000
"""Number of successive steps of all environments without the end of an episode at which an evaluation fails."""
ARRAY_NAMES = {"returns": "rewards", "length": "lengths", "success": "successes"}
"""Name of the array in evaluations.npz for each column of an EpisodeTable."""

EpisodeTable = dict[str, Tensor]
"""Results of N episodes of one policy, in columns [N] of float64 on the CPU: ``returns`` (sum of the rewards, mean over
the agents), ``length`` (steps) and, if the environment reports it, ``success`` (0 or 1)."""


def derive_seed(purpose: str, seed: int) -> int:
    """Return a 31-bit seed derived from a seed and a purpose such as ``training``, so that its episodes are others."""
    digest = hashlib.sha256(f"{purpose} {seed}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % 2**31


def compute_metrics(table: EpisodeTable) -> dict[str, Any]:
    """Return the metrics over all episodes by name, with 95% confidence intervals."""
    count, metrics = len(table["returns"]), {}
    if "success" in table:
        successes = int(table["success"].sum())
        low, high = wilson_interval(successes, count)
        metrics = {"success_rate": successes / count, "success_low": low, "success_high": high}
    mean = ratio_estimate(table["returns"].numpy(), np.ones(count))
    return {
        **metrics,
        "episodes": count,
        "avg_return": mean.value,
        "return_low": mean.low,
        "return_high": mean.high,
        "avg_length": float(table["length"].mean()),
    }


def run_episodes(
    policy: Policy, env: GroupEnv, episodes: int, seed: int, progress: ProgressCallback | None = None
) -> EpisodeTable:
    """Run seeded episodes, equally many in each environment, so that results are not biased to short ones."""
    env.set_seed(derive_seed("evaluation", seed))
    share, more = divmod(episodes, env.num_envs)
    left = [share + (number < more) for number in range(env.num_envs)]
    rows: list[list[list[float]]] = [[] for _ in left]
    following, waited = env.reset(), 0

    def make_step() -> None:
        nonlocal following, waited
        waited += 1
        allowed = f"above 0: no episode of {env.name} ends"
        require(waited <= MAX_STEPS_WITHOUT_END, "env.max_steps", env.max_steps, allowed)
        step, following = env.step_and_maybe_reset(policy(following))
        over, numbers = step.get(("next", "done")).reshape(-1).tolist(), step.get(("next", STATISTICS)).tolist()
        for number in (index for index, flag in enumerate(over) if flag and left[index]):
            rows[number].append(numbers[number])
            left[number], waited = left[number] - 1, 0

    run_until_ended(make_step, lambda: episodes - sum(left), episodes, itertools.count(), progress=progress)
    columns = torch.tensor([row for own in rows for row in own], dtype=torch.float64).unbind(1)
    return dict(zip(ARRAY_NAMES, columns, strict=False))


def run_same_episodes(
    config: EnvConfig,
    policies: Mapping[str, Policy],
    episodes: int,
    seed: int,
    device: torch.device,
    progress: Callable[[str, int, int], None] | None = None,
) -> dict[str, EpisodeTable]:
    """Run the same seeded episodes with every policy, and return their results by the name of the policy.

    In a batch whose environments share a generator, episodes after the first MAX_EVAL_ENVS begin differently, because
    their starts depend on when earlier episodes ended.
    """
    env = make_env(config, min(episodes, MAX_EVAL_ENVS), device, seed)
    try:
        return {
            name: run_episodes(policy, env, episodes, seed, None if progress is None else partial(progress, name))
            for name, policy in policies.items()
        }
    finally:
        env.close(raise_if_closed=False)


class ExternalEvaluations(Evaluations[EpisodeTable]):
    """Evaluations in an external environment, on seeded episodes."""

    _env: GroupEnv | None = None
    """Environments of the evaluations, made for the first one and kept."""

    def evaluate(self, agent: Agent[Any], progress: ProgressCallback | None = None) -> None:
        """Run the seeded episodes with an agent, and store their results; see Evaluations."""
        count = self._config.env.eval_episodes
        self._env = self._env or make_env(self._config.env, min(count, MAX_EVAL_ENVS), self._device, 0)
        table = run_episodes(PolicyWrapper(agent), self._env, count, self._config.eval_schedule.seed, progress)
        self.episodes.append(table)

    def _latest_metrics(self) -> tuple[Metrics, Metrics]:
        return compute_metrics(self.episodes[-1]), {}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {
            ARRAY_NAMES[name]: torch.stack([table[name] for table in self.episodes]).numpy()
            for name in self.episodes[0]
        }

    def close(self) -> None:
        """Close the environments; the next evaluation makes new ones."""
        if self._env is not None:
            self._env.close(raise_if_closed=False)
            self._env = None
