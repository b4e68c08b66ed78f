"""Parts that can be measured, with their sizes and the modes that affect them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

import torch

from train_RL_agents.sizing.plan import check, plan
from train_RL_agents.speed import MODES
from train_RL_agents.speed.fixture import Fixture
from train_RL_agents.speed.options import Options, sized
from train_RL_agents.speed.timing import Benchmark, Row, measure

_SETTINGS = {"envs": "num_envs", "batch": "batch_size"}
"""Setting of the trainer for each size of the benchmark."""
_REPLAY_PARTS = ("sampling", "growth")


class Sweep(NamedTuple):
    """Benchmarks of a part at several sizes."""

    make: Callable[[Fixture, Options], list[Benchmark]]
    """Function that returns the benchmarks of a fixture."""
    size: str = ""
    """Name of the size that varies, from _SETTINGS; empty if none does."""
    modes: Sequence[str] = tuple(MODES)
    """Modes that affect the part."""


WORLD = Sweep(lambda fixture, _: [fixture.world()], "envs")
SWEEPS = {
    "world": WORLD,
    # Policy and insertion are only captured together with other parts.
    "policy": Sweep(lambda fixture, _: [fixture.policy()], "envs", ("eager", "compiled")),
    "insertion": Sweep(lambda fixture, _: [fixture.insertion()], "envs", ("eager", "compiled")),
    "sampling": Sweep(lambda fixture, _: [fixture.sampling()], "batch", ("eager",)),
    "update": Sweep(lambda fixture, _: [fixture.update()], "batch"),
    "collect": Sweep(lambda fixture, _: [fixture.collect()], "envs"),
    "loop": Sweep(lambda fixture, _: [fixture.loop()]),
    "growth": Sweep(lambda fixture, options: [fixture.update_from(capacity) for capacity in options.replay]),
}
"""Sweep of each part; growth with environments uses WORLD."""


def measure_part(part: str, options: Options, modes: Sequence[str]) -> Iterator[Row]:
    """Yield the measurements of a part.

    Args:
        part: name of the part.
        options: options of the benchmark.
        modes: modes that are available here.

    Yields:
        A row per size and mode; modes of one size are measured alternately.
    """
    sweeps = [WORLD] if part == "growth" and "world" not in options.parts else []
    sweeps += [SWEEPS[part]] if options.has_replay or part not in _REPLAY_PARTS else []
    for make, size, differ in sweeps:
        names = [mode for mode in modes if mode in differ] or ["eager"]
        for number in getattr(options, size) if size else (None,):
            # Compiled code is cached per shape, with a limited number of variants.
            torch.compiler.reset()
            config = sized(options.config, **({_SETTINGS[size]: number} if size else {}))
            check(plan(config, options.device), config)
            with ExitStack() as stack:
                fixtures = [stack.enter_context(closing(Fixture(config, name))) for name in names]
                benchmarks = [benchmark for fixture in fixtures for benchmark in make(fixture, options)]
                for row in measure(benchmarks, options.seconds, options.repeats):
                    yield {"part": part} | row
