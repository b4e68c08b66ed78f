"""The parts that can be measured: which sizes each has, and which modes change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import torch

from train_RL_agents.benchmark import MODES
from train_RL_agents.benchmark.options import Options, endless, sized
from train_RL_agents.benchmark.rig import Rig
from train_RL_agents.benchmark.timing import Row, Subject, measure
from train_RL_agents.config.schema import TrainConfig

Config = TrainConfig[Any]
EAGER, UNCAPTURED, ALL = ("eager",), ("eager", "compiled"), tuple(MODES)


@dataclass(frozen=True)
class Series:
    """A part, or one half of growth: the same subjects at several sizes."""

    configs: Callable[[Options], Sequence[Config]]
    """The configuration of each size."""
    make: Callable[[Rig, Options], Sequence[Subject]]
    """What is measured of a rig."""
    on_gpu: tuple[str, ...] = ALL
    """Modes that differ on a GPU."""
    on_cpu: tuple[str, ...] = ALL
    """Modes that differ on a CPU."""


def by_envs(options: Options) -> list[Config]:
    """A configuration for each number of environments, with a small replay."""
    return [sized(endless(options.config), envs=envs) for envs in options.envs]


def unless_measured(options: Options) -> list[Config]:
    """The same for growth, which takes the rows of the part ``world`` where there are any."""
    return [] if "world" in options.parts else by_envs(options)


def storing(options: Options) -> list[Config]:
    """A configuration for each number of environments, with the replay of training."""
    return [sized(endless(options.config), envs, replay=options.replayed) for envs in options.envs]


def by_batch(options: Options) -> list[Config]:
    """A configuration for each batch, with the replay of training; none without replay."""
    sizes = options.batch if options.replayed else ()
    return [sized(endless(options.config), batch=each, replay=options.replayed) for each in sizes]


def as_it_is(options: Options) -> list[Config]:
    """The configuration itself."""
    return [sized(endless(options.config), replay=options.replayed)]


def small(options: Options) -> list[Config]:
    """The configuration with a small replay, as growth brings its own; none without replay."""
    return [sized(endless(options.config))] if options.replayed else []


def of_batch(options: Options) -> list[Config]:
    """A configuration for each batch, with a small replay: one batch is drawn, once."""
    return [sized(endless(options.config), batch=batch, replay=batch) for batch in options.batch]


SERIES: dict[str, list[Series]] = {
    "world": [Series(by_envs, lambda rig, _: [rig.world()])],
    # Policy and insertion are only captured together with other parts.
    "policy": [Series(by_envs, lambda rig, _: [rig.policy()], UNCAPTURED, UNCAPTURED)],
    "insertion": [Series(storing, lambda rig, _: [rig.insertion()], UNCAPTURED, EAGER)],
    "sampling": [Series(by_batch, lambda rig, _: [rig.sampling()], EAGER, EAGER)],
    "update": [Series(of_batch, lambda rig, _: [rig.update()])],
    "collect": [Series(storing, lambda rig, _: [rig.collect()])],
    "loop": [Series(as_it_is, lambda rig, _: [rig.loop()])],
    "growth": [
        Series(unless_measured, lambda rig, _: [rig.world()]),
        Series(small, lambda rig, options: [rig.update_from(each) for each in options.replay]),
    ],
}
"""What each part consists of."""


def measured(part: str, options: Options, modes: Sequence[str]) -> Iterator[Row]:
    """Measure a part.

    Args:
        part: its name.
        options: of the benchmark.
        modes: those that can be used here.

    Yields:
        A row per size and mode; modes of one size are measured in turn.
    """
    for series in SERIES[part]:
        differ = series.on_cpu if options.device.type == "cpu" else series.on_gpu
        names = [mode for mode in modes if mode in differ] or ["eager"]
        for config in series.configs(options):
            # Generated code is kept per shape, and there is a limit to its variants.
            torch.compiler.reset()
            with ExitStack() as stack:
                rigs = [stack.enter_context(closing(Rig(config, name))) for name in names]
                subjects = [each for rig in rigs for each in series.make(rig, options)]
                for row in measure(subjects, options.seconds, options.repeats):
                    yield {"part": part} | row
