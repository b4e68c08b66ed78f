"""The parts of a trainer as benchmarks, so that what is measured is the code of training."""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase
from torch import Tensor

from marinenav_env import GROUP
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.experiments.memory_plan import check_memory_plan, plan_memory
from train_RL_agents.learning.graph_collector import GraphCollector
from train_RL_agents.learning.host_replay import HostReplay
from train_RL_agents.learning.off_policy import OffPolicy
from train_RL_agents.learning.replay import Replay
from train_RL_agents.learning.transitions import to_batch
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer, check_and_log

FILL_CHUNK_SIZE = 65_536
"""Largest number of random rows that fill_with_random_rows inserts into replay in one call."""

Row = dict[str, Any]
"""Result of a benchmark, as ``Benchmark.measure`` returns it."""


@dataclass
class Benchmark:
    """Operation whose rate is measured."""

    labels: Row
    """Sizes of the operation: ``environments``, ``batch``."""
    unit: str
    """Unit of the rate, such as env-steps/s."""
    amount_per_step: float
    """Amount of one step in the unit of the rate without time, such as its number of env-steps."""
    device: torch.device
    """Device of the operation."""
    step: Callable[[], object]
    """Function that makes one step, whose time is measured."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Seconds that phases of steps have taken so far, by name; empty on a GPU, which runs behind the host."""
    min_steps: int = 3
    """Smallest number of steps of a run; the first step compiles, and layouts may change after it."""

    def run(self, steps: int) -> float:
        """Make a number of steps, and return the seconds that they take, including the work of the device."""
        synchronize: Callable[[], None] = torch.cuda.synchronize if self.device.type == "cuda" else lambda: None
        synchronize()
        began = time.perf_counter()
        for _ in range(steps):
            self.step()
        synchronize()
        return time.perf_counter() - began

    def run_for(self, seconds: float) -> tuple[int, float]:
        """Run ever more steps until a time (s) is over; return the number of steps and the seconds that they took."""
        total, took, steps = 0, 0.0, self.min_steps
        while took < seconds:
            took += self.run(steps)
            total, steps = total + steps, 2 * steps
        return total, took

    def measure(self, seconds: float, repeats: int) -> Row:
        """Measure the rate in several runs of so many seconds or more each."""
        compiling = max(0.0, self.run(self.min_steps) - self.run(self.min_steps))
        self.run_for(seconds)  # On a GPU the graph of a refresh is recorded only after hundreds of steps.
        rates, shares = [], []
        for _ in range(repeats):
            before = dict(self.phases)
            steps, took = self.run_for(seconds)
            rates.append(self.amount_per_step * steps / took)
            spent = {name: (total - before.get(name, 0.0)) / took for name, total in self.phases.items()}
            shares.append(spent | ({"rest": 1.0 - sum(spent.values())} if spent else {}))
        median = statistics.median(rates)
        return {
            **self.labels,
            "unit": self.unit,
            "median": median,
            "lowest": min(rates),
            "highest": max(rates),
            "runs": rates,
            "ms_per_step": 1e3 * self.amount_per_step / median,
            "compile_seconds": compiling,
            # Of a single run, so that they add up.
            "shares": shares[rates.index(statistics.median_low(rates))],
        }


def benchmark_config(config: TrainConfig[Any], **sizes: Any) -> TrainConfig[Any]:
    """Return the configuration of a training that does not end, and learns as early as possible."""
    settings = replace(config.trainer, **sizes)
    if isinstance(settings, OffPolicyConfig):
        least: dict[str, Any] = settings.minimum_sizes(config.training_schedule.max_robots)
        least["buffer_size"] = max(least["buffer_size"], settings.buffer_size, settings.batch_size)
        settings = replace(settings, **least)
    levels = (replace(level, num_episodes=int(number == 0)) for number, level in enumerate(config.eval_schedule.levels))
    return replace(
        config,
        trainer=settings,
        total_timesteps=10**15,
        eval_freq=10**15,
        eval_schedule=replace(config.eval_schedule, levels=tuple(levels)),
        save_replay=False,
    )


class TrainerBenchmarks:
    """Benchmarks of the parts of one trainer; each method returns the benchmark of a part."""

    def __init__(self, config: TrainConfig[Any]) -> None:
        self.config = config
        self._folder = tempfile.TemporaryDirectory(prefix="marinenav_bench_")
        run = RunFolder.create(config, config.seed[0], parent=Path(self._folder.name))
        self.trainer = TorchRLTrainer(run, quiet=True)
        self.trainer.callbacks = [check_and_log]
        self.collector, self.algorithm = self.trainer.collector, self.trainer.algorithm
        self.device = self.trainer.device
        self._phases = self.trainer.clock.seconds if self.device.type == "cpu" else {}

    def close(self) -> None:
        """End the worker processes of the trainer, and delete its files."""
        self.collector.close()
        self.trainer.run.writer.close()
        self.trainer.run.writer.release()
        self._folder.cleanup()

    def world(self) -> Benchmark:
        """Return the benchmark of the world under random actions."""
        env, step = self.collector.env, self.collector.env.reset()
        act = _RandomPolicy(env, self.device)

        def advance() -> None:
            nonlocal step
            step = env.step_and_maybe_reset(act(step))[1]

        one_step: Callable[[], object] = advance
        if self.collector.uses_cuda_graphs:
            generators = [act.generator, env.generator]
            one_step = GraphCollector(env, act, generators=generators, execution=self.config.execution).collect
        return self._env_benchmark(one_step, 1)

    def policy(self) -> Benchmark:
        """Return the benchmark of the policy, always on the first observation of every environment."""
        policy, step = self.collector.policy, self.collector.env.reset()
        self.algorithm.set_progress(0.0, policy)
        return self._env_benchmark(lambda: policy(step), 1)

    def replay(self) -> Benchmark:
        """Return the benchmark of drawing batches from a full replay."""
        replay = self._filled_replay()
        return self._batch_benchmark("batches/s", lambda: to_batch(replay.sample()))

    def update(self) -> Benchmark:
        """Return the benchmark of off-policy updates from one batch, or of all on-policy updates from one rollout."""
        learner = self.algorithm.learner
        if isinstance(self.config.trainer, OffPolicyConfig):
            batch = to_batch(self._filled_replay(learner.batch_size).sample())
            return self._batch_benchmark("updates/s", lambda: learner.update(batch))
        steps = self.collector.collect()

        def learn() -> None:
            self.algorithm.add_steps(steps)
            self.algorithm.update(0)

        benchmark = self._batch_benchmark("rollouts/s", learn)
        return replace(benchmark, phases=self._phases, min_steps=1)

    def loop(self) -> Benchmark:
        """Return the benchmark of the training loop, on a CPU with the share of each phase."""
        trainer, settings = self.trainer, self.config.trainer
        benchmark = self._env_benchmark(trainer.iterate, settings.vector_steps)
        # Long enough for a few updates, even if they are rare.
        first = settings.learning_starts if isinstance(settings, OffPolicyConfig) else 0
        wanted = first + 3 * settings.learning_interval
        return replace(
            benchmark,
            labels=benchmark.labels | {"batch": self.algorithm.learner.batch_size},
            phases=self._phases,
            min_steps=max(3, math.ceil(wanted / benchmark.amount_per_step)),
        )

    def _env_benchmark(self, step: Callable[[], object], vector_steps: int) -> Benchmark:
        """Return the benchmark of a function whose call makes ``vector_steps`` steps of all environments."""
        envs = self.config.trainer.num_envs
        return Benchmark({"environments": envs}, "env-steps/s", envs * vector_steps, self.device, step)

    def _batch_benchmark(self, unit: str, step: Callable[[], object]) -> Benchmark:
        """Return the benchmark of a function whose call handles one batch."""
        return Benchmark({"batch": self.algorithm.learner.batch_size}, unit, 1, self.device, step)

    def _filled_replay(self, rows: int | None = None) -> Replay | HostReplay:
        """Return the replay with a number of random rows, by default full; the content does not affect the time."""
        assert isinstance(self.algorithm, OffPolicy)
        replay, example = self.algorithm.replay, self.algorithm.example_transition
        fill_with_random_rows(replay, example, self.collector.env.num_discrete_actions, rows or replay.capacity)
        return replay


def measure_size(part: str, config: TrainConfig[Any], sizes: dict[str, int], seconds: float, repeats: int) -> Row:
    """Measure a part of a training with settings of sizes, and return ``part`` and the row of ``Benchmark.measure``."""
    torch.compiler.reset()  # compiled code is cached per shape, with a limited number of variants
    config = benchmark_config(config, **sizes)
    check_memory_plan(plan_memory(config), config)
    trainer = TrainerBenchmarks(config)
    try:
        return {"part": part} | getattr(trainer, part)().measure(seconds, repeats)
    finally:
        trainer.close()


class _RandomPolicy:
    """Policy that sets uniform random actions."""

    def __init__(self, env: Any, device: torch.device) -> None:
        self._env, self.generator = env, torch.Generator(device).manual_seed(0)

    def draw_noise(self, shape: torch.Size) -> Tensor:
        """Return random actions of robots [E, R]: rates of both thrusters [E, R, 2] in [-1, 1), or numbers [E, R]."""
        options: dict[str, Any] = {"generator": self.generator, "device": self.generator.device}
        if self._env.continuous:
            return torch.rand((*shape, 2), **options) * 2.0 - 1.0
        return torch.randint(self._env.num_discrete_actions, shape, **options)

    def __call__(self, step: TensorDictBase, noise: Tensor | None = None) -> TensorDictBase:
        """Write the noise, or random actions, as the actions."""
        actions = self.draw_noise(step.get((GROUP, "mask")).shape) if noise is None else noise
        return step.set((GROUP, "action"), actions)


def fill_with_random_rows(replay: Replay | HostReplay, example: TensorDictBase, num_actions: int, count: int) -> None:
    """Fill a replay with rows like an example without a row dimension; integers are drawn below ``num_actions``."""
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
        replay.insert(rows)
