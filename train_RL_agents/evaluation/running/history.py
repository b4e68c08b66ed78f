"""Evaluations of a training run, with their log and their checkpoints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

import torch
from numpy.typing import NDArray

from marinenav_env import MarineNavEnv
from marinenav_env.runtime.host_reads import host_reads_are_free
from marinenav_env.scenarios.episode import episodes_from_scenarios
from marinenav_env.scenarios.scenario_file import scenario_text
from train_RL_agents.agents import Agent
from train_RL_agents.evaluation.running.episodes import (
    EpisodeRunner,
    can_share_code,
    draw_scenarios,
    make_evaluation_env,
)
from train_RL_agents.evaluation.running.steps import ProgressCallback
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.run.run_folder import RunFolder, record_policy
from train_RL_agents.utils.rows import Episodes, nonfinite_to_none, stored_arrays

Results = TypeVar("Results")
Metrics = dict[str, Any]


class Evaluations(ABC, Generic[Results]):
    """Evaluations of a training run in its environment, on a device, with their results."""

    def __init__(self, run: RunFolder, device: torch.device) -> None:
        self._run, self._config, self._device = run, run.config, device
        self.rows: list[Metrics] = []
        """Metrics of each evaluation, as in evaluations.csv."""
        self.episodes: list[Results] = []

    def begin(self) -> None:
        """Write what a new run states about its evaluations: nothing, where episodes follow from the seed."""

    @abstractmethod
    def evaluate(self, agent: Agent[Any], progress: ProgressCallback | None = None) -> None:
        """Run the evaluation episodes of an agent, and store their results."""

    def record(self, agent: Agent[Any], env_steps: int, times: dict[str, float]) -> tuple[Metrics, bool]:
        """Write and log the latest evaluation, and save its policy; return its metrics and whether it is the best.

        The times (s) are by name of their column in evaluations.csv.
        """
        overall, more = nonfinite_to_none(self._latest_metrics())
        self.rows.append({"env_steps": env_steps, **times, **overall, **more})
        steps = {"timesteps": [row["env_steps"] for row in self.rows]}
        self._run.write_evaluations(self.rows, steps | self._arrays())
        return overall, record_policy(self._run, agent, env_steps, overall, overall | more)

    @abstractmethod
    def _latest_metrics(self) -> tuple[Metrics, Metrics]:
        """Return metrics of the latest evaluation by name: over all episodes, and further ones."""

    @abstractmethod
    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the columns of all evaluations, [evaluations, episodes], by their names in evaluations.npz."""

    def close(self) -> None:
        """Close environments that hold more than tensors."""

    def state_dict(self) -> dict[str, Any]:
        """Return the rows and the results of all evaluations so far, for a checkpoint."""
        return {"rows": self.rows, "evaluations": self.episodes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        self.rows, self.episodes = state["rows"], state["evaluations"]


class WorldEvaluations(Evaluations[Episodes]):
    """Evaluations on fixed scenarios of the built-in world, on a CPU by the training environment's code if it fits."""

    def __init__(self, run: RunFolder, device: torch.device, training_env: MarineNavEnv | None = None) -> None:
        super().__init__(run, device)
        self._training_env = training_env
        schedule = self._config.eval_schedule
        self.scenarios = draw_scenarios(self._config.world, schedule.levels, schedule.num_episodes, schedule.seed)
        self._runner: EpisodeRunner | None = None
        """Runner of the fixed set with ``_agent``; kept, so that its code is compiled only once."""
        self._agent: Agent[Any] | None = None

    def begin(self) -> None:
        """Write the scenarios of the fixed set to the run folder."""
        config = self._config
        self._run.write_scenarios(
            scenario_text(episodes_from_scenarios(self.scenarios, config.world, config.eval_schedule.seed))
        )

    def evaluate(self, agent: Agent[Any], progress: ProgressCallback | None = None) -> None:
        """Run the fixed set with an agent, and store the episodes; see Evaluations."""
        if self._runner is None or self._agent is not agent:
            self._agent, self._runner = agent, self._make_runner(agent)
        self.episodes.append(self._runner.run(progress=progress))

    def _make_runner(self, agent: Agent[Any]) -> EpisodeRunner:
        """Return the runner of the fixed set with an agent, by compiled code if the run's settings say so."""
        execution, world, seed = self._config.execution, self._config.world, self._config.eval_schedule.seed
        options: dict[str, Any] = {"continuous": agent.continuous, "device": self._device, "seed": seed}
        env, compiled = make_evaluation_env(self.scenarios, world, **options), self._training_env
        if not (host_reads_are_free(self._device) and execution.compile):
            compiled = None
        elif compiled is None or not can_share_code(compiled, env):
            compiled = make_evaluation_env(self.scenarios, world, compile_step=True, **options)
        return EpisodeRunner(PolicyWrapper(agent), env, seed, compiled, execution=execution)

    def _latest_metrics(self) -> tuple[Metrics, Metrics]:
        table = self.episodes[-1].table()
        overall = table.pop("overall")
        return overall, {f"success_rate_{name.replace(' ', '_')}": row["success_rate"] for name, row in table.items()}

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return stored_arrays(self.episodes)

    def state_dict(self) -> dict[str, Any]:
        """Return the rows and the episodes of all evaluations so far, for a checkpoint."""
        return {"rows": self.rows, "evaluations": [evaluation.state_dict() for evaluation in self.episodes]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what ``state_dict`` returned."""
        super().load_state_dict(state | {"evaluations": list(map(Episodes.from_state_dict, state["evaluations"]))})
