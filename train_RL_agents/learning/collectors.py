"""Collection of steps: in this process, by workers, or by CUDA graphs.

All collectors have TorchRL's interface. Workers are processes on this host or on others. The training loop does not
depend on which one is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from tensordict import TensorDictBase
from torchrl.collectors import Collector

from marinenav_env.runtime.philox import RandomSource
from marinenav_env.support.validation import ConfigError
from train_RL_agents.agents import Agent
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.environments import Environment
from train_RL_agents.learning.graph_collector import GraphCollector
from train_RL_agents.learning.watchdog import StoppedWaitingError
from train_RL_agents.learning.workers import Workers
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.utils.errors import first_line
from train_RL_agents.utils.progress import PhaseTimer, ProgressDisplay


class LocalCollector(Collector):
    """TorchRL's Collector without its copies of batches of one step, which take 3% of AC-IQN's loop, 6% of DQN's."""

    _carrier: TensorDictBase

    @torch.no_grad()
    def rollout(self) -> TensorDictBase:
        """Return the next steps [E, T]."""
        if self.frames_per_batch > 1:  # here TorchRL means T, per environment
            return super().rollout()
        step, self._carrier = self.env.step_and_maybe_reset(self.policy(self._carrier))
        return step.unsqueeze(-1)


class StepCollector:
    """Collector of transitions with an exploring policy, in this process, by CUDA graphs or by worker processes."""

    def __init__(
        self,
        environment: Environment,
        agent: Agent[Any],
        device: torch.device,
        seed: int,
        noise: RandomSource,
        generator: torch.Generator,
        clock: PhaseTimer,
        display: ProgressDisplay,
    ) -> None:
        config = environment.config
        settings = config.trainer
        self._environment, self._config, self._device = environment, config, device
        self._seed, self._noise, self._clock, self._display = seed, noise, clock, display
        self.env: Any = environment.make_envs(agent, device, seed, noise)
        uniform = False
        if isinstance(settings, OffPolicyConfig):
            settings.check_sizes(self.env.num_robots)
            uniform = settings.exploration == "uniform"
        self.policy = PolicyWrapper(
            agent, settings.num_envs, generator, uniform=uniform, compile=config.execution.compile
        )
        self._generator = generator
        captures = config.env.is_built_in and config.execution.capture and device.type == "cuda"
        self.uses_cuda_graphs = captures and settings.collector == "local"
        """True if steps are collected by CUDA graphs."""
        self.env_steps = 0
        """Env-steps of this process so far."""
        self.on_worlds_replaced: Callable[[], None] = lambda: None
        """Callback after the worlds are replaced, which drops unfinished n-step windows."""
        self.is_stopping: Callable[[], bool] = lambda: False
        """Function that returns whether the run was asked to stop; workers are then not waited for."""
        self._has_restored_state = self._restarts_episodes = False
        self._workers: Workers | None = None
        self._graphs: GraphCollector | None = None
        self._collect_next: Callable[[], TensorDictBase] | None = None

    def collect(self) -> TensorDictBase:
        """Return the next steps [E, T] of all E environments, T per batch, with TorchRL's keys."""
        if self._collect_next is None:
            self._collect_next = self._start_collecting()
        try:
            steps = self._collect_next()
        except (StoppedWaitingError, ConfigError):
            raise
        except Exception as error:  # of any type, because the run can continue without workers
            if self._workers is None:
                raise
            self._has_restored_state = False
            self._collect_next = self._without_workers(error)
            steps = self._collect_next()
        self.env_steps += steps.shape[0] * steps.shape[1]
        return steps

    def _start_collecting(self) -> Callable[[], TensorDictBase]:
        """Start collecting, after the state of a resumed run was restored; return a function that collects a batch."""
        if self.uses_cuda_graphs:
            self._graphs = GraphCollector(
                self.env,
                self.policy,
                [self._generator, self.env.generator],
                self._config.execution,
                self._display.log,
                self._config.trainer.vector_steps,
            )
            return self._graphs.collect
        if self._config.trainer.collector != "local":
            try:
                return partial(next, self._start_workers())
            except StoppedWaitingError:
                raise
            except Exception as error:
                return self._without_workers(error)
        return self._start_local()

    def _start_local(self) -> Callable[[], TensorDictBase]:
        """Return the function that collects a batch in this process, without CUDA graphs."""
        if self._restarts_episodes:
            self._display.log("the environment has no state to save: its episodes restart")
            self.on_worlds_replaced()
        settings = self._config.trainer
        collector = LocalCollector(
            self.env,
            self.policy,
            frames_per_batch=settings.num_envs * settings.vector_steps,
            total_frames=-1,
            use_buffers=False,
            return_same_td=True,  # batches share no memory, so they need not be copied
            no_cuda_sync=True,
            track_traj_ids=False,
            auto_register_policy_transforms=False,
        )
        return partial(next, iter(collector))

    def _without_workers(self, error: Exception) -> Callable[[], TensorDictBase]:
        """Return the function that collects a batch in this process, because workers failed with ``error``."""
        if self._workers is not None:
            self._workers.close()
            self._workers = None
        self._display.log(
            f"no workers by {self._config.trainer.collector} ({first_line(error)}); collecting in this process"
        )
        if not self._has_restored_state:
            self._reseed_envs()
            self.on_worlds_replaced()
        self.env.env_steps = self.env_steps  # the env-steps that workers made
        return self._start_local()

    def _reseed_envs(self) -> None:
        """Seed the environments so that they do not repeat the episodes and noise of the env-steps so far."""
        if self.env_steps:
            self._noise.step.fill_(self.env_steps // self._config.trainer.num_envs)
            self.env.set_seed((self._seed + self.env_steps) % 2**31)

    def _start_workers(self) -> Iterator[TensorDictBase]:
        """Start workers, and return an iterator over their batches."""
        with self._clock.phase("compile"):  # so that it does not count as training time
            self._workers = Workers(
                self._environment, self.policy, self._device, self._seed, self._noise, self.env_steps, self.is_stopping
            )
        self.on_worlds_replaced()
        return self._workers.batches()

    def close(self) -> None:
        """End workers, if there are any, and close the environments."""
        if self._workers is not None:
            self._workers.close()
        self.env.close(raise_if_closed=False)

    def state_dict(self) -> dict[str, Any]:
        """Return ``world``, the state of the environments, None if workers have them or they save none, and ``memory``.

        It is that of a recurrent policy after the latest step.
        """
        # Workers keep their worlds; a resumed run starts new ones with new random numbers.
        if self._workers is not None:
            return {"world": None, "memory": None}
        memory = self.policy.memory if self._graphs is None else self._graphs.memory
        return {"world": self.env.state_dict(), "memory": None if memory is None else memory.clone()}

    def load_state_dict(self, state: dict[str, Any], env_steps: int) -> None:
        """Restore a ``state_dict`` of this process after ``env_steps`` env-steps; without a world, episodes restart."""
        self.env_steps = env_steps
        self._has_restored_state = state["world"] is not None
        if self._has_restored_state:
            self.env.load_state_dict(state["world"])
            self.policy.memory = state.get("memory")
        elif self._config.trainer.collector == "local":
            self._restarts_episodes = True
            self._reseed_envs()
