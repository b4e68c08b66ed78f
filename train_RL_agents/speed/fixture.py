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
from train_RL_agents.config.schema import TrainConfig, replace_execution
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.memory.column_layout import ColumnLayout, PackedTransitions
from train_RL_agents.memory.host import HostReplay, make_replay
from train_RL_agents.memory.replay import Replay
from train_RL_agents.memory.transitions import to_batch
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.speed.timing import Benchmark, ExtraMetrics, Stopwatch
from train_RL_agents.torchrl_trainer import TorchRLTrainer, check_and_log

ENV_STEP_RATE = "env-steps/s"
"""Unit of the benchmarks that step environments."""
BATCH_RATE = "batches/s"
"""Unit of the benchmark of sampling."""
ROLLOUT_RATE = "rollouts/s"
"""Unit of the benchmark of on-policy updates."""
UPDATE_RATE = "updates/s"
"""Unit of the benchmarks of off-policy updates."""
FILL_CHUNK_SIZE = 65_536
"""Largest number of random rows that fill_with_random_rows inserts into replay in one call."""
_PHASE_OF_PART = {"update": "update", "insertion": "insert", "sampling": "sample"}
"""Phase of PhaseTimer whose time is the share of a part of the training loop in reports, by name of the part."""


@dataclass(frozen=True)
class _RandomPolicy:
    """Policy that sets uniform random actions, and counts the steps of active robots."""

    draw_noise: Callable[[torch.Size], Tensor]
    """Function that draws actions for robots [E, R]: [E, R, 2] if continuous, else [E, R]."""
    num_active_steps: Tensor
    """Number of steps of active robots so far, a scalar."""

    def __call__(self, step: TensorDictBase, noise: Tensor | None = None) -> TensorDictBase:
        active = step.get((GROUP, "mask"))
        self.num_active_steps.add_(active.sum())
        noise = self.draw_noise(active.shape) if noise is None else noise
        return step.set((GROUP, "action"), noise)


class TrainerBenchmarks:
    """Benchmarks of the parts of one trainer in one mode of execution; each method returns the benchmark of a part.

    Args:
        config: configuration of the trainer, with the sizes to measure.
        mode: ``eager``, ``compiled`` or ``captured``.
    """

    def __init__(self, config: TrainConfig[Any], mode: str) -> None:
        self.config = replace_execution(config, compile=mode != "eager", capture=mode == "captured")
        self.mode = mode
        self._folder = tempfile.TemporaryDirectory(prefix="marinenav_bench_")
        run = RunFolder.create(self.config, config.seed[0], parent=Path(self._folder.name))
        self.trainer = TorchRLTrainer(run, quiet=True)
        self.trainer.callbacks = [check_and_log]
        self.collector, self.algorithm = self.trainer.collector, self.trainer.algorithm
        self.device = self.trainer.device

    def close(self) -> None:
        """End the worker processes of the trainer, and delete its files."""
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
        act = _RandomPolicy(partial(self._random_actions, generator), active)
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
        """Return the benchmark of the policy, always on the first observation of every environment."""
        policy, step = self.collector.policy, self.collector.env.reset()
        self.algorithm.set_progress(0.0, policy)
        return self._env_benchmark(lambda: policy(step), 1)

    def insertion(self) -> Benchmark:
        """Return the benchmark of storing collected steps (``algorithm.observe``), always of the same steps."""
        steps = self.collector.collect()
        return self._env_benchmark(lambda: self.algorithm.add_steps(steps), steps.shape[1])

    def sampling(self) -> Benchmark:
        """Return the benchmark of sampling batches from a full replay."""
        replay = self._fill(self._off_policy.replay)
        return self._batch_benchmark(BATCH_RATE, lambda: to_batch(replay.sample()))

    def update(self) -> Benchmark:
        """Return the benchmark of off-policy updates from one batch, or of all on-policy updates from one rollout."""
        learner = self.algorithm.learner
        if not isinstance(self.config.trainer, OffPolicyConfig):
            return self._rollout_updates()
        batch = to_batch(self._fill(self._off_policy.replay, learner.batch_size).sample())
        return self._batch_benchmark(UPDATE_RATE, lambda: learner.update(batch))

    def _rollout_updates(self) -> Benchmark:
        """Return the benchmark of on-policy learning from one rollout: advantages and all epochs of updates."""
        steps = self.collector.collect()

        def learn() -> None:
            self.algorithm.add_steps(steps)
            self.algorithm.update(0)

        benchmark = self._batch_benchmark(ROLLOUT_RATE, learn)
        benchmark.extra_metrics, benchmark.min_steps = self._update_rate(), 1
        return benchmark

    def replay_update(self, capacity: int) -> Benchmark:
        """Return the benchmark of sampling, update and new priorities with a full replay of a given capacity (rows)."""
        learner, settings = self.algorithm.learner, self._off_policy.settings
        on_host = settings.replay_storage == "host"
        replay = self._fill(
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

        return self._batch_benchmark(UPDATE_RATE, learn, {"replay": capacity})

    def collect(self) -> Benchmark:
        """Return the benchmark of collection: world, policy and insertion, through the collector or as CUDA graphs."""
        return self._env_benchmark(
            lambda: self.algorithm.add_steps(self.collector.collect()),
            self.config.trainer.vector_steps,
        )

    def loop(self) -> Benchmark:
        """Return the benchmark of the training loop, with the shares of its parts unless it is captured."""
        trainer, settings = self.trainer, self.config.trainer
        update_rate, watch = self._update_rate(), Stopwatch(self.device)
        watched = self.mode != "captured"  # when captured, world and policy are one graph
        if watched:
            trainer.clock.phase_context = watch
        if watched and settings.collector == "local":
            watch.on_module(self.collector.policy, "policy")

        def extra_metrics(seconds: float) -> dict[str, float]:
            parts = time_shares(watch.seconds(), seconds) if watched else {}
            watch.clear()
            return update_rate(seconds) | parts

        benchmark = self._env_benchmark(trainer.iterate, settings.vector_steps)
        benchmark.extra_metrics = extra_metrics
        benchmark.labels["batch"] = self.algorithm.learner.batch_size
        # Long enough for a few updates, even if they are rare.
        first = settings.learning_starts if isinstance(settings, OffPolicyConfig) else 0
        wanted = first + 3 * settings.learning_interval
        benchmark.min_steps = max(3, math.ceil(wanted / benchmark.amount_per_step))
        return benchmark

    # Helpers ------------------------------------------------------------------------------------

    @property
    def _off_policy(self) -> OffPolicy:
        """Return the algorithm, for parts that require an off-policy one."""
        assert isinstance(self.algorithm, OffPolicy)
        return self.algorithm

    def _env_benchmark(self, step: Callable[[], object], vector_steps: int) -> Benchmark:
        """Return the benchmark of a function whose call makes ``vector_steps`` steps of all environments."""
        envs = self.config.trainer.num_envs
        labels = {"mode": self.mode, "environments": envs}
        return Benchmark(labels, ENV_STEP_RATE, envs * vector_steps, self.device, step)

    def _batch_benchmark(
        self, unit: str, step: Callable[[], object], labels: dict[str, Any] | None = None
    ) -> Benchmark:
        """Return the benchmark of a function whose call handles one batch; ``labels`` are added to its row."""
        all_labels = {"mode": self.mode, "batch": self.algorithm.learner.batch_size} | (labels or {})
        return Benchmark(all_labels, unit, 1, self.device, step)

    def _update_rate(self) -> ExtraMetrics:
        """Return a function that returns the rate of updates since its last call, ``{"updates/s": RATE}``."""
        learner = self.algorithm.learner
        before = learner.updates

        def extra_metrics(seconds: float) -> dict[str, float]:
            nonlocal before
            count, before = learner.updates - before, learner.updates
            return {UPDATE_RATE: count / seconds}

        return extra_metrics

    def _fill(self, replay: Replay | HostReplay, rows: int | None = None) -> Replay | HostReplay:
        """Fill a replay with a number of random rows, by default to its capacity, and return it."""
        num_actions, count = self.collector.env.num_discrete_actions, rows or replay.capacity
        fill_with_random_rows(replay, self._off_policy.example_transition, num_actions, count)
        return replay

    def _random_actions(self, generator: torch.Generator, shape: torch.Size) -> Tensor:
        """Return random actions of robots [E, R]: rates of both thrusters [E, R, 2] in [-1, 1), or numbers [E, R]."""
        env = self.collector.env
        options: dict[str, Any] = {"generator": generator, "device": self.device}
        if env.continuous:
            return torch.rand((*shape, 2), **options) * 2.0 - 1.0
        return torch.randint(env.num_discrete_actions, shape, **options)


def fill_with_random_rows(replay: Replay | HostReplay, example: TensorDictBase, num_actions: int, count: int) -> None:
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

    for start in range(0, count, FILL_CHUNK_SIZE):
        size = [min(FILL_CHUNK_SIZE, count - start), *example.batch_size]
        rows = example.apply(lambda leaf, size=size: draw(leaf, size[0]), batch_size=size)
        replay.insert(PackedTransitions(ColumnLayout(example).pack(rows), None))


def time_shares(phase_seconds: dict[str, float], seconds: float) -> dict[str, float]:
    """Return the shares of its parts in the time that the training loop took, each from 0 to 1.

    Args:
        phase_seconds: seconds of the phases ``collect`` (with those of the policy), ``policy`` (its forward passes),
            ``update``, ``insert`` (storing steps) and ``sample`` (from replay); missing ones count as 0.
        seconds: seconds of the whole loop.

    Returns:
        ``share world`` (``collect`` without the policy), ``share policy``, ``share update``, ``share insertion``
        (``insert``), ``share sampling`` (``sample``), ``share rest`` (the time of no part) and ``share outside`` (the
        last three together).
    """
    policy = phase_seconds.get("policy", 0.0)
    parts = {"world": phase_seconds.get("collect", 0.0) - policy, "policy": policy}
    parts |= {name: phase_seconds.get(phase, 0.0) for name, phase in _PHASE_OF_PART.items()}
    result = {f"share {name}": part / seconds for name, part in parts.items()}
    rest = max(0.0, 1.0 - sum(result.values()))
    outside = rest + result["share insertion"] + result["share sampling"]
    return result | {"share rest": rest, "share outside": outside}
