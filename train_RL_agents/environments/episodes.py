"""Evaluations in external environments: seeded episodes with their returns, lengths and successes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marinenav_env.specs import STATISTICS
from marinenav_env.support.validation import is_nonnegative_int, is_number, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.environment import EnvConfig
from train_RL_agents.environments.group_env import GroupEnv
from train_RL_agents.environments.makers import make_env
from train_RL_agents.evaluation.tally import Policy, ProgressCallback
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.results.rows import nonfinite_to_none
from train_RL_agents.results.statistics import ratio_estimate, wilson_interval
from train_RL_agents.run.run_folder import RunFolder, record_policy

MAX_EVAL_ENVS = 64
"""Largest number of environments that an evaluation runs at once."""
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
    """Return the metrics over all episodes by name, with 95% confidence intervals.

    They are ``episodes`` (their number), ``avg_return``, ``return_low``, ``return_high``, ``avg_length`` and, if the
    environment reports it, ``success_rate``, ``success_low`` and ``success_high``.
    """
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


@torch.no_grad()
def run_episodes(
    policy: Policy, env: GroupEnv, episodes: int, seed: int, progress: ProgressCallback | None = None
) -> EpisodeTable:
    """Run seeded episodes, equally many in each environment, so that results are not biased to short ones; return them.

    Args:
        policy: policy in evaluation mode.
        env: batch of environments.
        episodes: number N of episodes.
        seed: seed of the evaluation, from which the seed of the environments is derived.
        progress: callback with the number of episodes that have ended and the number of all episodes.
    """
    env.set_seed(derive_seed("evaluation", seed))
    share, more = divmod(episodes, env.num_envs)
    left = [share + (number < more) for number in range(env.num_envs)]
    rows: list[list[list[float]]] = [[] for _ in left]
    step, ended, waited = env.reset(), 0, 0
    while ended < episodes:
        waited += 1
        require(
            waited <= MAX_STEPS_WITHOUT_END, "env.max_steps", env.max_steps, f"above 0: no episode of {env.name} ends"
        )
        step, following = env.step_and_maybe_reset(policy(step))
        after = step.get("next")
        over, numbers = after.get("done").reshape(-1).tolist(), after.get(STATISTICS).tolist()
        for number in (index for index, flag in enumerate(over) if flag and left[index]):
            rows[number].append(numbers[number])
            left[number], ended, waited = left[number] - 1, ended + 1, 0
        if progress is not None:
            progress(ended, episodes)
        step = following
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

    Args:
        config: settings of the environment.
        policies: policies in evaluation mode, by name.
        episodes: number of episodes.
        seed: seed of the episodes.
        device: device of the observations and actions.
        progress: callback with the name of the policy, the number of its episodes that have ended, and of all.
    """
    env = make_env(config, min(episodes, MAX_EVAL_ENVS), device, seed)
    try:
        return {
            name: run_episodes(policy, env, episodes, seed, None if progress is None else partial(progress, name))
            for name, policy in policies.items()
        }
    finally:
        env.close(raise_if_closed=False)


class EpisodeEvaluations:
    """Evaluations of a training run in an external environment, with the methods of evaluation.history.History.

    Args:
        run: run folder, with the configuration.
        device: device of the observations and actions.
    """

    def __init__(self, run: RunFolder, device: torch.device) -> None:
        self._run, self._device = run, device
        self._env: GroupEnv | None = None
        self.rows: list[dict[str, Any]] = []
        """Metrics of each evaluation, with its env-steps and times, as rows of a table."""
        self.episodes: list[EpisodeTable] = []
        """Results of single episodes, a table for each evaluation."""

    def begin(self) -> None:
        """Write nothing, because the episodes follow from the seed."""

    def evaluate(
        self, agent: Agent[Any], env_steps: int, last: bool = False, progress: ProgressCallback | None = None
    ) -> None:
        """Run the evaluation episodes of an agent, store their results, and log the distribution of their returns.

        Args:
            agent: agent to evaluate.
            env_steps: env-steps of the run so far.
            last: not used.
            progress: callback with the number of episodes that have ended and the number of all episodes.
        """
        config, seed = self._run.config.env, self._run.config.eval_schedule.seed
        count = config.eval_episodes
        self._env = self._env or make_env(config, min(count, MAX_EVAL_ENVS), self._device, 0)
        table = run_episodes(PolicyWrapper(agent), self._env, count, seed, progress)
        self.episodes.append(table)
        self._run.log_histogram("eval/returns", table["returns"], env_steps)

    def record(
        self, agent: Agent[Any], env_steps: int, times: dict[str, float], last: bool
    ) -> tuple[dict[str, Any], bool]:
        """Write and log the latest evaluation, and save its policy.

        Args:
            agent: agent that was evaluated.
            env_steps: env-steps of the run so far.
            times: times of the run so far (s) by name, which are added to the metrics.
            last: whether the run ends with this evaluation.

        Returns:
            The metrics (see ``compute_metrics``), and whether the policy is the best so far.
        """
        overall = nonfinite_to_none(compute_metrics(self.episodes[-1]))
        self.rows.append({"env_steps": env_steps, **times, **overall})
        arrays = {
            ARRAY_NAMES[name]: torch.stack([table[name] for table in self.episodes]).numpy()
            for name in self.episodes[0]
        }
        self._run.write_evaluations(self.rows, {"timesteps": [row["env_steps"] for row in self.rows], **arrays})
        return overall, record_policy(self._run, agent, env_steps, overall, overall, last)

    def close(self) -> None:
        """Close the environment of the evaluations; the next evaluation makes a new one."""
        if self._env is not None:
            self._env.close(raise_if_closed=False)
            self._env = None

    def state_dict(self) -> dict[str, Any]:
        """Return ``rows`` and, as ``evaluations``, ``episodes`` of all evaluations so far, for the training state."""
        return {"rows": self.rows, "evaluations": self.episodes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``; raise a ValueError if it does not have that format."""
        rows, episodes = state["rows"], state["evaluations"]
        is_valid = all(is_nonnegative_int(row["env_steps"]) for row in rows)
        is_valid &= all(value is None or is_number(value) for row in rows for value in row.values())
        is_valid &= all({"returns", "length"} <= table.keys() <= ARRAY_NAMES.keys() for table in episodes)
        columns = [column for table in episodes for column in table.values()]
        is_valid &= all(column.dtype == torch.float64 and column.ndim == 1 for column in columns)
        if not is_valid or len(rows) != len(episodes):
            raise ValueError("evaluations of another kind")
        self.rows, self.episodes = rows, episodes
