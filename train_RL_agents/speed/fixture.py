"""Benchmarks of the parts of a trainer, with prepared inputs.

All parts belong to a trainer, so that benchmarks measure the code of training.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.collecting.graphs import GraphCollector
from train_RL_agents.config.schema import TrainConfig, with_execution
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.memory.column_layout import STORED_MASK
from train_RL_agents.memory.host import HostReplay, make_replay
from train_RL_agents.memory.replay import Replay
from train_RL_agents.memory.transitions import to_batch
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.speed.timing import Benchmark, ExtraMetrics, Stopwatch
from train_RL_agents.torchrl_trainer import TorchRLTrainer, log

ENV_STEPS, BATCHES, ROLLOUTS, UPDATES = "env-steps/s", "batches/s", "rollouts/s", "updates/s"
CHUNK = 65_536
"""Number of random transitions that fill inserts into replay in one call."""
_PHASE_OF_PART = {"update": "update", "insertion": "insert", "sampling": "sample"}
"""Phase timed by the trainer for each part of the loop in the benchmark report."""


@dataclass(frozen=True)
class _Uniform:
    """Policy that samples uniform random actions."""

    draw_noise: Callable[[torch.Size], Tensor]
    """Function that draws actions for robots [E, R]."""
    active: Tensor
    """Number of active robot-steps so far, a scalar."""

    def __call__(self, step: TensorDictBase, noise: Tensor | None = None) -> TensorDictBase:
        active = step.get((GROUP, "mask"))
        self.active.add_(active.sum())
        noise = self.draw_noise(active.shape) if noise is None else noise
        return step.set((GROUP, "action"), noise)


class Fixture:
    """Benchmarks of the parts of a trainer in one mode of execution.

    Args:
        config: configuration of the trainer, with the sizes to measure.
        mode: one of MODES.
    """

    def __init__(self, config: TrainConfig[Any], mode: str) -> None:
        self.config = with_execution(config, compile=mode != "eager", capture=mode == "captured")
        self.mode = mode
        self._folder = tempfile.TemporaryDirectory(prefix="marinenav_bench_")
        run = RunFolder.create(self.config, config.seed[0], parent=Path(self._folder.name))
        self.trainer = TorchRLTrainer(run, quiet=True)
        self.trainer.callbacks = [log]
        self.collector, self.algorithm = self.trainer.collector, self.trainer.algorithm
        self.device = self.trainer.device

    def close(self) -> None:
        """End workers, and delete the files of the trainer."""
        self.collector.close()
        self.trainer.run.close()
        self.trainer.run.release()
        self._folder.cleanup()

    # Parts --------------------------------------------------------------------------------------

    def world(self) -> Benchmark:
        """Return the benchmark of the world under random actions."""
        env = self.collector.env
        active = torch.zeros((), dtype=torch.int64, device=self.device)
        generator = torch.Generator(self.device).manual_seed(0)
        act = _Uniform(partial(self._random_actions, generator), active)
        step = env.reset()

        def advance() -> None:
            nonlocal step
            step = env.step_and_maybe_reset(act(step))[1]

        def extra_metrics(seconds: float) -> dict[str, float]:
            count = float(active)
            active.zero_()
            return {"active robot-steps/s": count / seconds}

        one_step: Callable[[], object] = advance
        if self.collector.uses_cuda_graphs:
            one_step = GraphCollector(
                env,
                act,
                generators=[generator, env.generator],
                execution=self.config.execution,
            ).collect
        benchmark = self._env_benchmark(one_step, 1)
        benchmark.extra_metrics = extra_metrics
        return benchmark

    def policy(self) -> Benchmark:
        """Return the benchmark of the policy on the first observation of every environment."""
        policy, step = self.collector.policy, self.collector.env.reset()
        self.algorithm.set_progress(0.0, policy)
        return self._env_benchmark(lambda: policy(step), 1)

    def insertion(self) -> Benchmark:
        """Return the benchmark of ``algorithm.observe``, always called with the same collected steps."""
        steps = self.collector.collect()
        return self._env_benchmark(lambda: self.algorithm.observe(steps), steps.shape[1])

    def sampling(self) -> Benchmark:
        """Return the benchmark of sampling batches from a full replay."""
        replay = self._filled(self._off_policy.replay)
        return self._batch_benchmark(BATCHES, lambda: to_batch(replay.sample()))

    def update(self) -> Benchmark:
        """Return the benchmark of updates from one batch, or of all on-policy updates from one rollout."""
        learner = self.algorithm.learner
        if not isinstance(self.config.trainer, OffPolicyConfig):
            return self._rollout_updates()
        batch = to_batch(self._filled(self._off_policy.replay, learner.batch_size).sample())
        return self._batch_benchmark(UPDATES, lambda: learner.update(batch))

    def _rollout_updates(self) -> Benchmark:
        """Return the benchmark of advantages, epochs and minibatches of the same rollout."""
        steps = self.collector.collect()

        def learn() -> None:
            self.algorithm.observe(steps)
            self.algorithm.update(0)

        benchmark = self._batch_benchmark(ROLLOUTS, learn)
        benchmark.extra_metrics, benchmark.least = self._update_rate(), 1
        return benchmark

    def update_from(self, capacity: int) -> Benchmark:
        """Return the benchmark of sampling, update and new priorities, from a full replay of a given capacity."""
        learner, settings = self.algorithm.learner, self._off_policy.settings
        on_host = settings.replay_storage == "host"
        replay = self._filled(
            make_replay(
                self._off_policy.example_transition,
                replace(settings, buffer_size=capacity),
                torch.Generator("cpu" if on_host else self.device).manual_seed(0),
                self.device,
            )
        )

        def learn() -> None:
            drawn = replay.sample()
            _, priority = learner.update(to_batch(drawn))
            replay.update_priority(drawn, priority)

        return self._batch_benchmark(UPDATES, learn, {"replay": capacity})

    def collect(self) -> Benchmark:
        """Return the benchmark of world, policy and insertion, through the collector or as CUDA graphs."""
        return self._env_benchmark(
            lambda: self.algorithm.observe(self.collector.collect()),
            self.config.trainer.vector_steps,
        )

    def loop(self) -> Benchmark:
        """Return the benchmark of the training loop, with the times of its parts."""
        trainer, settings = self.trainer, self.config.trainer
        update_rate, watch = self._update_rate(), Stopwatch(self.device)
        watched = self.mode != "captured"  # when captured, world and policy are one graph
        if watched:
            trainer.clock.phase_context = watch
        if watched and settings.collector == "local":
            watch.on_module(self.collector.policy, "policy")

        def extra_metrics(seconds: float) -> dict[str, float]:
            parts = shares(watch.seconds(), seconds) if watched else {}
            watch.clear()
            return update_rate(seconds) | parts

        benchmark = self._env_benchmark(trainer.iterate, settings.vector_steps)
        benchmark.extra_metrics = extra_metrics
        benchmark.labels["batch"] = self.algorithm.learner.batch_size
        # Long enough for a few updates, even if they are rare.
        first = settings.learning_starts if isinstance(settings, OffPolicyConfig) else 0
        wanted = first + 3 * settings.learning_interval
        benchmark.least = max(3, math.ceil(wanted / benchmark.amount))
        return benchmark

    # Helpers ------------------------------------------------------------------------------------

    @property
    def _off_policy(self) -> OffPolicy:
        """Return the algorithm, for parts that require an off-policy one."""
        assert isinstance(self.algorithm, OffPolicy)
        return self.algorithm

    def _env_benchmark(self, step: Callable[[], object], vector_steps: int) -> Benchmark:
        """Return a benchmark that counts env-steps."""
        envs = self.config.trainer.num_envs
        labels = {"mode": self.mode, "environments": envs}
        return Benchmark(labels, ENV_STEPS, envs * vector_steps, self.device, step)

    def _batch_benchmark(
        self, unit: str, step: Callable[[], object], labels: dict[str, Any] | None = None
    ) -> Benchmark:
        """Return a benchmark that counts batches of transitions."""
        all_labels = {"mode": self.mode, "batch": self.algorithm.learner.batch_size} | (labels or {})
        return Benchmark(all_labels, unit, 1, self.device, step)

    def _update_rate(self) -> ExtraMetrics:
        """Return a function that computes the rate of updates since its last call."""
        learner = self.algorithm.learner
        before = learner.updates

        def extra_metrics(seconds: float) -> dict[str, float]:
            nonlocal before
            count, before = learner.updates - before, learner.updates
            return {UPDATES: count / seconds}

        return extra_metrics

    def _filled(self, replay: Replay | HostReplay, rows: int | None = None) -> Replay | HostReplay:
        """Fill a replay with random rows, by default to its capacity, and return it."""
        num_actions, count = self.collector.env.num_discrete_actions, rows or replay.capacity
        fill(replay, self._off_policy.example_transition, num_actions, count)
        return replay

    def _random_actions(self, generator: torch.Generator, shape: torch.Size) -> Tensor:
        """Sample uniform random actions for robots [E, R]: [E, R, 2] if continuous, else [E, R]."""
        env = self.collector.env
        options: dict[str, Any] = {"generator": generator, "device": self.device}
        if env.continuous:
            return torch.rand((*shape, 2), **options) * 2.0 - 1.0
        return torch.randint(env.num_discrete_actions, shape, **options)


def fill(replay: Replay | HostReplay, example: TensorDictBase, num_actions: int, count: int) -> None:
    """Fill a replay with random rows, whose content does not affect the time.

    Args:
        replay: replay to fill.
        example: example row without a row dimension, for the names, shapes and dtypes of the leaves.
        num_actions: exclusive upper bound of random integers.
        count: number of rows.
    """
    device = replay.num_stored.device
    generator = torch.Generator(device).manual_seed(0)

    def draw(leaf: Tensor, rows: int) -> Tensor:
        drawn = torch.rand((rows, *leaf.shape), generator=generator, device=device)
        if leaf.dtype == torch.bool:
            return drawn < 0.5
        is_integer = not leaf.dtype.is_floating_point
        return (num_actions * drawn if is_integer else 2.0 * drawn - 1.0).to(leaf.dtype)

    for start in range(0, count, CHUNK):
        size = [min(CHUNK, count - start), *example.batch_size]
        rows = example.apply(lambda leaf, size=size: draw(leaf, size[0]), batch_size=size)
        rows.set(STORED_MASK, torch.ones(size[0], dtype=torch.bool, device=device))
        replay.extend(rows)


def shares(spent: dict[str, float], seconds: float) -> dict[str, float]:
    """Return the shares of parts in the time of a run of the loop.

    Args:
        spent: seconds by phase, and of the policy's forward pass.
        seconds: seconds of the run.

    Returns:
        Shares of the parts, where the world's is that of collection without the policy; the ``rest``; and
        ``outside``: all except world, policy and update.
    """
    policy = spent.get("policy", 0.0)
    parts = {"world": spent.get("collect", 0.0) - policy, "policy": policy}
    parts |= {name: spent.get(phase, 0.0) for name, phase in _PHASE_OF_PART.items()}
    result = {f"share {name}": part / seconds for name, part in parts.items()}
    rest = max(0.0, 1.0 - sum(result.values()))
    outside = rest + result["share insertion"] + result["share sampling"]
    return result | {"share rest": rest, "share outside": outside}
