"""External environments as the environment of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from marinenav_env.runtime.philox import RandomSource
from marinenav_env.support.validation import require
from train_RL_agents.agents import AGENTS, Agent
from train_RL_agents.config.building import make_agent
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.environments.episodes import MAX_EVAL_ENVS, ExternalEvaluations, derive_seed
from train_RL_agents.environments.group_env import GroupEnv
from train_RL_agents.environments.makers import make_env
from train_RL_agents.networks.observation import ObservationSpec
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.memory import tree_bytes

_CPU = torch.device("cpu")
_PROCESS_BYTES = 250 * 2**20
"""Memory (bytes) of a process for one environment, which imports torch."""


class ExternalEnvironment:
    """External environment of a run, which docs/environments.md specifies; see Environment."""

    def __init__(self, config: TrainConfig[Any]) -> None:
        self.config = config
        self._example = env = make_env(config.env, 1, _CPU, 0)  # for its specs
        env.close(raise_if_closed=False)
        bounds = env.action_space.low
        self.spec = ObservationSpec(env.entries, action_size=1 if bounds is None else len(bounds))
        self.num_actions = max(env.action_space.num_actions, 1)
        self.action_table: Tensor | None = None
        self.checked_entries = tuple(sorted(name for name, entry in env.entries.items() if entry.kind != "mask"))

    def make_agent(self, device: torch.device) -> Agent[Any]:
        """Return a new agent of the run, whose actions are discrete or continuous like those of the environment."""
        agent = make_agent(self.config, self.num_actions, device, self.spec)
        wanted = self._example.action_space.is_continuous
        fitting = [name for name, each in AGENTS.items() if getattr(each, "continuous", wanted) == wanted]
        kind = "continuous" if wanted else "discrete"
        allowed = f"one of {', '.join(fitting)}, with the {kind} actions of {self.config.env.name}"
        require(agent.continuous == wanted, "agent_type", self.config.agent_type, allowed)
        return agent

    def make_envs(self, agent: Agent[Any], device: torch.device, seed: int, noise: RandomSource) -> GroupEnv:
        """Return the training environments, which generate their own random numbers."""
        return make_env(self.config.env, self.config.trainer.num_envs, device, derive_seed("training", seed))

    def worker_factories(
        self, agent: Agent[Any], seeds: Sequence[int], noise: RandomSource, env_steps: int
    ) -> list[Callable[[], EnvBase]]:
        """Return, for each worker, a function that makes its share of the environments, on the CPU."""
        share = self.config.trainer.num_envs // len(seeds)
        return [partial(make_env, self.config.env, share, _CPU, derive_seed("training", seed)) for seed in seeds]

    def make_evaluator(self, run: RunFolder, device: torch.device, env: Any) -> ExternalEvaluations:
        """Return the object that evaluates the agent of a run on seeded episodes."""
        return ExternalEvaluations(run, device)

    def device_scalars(self, env: Any) -> dict[str, Tensor]:
        """Return an empty dict, because an external environment has no scalars to log."""
        return {}

    def held_memory(self, agent: Agent[Any]) -> tuple[TensorDictBase, dict[str, int]]:
        """Return an example step of one environment, for shapes and dtypes, and held memory (bytes) by its use."""
        step, settings, env = self._example.fake_tensordict(), self.config.trainer, self.config.env
        count = settings.num_envs + min(env.eval_episodes, MAX_EVAL_ENVS)
        # The current step and the next one; the specs do not say what else an environment stores.
        tensors = 2 * tree_bytes(self._example.base.fake_tensordict())
        in_process = env.parallel and not self._example.is_batched
        return step, {
            "collected steps": settings.num_envs * (settings.vector_steps + 2) * tree_bytes(step),
            "environments": count * (tensors + _PROCESS_BYTES * in_process),
        }
