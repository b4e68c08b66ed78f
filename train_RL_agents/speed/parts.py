"""The parts that can be measured: which sizes each has, and which modes change it."""

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
"""The trainer's setting for each of the benchmark's sizes."""
_OF_REPLAY = ("sampling", "growth")


class Sweep(NamedTuple):
    """Subjects measured at several sizes."""

    make: Callable[[Fixture, Options], list[Benchmark]]
    """What is measured of a fixture."""
    size: str = ""
    """What varies, of _SETTINGS; empty: nothing."""
    modes: Sequence[str] = tuple(MODES)
    """Modes that differ."""


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
    "growth": Sweep(lambda fixture, options: [fixture.update_from(each) for each in options.replay]),
}
"""What each part consists of; growth with environments is that of WORLD."""


def measured(part: str, options: Options, modes: Sequence[str]) -> Iterator[Row]:
    """Measure a part.

    Args:
        part: its name.
        options: of the benchmark.
        modes: those that can be used here.

    Yields:
        A row per size and mode; modes of one size are measured in turn.
    """
    sweeps = [WORLD] if part == "growth" and "world" not in options.parts else []
    sweeps += [SWEEPS[part]] if options.has_replay or part not in _OF_REPLAY else []
    for make, size, differ in sweeps:
        names = [mode for mode in modes if mode in differ] or ["eager"]
        for number in getattr(options, size) if size else (None,):
            # Generated code is kept per shape, and there is a limit to its variants.
            torch.compiler.reset()
            config = sized(options.config, **({_SETTINGS[size]: number} if size else {}))
            check(plan(config, options.device), config)
            with ExitStack() as stack:
                fixtures = [stack.enter_context(closing(Fixture(config, name))) for name in names]
                benchmarks = [each for fixture in fixtures for each in make(fixture, options)]
                for row in measure(benchmarks, options.seconds, options.repeats):
                    yield {"part": part} | row
