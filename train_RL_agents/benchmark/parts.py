"""The parts that can be measured: which sizes each has, and which modes change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple

import torch

from train_RL_agents.benchmark import MODES
from train_RL_agents.benchmark.options import Options, sized
from train_RL_agents.benchmark.rig import Rig
from train_RL_agents.benchmark.timing import Row, Subject, measure
from train_RL_agents.planning.plan import check, plan

_SETTINGS = {"envs": "num_envs", "batch": "batch_size"}
"""The trainer's setting for each of the benchmark's sizes."""
_OF_REPLAY = ("sampling", "growth")


class Series(NamedTuple):
    """Subjects measured at several sizes."""

    make: Callable[[Rig, Options], list[Subject]]
    """What is measured of a rig."""
    size: str = ""
    """What varies, of _SETTINGS; empty: nothing."""
    modes: Sequence[str] = tuple(MODES)
    """Modes that differ."""


WORLD = Series(lambda rig, _: [rig.world()], "envs")
SERIES = {
    "world": WORLD,
    # Policy and insertion are only captured together with other parts.
    "policy": Series(lambda rig, _: [rig.policy()], "envs", ("eager", "compiled")),
    "insertion": Series(lambda rig, _: [rig.insertion()], "envs", ("eager", "compiled")),
    "sampling": Series(lambda rig, _: [rig.sampling()], "batch", ("eager",)),
    "update": Series(lambda rig, _: [rig.update()], "batch"),
    "collect": Series(lambda rig, _: [rig.collect()], "envs"),
    "loop": Series(lambda rig, _: [rig.loop()]),
    "growth": Series(lambda rig, options: [rig.update_from(each) for each in options.replay]),
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
    series = [WORLD] if part == "growth" and "world" not in options.parts else []
    series += [SERIES[part]] if options.has_replay or part not in _OF_REPLAY else []
    for make, size, differ in series:
        names = [mode for mode in modes if mode in differ] or ["eager"]
        for number in getattr(options, size) if size else (None,):
            # Generated code is kept per shape, and there is a limit to its variants.
            torch.compiler.reset()
            config = sized(options.config, **({_SETTINGS[size]: number} if size else {}))
            check(plan(config, options.device), config)
            with ExitStack() as stack:
                rigs = [stack.enter_context(closing(Rig(config, name))) for name in names]
                subjects = [each for rig in rigs for each in make(rig, options)]
                for row in measure(subjects, options.seconds, options.repeats):
                    yield {"part": part} | row
