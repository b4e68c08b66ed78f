"""Environments in other processes, on this host or on others, driven by TorchRL's collectors.

Every worker has its share of the environments, a copy of the policy and separate streams of random numbers. All workers
collect a batch with the latest weights at the same time. The result is like that of a single world: [E, T], always in
the same order of environments.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.collectors import MultiSyncCollector
from torchrl.envs import EnvBase

from marinenav_env.runtime.philox import RandomSource
from marinenav_env.support import plugins
from marinenav_env.support.extras import import_optional
from marinenav_env.support.validation import ConfigError
from train_RL_agents.agents import Agent
from train_RL_agents.environments import Environment
from train_RL_agents.learning.watchdog import Watchdog, WorkersTimeoutError
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.utils.device import keep_freed_memory, random_stream

_CPU = torch.device("cpu")
_SEED_STRIDE = 2_000_000_011
"""Difference between the seeds of successive workers; it is odd, and not that between ranks."""
_RESUME_STRIDE = 10_007
"""Difference between the seeds of runs resumed one env-step apart, so that a resumed run explores differently."""
_SHUTDOWN_SECONDS = 3.0
"""Time limit for TorchRL or Ray to clean up after the workers (s)."""
_worker_seed = 0


def make_worker_env(make: Callable[[], EnvBase], seed: int, allowed: tuple[str, ...]) -> EnvBase:
    """Set up the process of a worker, and return its environments; called in that process."""
    global _worker_seed
    _worker_seed = seed
    # Ctrl-C reaches every process of a terminal, but only the trainer decides when to stop.
    with contextlib.suppress(ValueError):  # only the main thread may set handlers
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if multiprocessing.parent_process() is not None:
        # The trainer reports errors that end a worker.
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    keep_freed_memory()
    plugins.allow(*allowed)
    return make()


class WorkerPolicy(PolicyWrapper):
    """Exploring policy on the CPU that is sent to workers; every copy draws its own random numbers for ``num_envs``.

    The agent of the trainer's policy is copied without targets. If the policy is compiled, every worker compiles.
    """

    def __init__(self, policy: PolicyWrapper, num_envs: int) -> None:
        acting = copy.deepcopy(policy.agent).to(_CPU).requires_grad_(False)
        acting.targets = nn.ModuleDict()  # only the learner needs them
        super().__init__(acting, num_envs, uniform=policy.uniform, compile=policy.compile)
        self.train()
        self.copy_from(policy)

    def forward(self, tensordict: TensorDictBase, noise: Any = None) -> TensorDictBase:
        """Act with exploration noise from the worker's own generator; see PolicyWrapper."""
        if self._generator is None:
            self._generator = random_stream(_worker_seed, 1, _CPU)
        result: TensorDictBase = super().forward(tensordict, noise)
        return result

    @torch.no_grad()
    def copy_from(self, policy: PolicyWrapper) -> None:
        """Copy the weights of a policy and, at equal distances, the exploration strengths of its environments."""
        weights, latest = (agent.networks.state_dict() for agent in (self.agent, policy.agent))
        for weight, latest_weight in zip(weights.values(), latest.values(), strict=True):
            weight.copy_(latest_weight)
        stride = policy.exploration.shape[0] // self.exploration.shape[0]
        self.exploration.copy_(policy.exploration[::stride])


class Workers:
    """Worker processes that step the environments, started by the constructor.

    A ConfigError says that Ray is missing or has too few processors; TorchRL may raise others.
    """

    def __init__(
        self,
        environment: Environment,
        policy: PolicyWrapper,
        device: torch.device,
        seed: int,
        noise: RandomSource,
        env_steps: int,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        settings, self._device, self._policy = environment.config.trainer, device, policy
        self._sent = WorkerPolicy(policy, settings.num_envs // settings.collectors)
        worlds = _worker_env_factories(environment, policy.agent, seed, noise, env_steps)
        frames = settings.num_envs * settings.vector_steps
        self._watchdog, self._limit = Watchdog(stopping), environment.config.env.max_wait
        if settings.collector == "ray":  # Ray sets signal handlers, which only the main thread may
            self._collector = _start_ray(worlds, self._sent, frames)
        else:
            try:
                start = partial(
                    MultiSyncCollector,
                    worlds,
                    self._sent,
                    frames_per_batch=frames,
                    total_frames=-1,
                    device=_CPU,
                    cat_results="stack",
                    auto_register_policy_transforms=False,
                )
                self._collector = self._watchdog.call(start)
            except BaseException:
                self._watchdog.kill()
                raise

    def batches(self) -> Iterator[TensorDictBase]:
        """Yield batches [E, T] on the device, collected with the latest weights.

        See ``Waiting.call`` for the errors of workers; a ConfigError says that external environments do not answer in
        time.
        """
        batches = iter(self._collector)

        def collected() -> TensorDictBase:
            self._collector.update_policy_weights_(self._sent)
            batch: TensorDictBase = next(batches)
            return batch

        while True:
            self._sent.copy_from(self._policy)
            try:
                batch = self._watchdog.call(collected, self._limit).flatten(0, 1).to(self._device)
            except WorkersTimeoutError as error:
                raise ConfigError(f"env.timeout={self._limit:g}: {error}") from error
            yield batch

    def close(self) -> None:
        """Kill the workers, which have nothing to save."""
        self._watchdog.kill()
        with contextlib.suppress(Exception):
            self._watchdog.call(self._collector.shutdown, _SHUTDOWN_SECONDS)


def _worker_env_factories(
    environment: Environment, agent: Agent[Any], seed: int, noise: RandomSource, env_steps: int
) -> list[Callable[[], EnvBase]]:
    """Return, for each worker, the function without arguments that it calls to make its environments."""
    config = environment.config
    seed += _RESUME_STRIDE * env_steps
    seeds = [seed + _SEED_STRIDE * (worker + 1) for worker in range(config.trainer.collectors)]
    makers = environment.worker_factories(agent, seeds, noise, env_steps)
    allowed = plugins.allowed_references()
    return [partial(make_worker_env, make, number, allowed) for make, number in zip(makers, seeds, strict=True)]


def _start_ray(worlds: list[Any], policy: WorkerPolicy, frames: int) -> Any:
    """Start the workers by Ray, on the cluster in RAY_ADDRESS, else on this host, and return their collector."""
    ray = import_optional("ray", "ray")
    from torchrl.collectors.distributed import RayCollector

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False, logging_level="error")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)  # as Ray replaces them
    processors = int(ray.cluster_resources().get("CPU", 0))
    if processors < len(worlds):
        raise ConfigError(f"Ray has {processors} processors for {len(worlds)} workers")
    return RayCollector(
        worlds,
        policy,
        frames_per_batch=frames,
        total_frames=sys.maxsize,  # RayCollector takes -1 as a number that is already reached
        sync=True,
        remote_configs={"num_cpus": 1, "num_gpus": 0},
        collector_kwargs={"auto_register_policy_transforms": False},
    )
