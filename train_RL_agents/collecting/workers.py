"""Environments in other processes, on this host or on others, driven by TorchRL's collectors.

Every worker has its share of the environments, a policy of its own and its own streams of random
numbers. A batch is collected by all workers at once with the latest weights, and comes back as if
one world had made it: [E, T], always in the same order of environments.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import nn
from torchrl.collectors import MultiSyncCollector

from marinenav_env import GROUP, Curriculum, MarineNavEnv, WorldConfig
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.scenario_file import Episode
from marinenav_env.support import plugins
from marinenav_env.support.extras import need
from marinenav_env.support.validation import ConfigError
from train_RL_agents.collecting.waiting import Watchdog
from train_RL_agents.collecting.worlds import training_scenarios, training_world
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.policy_wrapper import PolicyWrapper
from train_RL_agents.utils.compiling import shield_compilers
from train_RL_agents.utils.device import keep_freed_memory, random_stream

_CPU = torch.device("cpu")
_SEED_STRIDE = 2_000_000_011
"""Between the seeds of workers; odd, and not that between ranks."""
_RESUME_STRIDE = 10_007
"""Between seeds that differ by one env-step: a resumed run explores otherwise."""
_LAST_WORDS = 3.0
"""Seconds that TorchRL or Ray has to clean up after the workers."""
_seed_here = 0
"""Seed of the worker that this process is."""


def make_worker_world(
    world: WorldConfig,
    num_envs: int,
    scenarios: Curriculum | list[Episode],
    env_steps: int,
    seed: int,
    allowed: tuple[str, ...],
    **settings: Any,
) -> MarineNavEnv:
    """Return a worker's world; called in the worker's process; it also seeds the global generator there.

    Args:
        world: its settings.
        num_envs: the worker's environments.
        scenarios: its levels, counted in the worker's env-steps, or episodes.
        env_steps: the worker's, made before the run was resumed.
        seed: of the worker.
        allowed: users' parts that it may import, as the trainer may.
        settings: others of MarineNavEnv.
    """
    global _seed_here
    _seed_here = seed
    # Ctrl-C reaches every process of a terminal: only the trainer decides when it is over.
    with contextlib.suppress(ValueError):  # not in the main thread, so not reached by it
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if multiprocessing.parent_process() is not None:
        # What ends a worker is met again, and told, where the run goes on.
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
        if settings.get("compile_step"):
            shield_compilers()
    keep_freed_memory()
    plugins.allow(*allowed)
    env = MarineNavEnv(world, num_envs, scenarios=scenarios, seed=seed, **settings)
    env.env_steps = env_steps
    return env


class WorkerPolicy(PolicyWrapper):
    """An exploring policy on the CPU that is sent to workers; each draws its own random numbers.

    Args:
        policy: the trainer's; what acts is copied. If it is compiled, every worker compiles.
        num_envs: environments of one worker.
    """

    def __init__(self, policy: PolicyWrapper, num_envs: int) -> None:
        acting = copy.deepcopy(policy.agent).to(_CPU).requires_grad_(False)
        acting.targets = nn.ModuleDict()  # only the learner has use for them
        super().__init__(acting, num_envs, uniform=policy.uniform, compile=policy.compile)
        self.train()
        self.copy_from(policy)

    def forward(self, tensordict: TensorDictBase, noise: Any = None) -> TensorDictBase:
        """See PolicyWrapper."""
        if self._generator is None:
            self._generator = random_stream(_seed_here, 1, _CPU)
        result: TensorDictBase = super().forward(tensordict, noise)
        return result

    @torch.no_grad()
    def copy_from(self, policy: PolicyWrapper) -> None:
        """Take over weights, and strengths of exploration between the same limits."""
        ours, theirs = self.agent.networks, policy.agent.networks
        pairs = zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True)
        for mine, latest in pairs:
            mine.copy_(latest)
        every = policy.exploration.shape[0] // self.exploration.shape[0]
        self.exploration.copy_(policy.exploration[::every])


class Workers:
    """Worker processes, started by the constructor.

    Args:
        config: this process's part of the run; says how many workers, and on which engine.
        policy: the exploring policy.
        device: where batches go.
        seed: of the world.
        noise: what the noise of all environments follows from.
        env_steps: made by this process's environments before the run was resumed.
        stopping: whether the run was asked to stop.

    Raises:
        ConfigError: when the engine is missing, or has too few processors.
        Exception: whatever else keeps TorchRL from starting them.
    """

    def __init__(
        self,
        config: TrainConfig[Any],
        policy: PolicyWrapper,
        device: torch.device,
        seed: int,
        noise: RandomSource,
        env_steps: int,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        settings, self._device, self._policy = config.trainer, device, policy
        self._sent = WorkerPolicy(policy, settings.num_envs // settings.collectors)
        worlds = _worlds(config, policy.agent.continuous, seed, noise, env_steps)
        frames = settings.num_envs * settings.vector_steps
        self._watch = Watchdog(stopping)
        if settings.collector == "ray":  # it sets handlers of signals, so not in another thread
            self._collector = _start_ray(worlds, self._sent, frames)
        else:
            try:
                start = partial(_start_processes, worlds, self._sent, frames)
                self._collector = self._watch.call(start)
            except BaseException:
                self._watch.kill()
                raise
        self.active = torch.zeros((), device=device)
        """See StepCollector; of the last batch."""

    def batches(self) -> Iterator[TensorDictBase]:
        """Return the batches [E, T] on the device, each collected with the weights of that time.

        Raises:
            WorkersError: when there can be no more.
            StoppedWaitingError: when the run was asked to stop, and the next takes long.
        """
        batches = iter(self._collector)

        def collected() -> TensorDictBase:
            self._collector.update_policy_weights_(self._sent)
            batch: TensorDictBase = next(batches)
            return batch

        while True:
            self._sent.copy_from(self._policy)
            batch = self._watch.call(collected).flatten(0, 1).to(self._device)
            active = batch.get((GROUP, "mask"))
            self.active = active.float().mean() * active.shape[-1]
            yield batch

    def close(self) -> None:
        """End the processes, at once, as they have nothing to save."""
        self._watch.kill()
        with contextlib.suppress(Exception):
            self._watch.call(self._collector.shutdown, _LAST_WORDS)


def _worlds(config: TrainConfig[Any], continuous: bool, seed: int, noise: RandomSource, env_steps: int) -> list[Any]:
    """What makes each worker's world; together they have the noise of one."""
    count, num_envs = config.trainer.collectors, config.trainer.num_envs
    numbers = noise.environment.to(_CPU).split(num_envs // count)
    scenarios = training_scenarios(config)
    if isinstance(scenarios, Curriculum):
        begins = tuple(-(-begin // count) for begin in scenarios.timesteps)
        scenarios = replace(scenarios, timesteps=begins)
    seed += _RESUME_STRIDE * env_steps
    return [
        partial(
            make_worker_world,
            training_world(config),
            num_envs // count,
            scenarios,
            env_steps // count,
            seed + _SEED_STRIDE * (worker + 1),
            plugins.allowed(),
            noise=RandomSource(noise.seed.to(_CPU), numbers[worker].clone(), torch.tensor(env_steps // num_envs)),
            continuous=continuous,
            compile_step=config.execution.compile,
            kernel=config.execution.kernel,
            check_actions=False,  # see Algorithm.health
            episode_statistics=True,
        )
        for worker in range(count)
    ]


def _start_processes(worlds: list[Any], policy: WorkerPolicy, frames: int) -> Any:
    """Return the workers on this host."""
    return MultiSyncCollector(
        worlds,
        policy,
        frames_per_batch=frames,
        total_frames=-1,
        device=_CPU,
        cat_results="stack",
        auto_register_policy_transforms=False,
    )


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Restore the handlers of Ctrl-C and SIGTERM at the end, as Ray replaces them."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _start_ray(worlds: list[Any], policy: WorkerPolicy, frames: int) -> Any:
    """Return the workers wherever Ray has processors: the cluster in RAY_ADDRESS, else this host.

    Raises:
        ConfigError: when there is no Ray, or it has too few processors, for which it would wait.
    """
    ray = need("ray", "ray")
    from torchrl.collectors.distributed import RayCollector

    with _own_signals():
        if not ray.is_initialized():
            ray.init(log_to_driver=False, include_dashboard=False, logging_level="error")
    there = int(ray.cluster_resources().get("CPU", 0))
    if there < len(worlds):
        raise ConfigError(f"Ray has {there} processors for {len(worlds)} workers")
    return RayCollector(
        worlds,
        policy,
        frames_per_batch=frames,
        total_frames=sys.maxsize,  # it takes -1 as an end that is past
        sync=True,
        remote_configs={"num_cpus": 1, "num_gpus": 0},
        collector_kwargs={"auto_register_policy_transforms": False},
    )
