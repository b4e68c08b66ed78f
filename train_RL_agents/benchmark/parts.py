"""The parts that can be measured: which sizes each has, and which modes change it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import torch

from train_RL_agents.benchmark import MODES
from train_RL_agents.benchmark.options import Options, endless, sized
from train_RL_agents.benchmark.rig import FACTORIES, Rig
from train_RL_agents.benchmark.timing import Row, Subject, measure
from train_RL_agents.config.schema import TrainConfig

Config = TrainConfig[Any]


@dataclass(frozen=True)
class Series:
    """A part, or one half of growth: the same subjects at several sizes."""

    configs: Callable[[Options], Sequence[Config]]
    """The configuration of each size."""
    make: Callable[[Rig, Options], Sequence[Subject]]
    """What is measured of a rig."""
    modes: Callable[[torch.device], Sequence[str]] = lambda device: tuple(MODES)
    """Those that differ on a device."""


def eagerly(device: torch.device) -> Sequence[str]:
    """Of what is never compiled."""
    return ("eager",)


def uncaptured(device: torch.device) -> Sequence[str]:
    """Of what is compiled, but only captured together with other parts."""
    return ("eager", "compiled")


def compiled_on_gpu(device: torch.device) -> Sequence[str]:
    """Of what is compiled on a GPU only."""
    return eagerly(device) if device.type == "cpu" else uncaptured(device)


def by_envs(options: Options) -> list[Config]:
    """A configuration for each number of environments, with a small replay."""
    return [sized(endless(options.config), envs=envs) for envs in options.envs]


def unless_measured(options: Options) -> list[Config]:
    """The same for growth, which takes the rows of the part ``world`` where there are any."""
    return [] if "world" in options.parts else by_envs(options)


def storing(options: Options) -> list[Config]:
    """A configuration for each number of environments, with the replay of training."""
    config = endless(options.config)
    entries = config.trainer.buffer_size
    return [sized(config, envs=envs, replay=entries) for envs in options.envs]


def by_batch(options: Options) -> list[Config]:
    """A configuration for each batch, with the replay of training."""
    config = endless(options.config)
    entries = config.trainer.buffer_size
    return [sized(config, batch=batch, replay=entries) for batch in options.batch]


def as_it_is(options: Options) -> list[Config]:
    """The configuration itself."""
    config = endless(options.config)
    return [sized(config, replay=config.trainer.buffer_size)]


def small(options: Options) -> list[Config]:
    """The configuration with a small replay: growth brings its own."""
    return [sized(endless(options.config))]


def of_batch(options: Options) -> list[Config]:
    """A configuration for each batch, with a small replay: one batch is drawn, once."""
    return [sized(endless(options.config), batch=batch, replay=batch) for batch in options.batch]


SERIES: dict[str, list[Series]] = {
    "world": [Series(by_envs, lambda rig, _: [rig.world()])],
    "policy": [Series(by_envs, lambda rig, _: [rig.policy()], uncaptured)],
    "insertion": [Series(storing, lambda rig, _: [rig.insertion()], compiled_on_gpu)],
    "sampling": [Series(by_batch, lambda rig, _: [rig.sampling()], eagerly)],
    "update": [Series(of_batch, lambda rig, _: [rig.update()])],
    "collect": [Series(storing, lambda rig, _: [rig.collect()])],
    "loop": [Series(as_it_is, lambda rig, _: [rig.loop()])],
    "growth": [
        Series(unless_measured, lambda rig, _: [rig.world()]),
        Series(small, lambda rig, options: [rig.update_from(each) for each in options.replay]),
    ],
}  # fmt: skip
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
        differ = series.modes(options.device)
        names = [mode for mode in modes if mode in differ] or ["eager"]
        for config in series.configs(options):
            # Generated code is kept per shape, and there is a limit to its variants.
            torch.compiler.reset()
            with ExitStack() as stack:
                rigs = [stack.enter_context(closing(FACTORIES[name](config))) for name in names]
                subjects = [each for rig in rigs for each in series.make(rig, options)]
                for row in measure(subjects, options.seconds, options.repeats):
                    yield {"part": part} | row
