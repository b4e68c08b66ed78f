"""Evaluations in environments of others: seeded episodes, their return, length and success."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marinenav_env.specs import STATISTICS
from marinenav_env.support.validation import is_count, is_number, require
from train_RL_agents.agents import Agent
from train_RL_agents.environments.group_env import GroupEnv
from train_RL_agents.evaluation.tally import ProgressCallback
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.results.rows import finite
from train_RL_agents.results.statistics import ratio_estimate, wilson_interval
from train_RL_agents.run.run_folder import RunFolder, record_policy

PATIENCE = 20_000
"""Steps without the end of an episode after which an evaluation gives up."""


def seed_for(purpose: str, seed: int) -> int:
    """Return the seed of environments for a purpose, so that trainings and evaluations have different episodes."""
    digest = hashlib.sha256(f"{purpose} {seed}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % 2**31


@dataclass(frozen=True)
class EpisodeTable:
    """Rows of N episodes of one policy; columns are tensors [N] on the CPU."""

    returns: Tensor
    """Sum of the rewards, mean of the agents."""
    length: Tensor
    """Steps."""
    success: Tensor | None = None
    """Success, 0 or 1; None where the environment does not tell."""

    def report(self) -> dict[str, Any]:
        """Return the figures over all episodes, with 95% intervals."""
        count = len(self.returns)
        mean = ratio_estimate(self.returns.double().numpy(), np.ones(count))
        figures: dict[str, Any] = {
            "episodes": count,
            "avg_return": mean.value,
            "return_low": mean.low,
            "return_high": mean.high,
            "avg_length": float(self.length.double().mean()),
        }
        if self.success is None:
            return figures
        successes = int(self.success.sum())
        low, high = wilson_interval(successes, count)
        return {"success_rate": successes / count, "success_low": low, "success_high": high, **figures}

    def state_dict(self) -> dict[str, Tensor]:
        """Return the columns by name."""
        return {name: column for name, column in vars(self).items() if column is not None}


@torch.no_grad()
def run_episodes(
    policy: PolicyWrapper, env: GroupEnv, episodes: int, seed: int, progress: ProgressCallback | None = None
) -> EpisodeTable:
    """Run seeded episodes, equally many in each environment, so that short ones are not preferred.

    Args:
        policy: policy in evaluation mode.
        env: environments.
        episodes: number N of episodes.
        seed: seed of the environments.
        progress: callback with the numbers of episodes that have ended, and of all.
    """
    env.set_seed(seed_for("evaluation", seed))
    share, more = divmod(episodes, env.num_envs)
    left = [share + (number < more) for number in range(env.num_envs)]
    rows: list[list[list[float]]] = [[] for _ in left]
    step, ended, waited = env.reset(), 0, 0
    while ended < episodes:
        waited += 1
        require(waited <= PATIENCE, "env.max_steps", env.max_steps, f"above 0: no episode of {env.name} ends")
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
    return EpisodeTable(*columns)


class EpisodeEvaluations:
    """Evaluations of a run in an environment of another library; see evaluation.history.History.

    Args:
        run: run folder, with the configuration.
        make: function that makes the environments of the evaluations, when the first one begins.
    """

    def __init__(self, run: RunFolder, make: Callable[[], GroupEnv]) -> None:
        self._run, self._make = run, make
        self._env: GroupEnv | None = None
        self.rows: list[dict[str, Any]] = []
        self.episodes: list[EpisodeTable] = []
        """Episodes of each evaluation."""

    def begin(self) -> None:
        """Write nothing: the episodes follow from the seed."""

    def evaluate(
        self, agent: Agent[Any], env_steps: int, last: bool = False, progress: ProgressCallback | None = None
    ) -> None:
        """Run the episodes, and log the distribution of the returns."""
        config = self._run.config
        self._env = self._env or self._make()
        table = run_episodes(
            PolicyWrapper(agent), self._env, config.env.eval_episodes, config.eval_schedule.seed, progress
        )
        self.episodes.append(table)
        self._run.log_histogram("eval/returns", table.returns, env_steps)

    def record(
        self, agent: Agent[Any], env_steps: int, times: dict[str, float], last: bool
    ) -> tuple[dict[str, Any], bool]:
        """Write and log the latest evaluation, and save its policy, as History does."""
        overall = finite(self.episodes[-1].report())
        self.rows.append({"env_steps": env_steps, **times, **overall})
        self._run.write_evaluations(self.rows, self._arrays())
        return overall, record_policy(self._run, agent, env_steps, overall, overall, last)

    def _arrays(self) -> dict[str, Any]:
        """Return the arrays of evaluations.npz."""
        names = {"returns": "rewards", "length": "lengths", "success": "successes"}
        columns = [table.state_dict() for table in self.episodes]
        arrays = {names[key]: torch.stack([own[key] for own in columns]).numpy() for key in columns[0]}
        return {"timesteps": [row["env_steps"] for row in self.rows], **arrays}

    def close(self) -> None:
        """Close the environment of the evaluations; the next one makes it again."""
        if self._env is not None:
            self._env.close(raise_if_closed=False)
            self._env = None

    def state_dict(self) -> dict[str, Any]:
        """Return the figures and episodes of all evaluations so far."""
        return {"rows": self.rows, "evaluations": [table.state_dict() for table in self.episodes]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the evaluations of a state_dict; a ValueError says when they are of other episodes."""
        rows = state["rows"]
        is_valid = all(is_count(row["env_steps"]) for row in rows)
        is_valid &= all(value is None or is_number(value) for row in rows for value in row.values())
        episodes = [EpisodeTable(**columns) for columns in state["evaluations"]]
        columns = [column for table in episodes for column in table.state_dict().values()]
        is_valid &= all(column.dtype == torch.float64 and column.ndim == 1 for column in columns)
        if not is_valid or len(rows) != len(episodes):
            raise ValueError("evaluations of another kind")
        self.rows, self.episodes = rows, episodes
