"""Parts that can be measured, with their sizes and the modes that affect them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

import torch

from train_RL_agents.sizing.plan import check_memory_plan, plan_memory
from train_RL_agents.speed import MODES
from train_RL_agents.speed.fixture import TrainerBenchmarks
from train_RL_agents.speed.options import BenchmarkOptions, benchmark_config
from train_RL_agents.speed.timing import Benchmark, Row, measure_rates

_SETTING_OF_SIZE = {"envs": "num_envs", "batch": "batch_size"}
"""Setting of the trainer that each size of the benchmark stands for."""
_REPLAY_PARTS = ("sampling", "growth")
"""Parts that only agents with replay have."""


class Sweep(NamedTuple):
    """Benchmarks of a part of training, and the size that varies between them."""

    make_benchmarks: Callable[[TrainerBenchmarks, BenchmarkOptions], list[Benchmark]]
    """Function that returns the benchmarks of a trainer."""
    size: str = ""
    """Size that varies, ``envs`` or ``batch``; empty if none does."""
    modes: Sequence[str] = tuple(MODES)
    """Modes of execution that affect the part."""


WORLD_SWEEP = Sweep(lambda trainer, _: [trainer.world()], "envs")
"""Sweep of the world over numbers of environments."""
SWEEPS = {
    "world": WORLD_SWEEP,
    # Policy and insertion are only captured together with other parts.
    "policy": Sweep(lambda trainer, _: [trainer.policy()], "envs", ("eager", "compiled")),
    "insertion": Sweep(lambda trainer, _: [trainer.insertion()], "envs", ("eager", "compiled")),
    "sampling": Sweep(lambda trainer, _: [trainer.sampling()], "batch", ("eager",)),
    "update": Sweep(lambda trainer, _: [trainer.update()], "batch"),
    "collect": Sweep(lambda trainer, _: [trainer.collect()], "envs"),
    "loop": Sweep(lambda trainer, _: [trainer.loop()]),
    "growth": Sweep(lambda trainer, options: [trainer.replay_update(capacity) for capacity in options.replay]),
}
"""Sweep of each part by name; growth with environments uses WORLD_SWEEP."""


def measure_part(part: str, options: BenchmarkOptions, modes: Sequence[str]) -> Iterator[Row]:
    """Measure a part of training at all sizes, and yield the results.

    Args:
        part: name of the part, from PARTS.
        options: options of the benchmark.
        modes: modes that are available here.

    Yields:
        A row per size and mode: ``part``, and the keys of ``timing.measure_rates``. The modes of one size are measured
        alternately.
    """
    sweeps = [WORLD_SWEEP] if part == "growth" and "world" not in options.parts else []
    sweeps += [SWEEPS[part]] if options.has_replay or part not in _REPLAY_PARTS else []
    for make_benchmarks, size, sweep_modes in sweeps:
        names = [mode for mode in modes if mode in sweep_modes] or ["eager"]
        for number in getattr(options, size) if size else (None,):
            # Compiled code is cached per shape, with a limited number of variants.
            torch.compiler.reset()
            config = benchmark_config(options.config, **({_SETTING_OF_SIZE[size]: number} if size else {}))
            check_memory_plan(plan_memory(config, options.device), config)
            with ExitStack() as stack:
                trainers = [stack.enter_context(closing(TrainerBenchmarks(config, name))) for name in names]
                benchmarks = [benchmark for trainer in trainers for benchmark in make_benchmarks(trainer, options)]
                for row in measure_rates(benchmarks, options.seconds, options.repeats):
                    yield {"part": part} | row
