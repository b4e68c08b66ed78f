"""Evaluations of a training run, with their log and their checkpoints."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marinenav_env import MarineNavEnv
from marinenav_env.scenarios.scenario_file import episodes_from_scenarios, scenario_text
from marinenav_env.support.validation import is_nonnegative_int, is_number
from train_RL_agents.agents import Agent
from train_RL_agents.evaluation.episodes import can_share_code, draw_scenarios, evaluate, make_evaluation_env
from train_RL_agents.evaluation.repeated_evaluation import RepeatedEvaluation, can_shrink_batch
from train_RL_agents.evaluation.tally import ProgressCallback, Transition
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.results.rows import Episodes, nonfinite_to_none, stored_arrays
from train_RL_agents.run.run_folder import RunFolder, record_policy

_MAX_DRAWING_SHARE = 0.02
"""Largest share of a run's time that may be spent on drawing; the last evaluation is always drawn."""


class Probe(Protocol):
    """Callback that observes an evaluation for TensorBoard; see figures.snapshot."""

    first_quantiles: Tensor | None
    """Quantiles of the return of the first actions of all robots (scaled rewards), flat; None if the agent does not
    estimate them."""

    def __call__(self, transition: Transition, env: MarineNavEnv) -> bool:
        """Record a control step, and return whether further steps are needed (see StepCallback)."""

    def picture(self, title: str, map_size: tuple[float, float]) -> NDArray[np.uint8] | None:
        """Return a picture of the tracks, with a title, as pixels [height, width, 3]; None if none is drawn."""

    def success_by_level(self, env_steps: list[int], rates: dict[str, list[float]]) -> NDArray[np.uint8] | None:
        """Return a picture of success rates over env-steps as pixels [height, width, 3]; None if none is drawn."""


class History:
    """Evaluations of a training run on its fixed set of scenarios, with their results.

    Args:
        run: run folder, with the configuration.
        device: device of the evaluations.
        make_probe: factory of the probe of one evaluation, from the agent, the levels [N] of the scenarios and whether
            to draw.
        compiled_env: training environment whose compiled code evaluations on a CPU share; None if it is not compiled.
    """

    def __init__(
        self,
        run: RunFolder,
        device: torch.device,
        make_probe: Callable[[Agent[Any], Tensor, bool], Probe],
        compiled_env: MarineNavEnv | None = None,
    ) -> None:
        self._run, self._config, self._device = run, run.config, device
        self._make_probe = make_probe
        schedule = self._config.eval_schedule
        self.scenarios = draw_scenarios(self._config.world, schedule.levels, schedule.num_episodes, schedule.seed)
        self.rows: list[dict[str, Any]] = []
        """Metrics of each evaluation, as in evaluations.csv."""
        self.episodes: list[Episodes] = []
        """Episodes of each evaluation."""
        self._compiled_env = compiled_env
        self._evaluate: Callable[..., Episodes] | None = None
        """Function that runs the fixed set with ``_agent``; kept, so that its code is compiled only once."""
        self._agent: Agent[Any] | None = None
        self._began, self._drawing = time.perf_counter(), 0.0

    def begin(self) -> None:
        """Write the scenarios of the fixed set to the run folder."""
        config = self._config
        self._run.write_scenarios(
            scenario_text(episodes_from_scenarios(self.scenarios, config.world, config.eval_schedule.seed))
        )

    def evaluate(
        self,
        agent: Agent[Any],
        env_steps: int,
        last: bool = False,
        progress: ProgressCallback | None = None,
    ) -> None:
        """Evaluate an agent on the fixed set of scenarios, store the episodes, and log returns and tracks.

        Args:
            agent: agent to evaluate.
            env_steps: env-steps of the run so far.
            last: whether the run ends with this evaluation.
            progress: callback with the number of ended episodes and the number of all episodes.
        """
        elapsed = time.perf_counter() - self._began
        probe = self._make_probe(agent, self.scenarios.level, last or self._drawing <= _MAX_DRAWING_SHARE * elapsed)
        if self._evaluate is None or self._agent is not agent:
            self._agent, self._evaluate = agent, self._make_runner(agent)
        episodes = self._evaluate(on_step=probe, progress=progress)
        self.episodes.append(episodes)
        began = time.perf_counter()
        self._log_plots(episodes, probe, env_steps)
        self._drawing += time.perf_counter() - began

    def _make_runner(self, agent: Agent[Any]) -> Callable[..., Episodes]:
        """Return a function that runs the fixed set, by RepeatedEvaluation or ``evaluate``."""
        config, env, policy = self._config, self._compiled_env, PolicyWrapper(agent)
        seed, scenarios = config.eval_schedule.seed, self.scenarios
        options: dict[str, Any] = {
            "continuous": agent.continuous,
            "device": self._device,
            "seed": seed,
        }
        evaluation_env = make_evaluation_env(scenarios, config.world, dtype=torch.float32, **options)
        if not can_shrink_batch(evaluation_env):
            return RepeatedEvaluation(policy, evaluation_env, seed, execution=config.execution).run
        if env is not None and can_share_code(env, evaluation_env):
            return RepeatedEvaluation(policy, evaluation_env, seed, env).run
        return partial(evaluate, policy, scenarios, config.world, **options)

    def record(
        self, agent: Agent[Any], env_steps: int, times: dict[str, float], last: bool
    ) -> tuple[dict[str, Any], bool]:
        """Write and log the latest evaluation, and save its policy.

        Args:
            agent: agent that was evaluated.
            env_steps: env-steps of the run so far.
            times: times (s) by name of their column in evaluations.csv.
            last: whether the run ends with this evaluation.

        Returns:
            Metrics over all episodes, and whether the policy is the best so far.
        """
        table = nonfinite_to_none(self.episodes[-1].table())
        overall = table["overall"]
        levels = {
            f"success_rate_{name.replace(' ', '_')}": row["success_rate"]
            for name, row in table.items()
            if name != "overall"
        }
        self.rows.append({"env_steps": env_steps, **times, **overall, **levels})
        steps = {"timesteps": [row["env_steps"] for row in self.rows]}
        self._run.write_evaluations(self.rows, steps | stored_arrays(self.episodes))
        return overall, record_policy(self._run, agent, env_steps, overall, overall | levels, last)

    def _log_plots(self, episodes: Episodes, probe: Probe, env_steps: int) -> None:
        """Log returns, return quantiles of the first actions, tracks, and success by level."""
        self._run.log_histogram("eval/returns", episodes.returns, env_steps)
        if probe.first_quantiles is not None:
            quantiles = probe.first_quantiles / self._config.trainer.reward_scale
            self._run.log_histogram("eval/return_quantiles", quantiles, env_steps)
        area = self._config.world.scenario
        title = f"{self._config.agent_type} after {env_steps:,} env-steps"
        picture = probe.picture(title, (area.width, area.height))
        if picture is not None:
            self._run.log_image("eval/trajectories", picture, env_steps)
        tables = [evaluation.table() for evaluation in self.episodes]
        rates = {name: [table[name]["success_rate"] for table in tables] for name in tables[0]}
        curves = probe.success_by_level([*(row["env_steps"] for row in self.rows), env_steps], rates)
        if curves is not None:
            self._run.log_image("eval/success_by_level", curves, env_steps)

    def close(self) -> None:
        """Do nothing, because the world of evaluations holds only tensors."""

    def state_dict(self) -> dict[str, Any]:
        """Return the rows and the episodes of all evaluations so far, for a checkpoint."""
        return {"rows": self.rows, "evaluations": [evaluation.state_dict() for evaluation in self.episodes]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the evaluations that ``state_dict`` returned.

        Raises:
            ValueError: when the evaluations are invalid, or of another set of scenarios.
        """
        rows, episodes = state["rows"], list(map(Episodes.from_state_dict, state["evaluations"]))
        is_valid = len(rows) == len(episodes)
        for row in rows:
            is_valid &= is_nonnegative_int(row["env_steps"]) and is_number(row["success_rate"])
            is_valid &= all(value is None or is_number(value) for value in row.values())
        for evaluation in episodes:
            is_valid &= all(len(tensor) == len(self.scenarios) for tensor in vars(evaluation).values())
            is_valid &= torch.equal(evaluation.level, self.scenarios.level.cpu())
        if not is_valid:
            raise ValueError("evaluations of another kind")
        self.rows, self.episodes = rows, episodes
