"""MarineNavEnv as the environment of a run: levels, scenario files, workers, evaluations, memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor
from torchrl.envs import EnvBase

from marinenav_env import Curriculum, MarineNavEnv, WorldConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.complete import required_draws
from marinenav_env.scenarios.episode import Episode
from marinenav_env.sensing.perception import perception_entries
from marinenav_env.sensing.shores import SHORE
from marinenav_env.stepping.actions import commands_of_discrete_actions
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.agents import Agent
from train_RL_agents.agents.trainer_configs import TrainerConfig
from train_RL_agents.config.building import count_actions, make_agent, make_observation_spec
from train_RL_agents.config.schema import EvalSchedule, TrainConfig, TrainingSchedule
from train_RL_agents.environments.worlds import training_scenarios, training_world
from train_RL_agents.evaluation.running.history import WorldEvaluations
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.memory import tree_bytes

_CPU = torch.device("cpu")


class BuiltInEnvironment:
    """The built-in environment of a run, with the share of one of several processes; see Environment."""

    def __init__(self, config: TrainConfig[Any], num_processes: int = 1) -> None:
        self.config, self._total_envs = config, num_processes * config.trainer.num_envs
        self.spec = make_observation_spec(config.world)
        self.num_actions = count_actions(config)
        self.action_table: Tensor | None = commands_of_discrete_actions(config.world.vessel)
        # Entries of the built-in sensors are always finite.
        built_in = {entry.name for entry in perception_entries(config.world)} | {"scan"}
        self.checked_entries = tuple(sorted(self.spec.entries.keys() - built_in))

    def make_agent(self, device: torch.device) -> Agent[Any]:
        """Return a new, untrained agent; see Environment."""
        return make_agent(self.config, self.num_actions, device, self.spec)

    def make_envs(
        self, agent: Agent[Any], device: torch.device, seed: int, noise: RandomSource | None = None
    ) -> MarineNavEnv:
        """Return the training environments; see Environment."""
        config = self.config
        env = MarineNavEnv(
            training_world(config),
            config.trainer.num_envs,
            scenarios=training_scenarios(config),
            continuous=agent.continuous,
            device=device,
            seed=seed,
            noise=noise,
            total_envs=self._total_envs,
            compile_step=config.execution.compile,
            episode_statistics=True,
            # Only with workers; without them, the graph collector captures more than the step.
            capture_step=config.execution.capture and config.trainer.collector != "local",
            check_actions=False,  # see Algorithm.check_sums
        )
        room = env.config.scenario.shore_segments
        sees_shores = SHORE not in env.entries or SHORE in self.spec.entries
        require(sees_shores, "world.scenario.shore_segments", 0, f"{room}, for the shores of the scenarios")
        for name, entry in self.spec.entries.items():
            shape, wanted = list(env.entries[name].shape), list(entry.shape)
            key, slots = f"training_schedule.scenarios: {name}", env.config.sensor.slots
            allowed = f"{wanted}, as world.sensor gives; world.sensor.max_objects={slots} fits the file"
            require(shape == wanted, key, shape, allowed)
        return env

    def worker_factories(
        self, agent: Agent[Any], seeds: Sequence[int], noise: RandomSource, env_steps: int
    ) -> list[Callable[[], EnvBase]]:
        """Return a factory of each worker's environments; see Environment.

        Together the environments of all workers draw the same random numbers as those of a single process.
        """
        config, count = self.config, len(seeds)
        num_envs = config.trainer.num_envs
        numbers = noise.environment.to(_CPU).split(num_envs // count)
        scenarios = training_scenarios(config)
        if isinstance(scenarios, Curriculum):
            begins = tuple(-(-begin // count) for begin in scenarios.timesteps)
            scenarios = replace(scenarios, timesteps=begins)
        return [
            partial(
                make_worker_share,
                training_world(config),
                num_envs // count,
                scenarios,
                env_steps // count,
                seed=seed,
                noise=RandomSource(noise.seed.to(_CPU), numbers[worker].clone(), torch.tensor(env_steps // num_envs)),
                total_envs=self._total_envs,
                continuous=agent.continuous,
                compile_step=config.execution.compile,
                check_actions=False,  # see Algorithm.check_sums
                episode_statistics=True,
            )
            for worker, seed in enumerate(seeds)
        ]

    def make_evaluator(self, run: RunFolder, device: torch.device, env: Any) -> WorldEvaluations:
        """Return the evaluations of a run, on a fixed set of scenarios; see Environment."""
        return WorldEvaluations(run, device, env)

    def device_scalars(self, env: Any) -> dict[str, Tensor]:
        """Return the number of scenarios that refreshes of the pool kept, on the device; empty if they keep none."""
        kept = env.reset_pool.kept
        return {} if kept is None else {"scenarios_kept": kept}

    # Memory -------------------------------------------------------------------------------------

    def held_memory(self, agent: Agent[Any]) -> tuple[TensorDictBase, dict[str, int]]:
        """Return an example step, and held memory by its use; see Environment."""
        config = self.config
        _check_levels_fit(config)
        with warnings.catch_warnings(action="ignore"):  # the run itself warns of its scenario file
            scenarios = training_scenarios(config)
        if isinstance(scenarios, Curriculum):
            scenarios = replace(scenarios, pool_size=1, refresh_size=1)
        world = training_world(config)
        env = MarineNavEnv(world, 1, scenarios=scenarios, continuous=agent.continuous, episode_statistics=True, seed=0)
        return env.fake_tensordict(), {
            "world and collected steps": _world_bytes(env, config.trainer),
            "scenarios held ready": config.training_schedule.curriculum().pool_size * _pool_entry_bytes(env),
        }


def make_worker_share(
    world: WorldConfig, num_envs: int, scenarios: Curriculum | list[Episode], env_steps: int, **settings: Any
) -> MarineNavEnv:
    """Return the share of the environments that one worker steps; called in the worker's process."""
    env = MarineNavEnv(world, num_envs, scenarios=scenarios, **settings)
    env.env_steps = env_steps
    return env


def _check_levels_fit(config: TrainConfig[Any]) -> None:
    """Raise a ConfigError that names the schedule if robots, cores or obstacles of a level do not fit on the map."""
    training = config.training_schedule
    schedules: dict[str, TrainingSchedule | EvalSchedule] = {"eval_schedule": config.eval_schedule}
    if not (training.sampler or training.scenarios):
        schedules = {"training_schedule": training, **schedules}
    for name, schedule in schedules.items():
        try:
            required_draws(config.world.scenario, schedule.levels)
        except ConfigError as error:
            raise ConfigError(f"{name}: {error}") from error


def _world_bytes(env: MarineNavEnv, settings: TrainerConfig) -> int:
    """Return the memory (bytes) of the old and the new state of the environments, and of the steps being collected."""
    steps = (settings.vector_steps + 2) * tree_bytes(env.fake_tensordict())  # the previous and the next one, too
    return settings.num_envs * (2 * _pool_entry_bytes(env) + steps)


def _pool_entry_bytes(env: MarineNavEnv) -> int:
    """Return the number of bytes of an entry of the reset pool: scenario, state and observation."""
    parts = (env.scenario, env.state, env.observation_spec.zero())
    return sum(tree_bytes(part) for part in parts)
