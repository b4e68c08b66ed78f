"""Measure how fast training and its parts are on this machine, with the whole setting."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from train_RL_agents.commands.choosing import refuse_beside
from train_RL_agents.speed import MODES, PARTS

TAKES_OVERRIDES = True
OWN_THREADS = True
IMPORTS = ("train_RL_agents.torchrl_trainer",)
_OPTIONS = ("parts", "modes", "envs", "batch", "replay", "seconds", "repeats")
"""Those of benchmark.options."""
_LEVEL = {"robots": 5, "vortices": 0, "obstacles": 4}
"""What scenarios hold if nothing is said."""
_SETTINGS = {"agent": "agent_type", "device": "execution.device", "threads": "execution.threads"}
"""Options that stand for settings."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _described("parts", PARTS) + "\n\n" + _described("modes", MODES)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, metavar="PART", help="what is measured, see below; all by default")
    add(
        "--modes", nargs="+", choices=MODES, metavar="MODE", help="how it is run, see below; all that can be by default"
    )
    add(
        "--envs",
        metavar="N",
        type=int,
        nargs="+",
        help="environments of world, policy, insertion, collect and growth; 256 to 16384 by "
        "default (the loop has trainer.num_envs)",
    )
    add(
        "--batch",
        metavar="N",
        type=int,
        nargs="+",
        help="transitions per batch of sampling and update; 256 and 1024 by default (loop and "
        "growth have trainer.batch_size)",
    )
    add(
        "--replay",
        metavar="N",
        type=int,
        nargs="+",
        help="entries of replay for growth; 10000, 100000 and 1000000 by default",
    )
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    add("--robots", metavar="N", type=int, help="in every scenario; 5 by default", **plain)
    # The former name says processors to everybody.
    add("--vortices", "--cores", metavar="N", type=int, help="vortex cores, likewise; 0 by default", **plain)
    add("--obstacles", metavar="N", type=int, help="likewise; 4 by default", **plain)
    add("--schedule", action="store_true", help="scenarios of the configuration's training_schedule instead")
    add("--seconds", metavar="S", type=float, help="length of a run; 2 by default")
    add("--repeats", metavar="N", type=int, help="runs of each size and mode, in turn; 3 by default")
    add("--agent", metavar="NAME", help="short for agent_type=NAME; AC-IQN by default")
    add("-C", "--config", metavar="FILE", type=Path, help="settings, as for train")
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; execution.device=DEV")
    add("--threads", metavar="N", help="CPU threads of torch, 0: one per idle core; execution.threads=N")
    add("--json", metavar="FILE", type=Path, help="write everything here, after every part")
    add("--plot", metavar="FILE", type=Path, help="draw it: a PNG or PDF (extra: plot)")


def _described(title: str, about: dict[str, str]) -> str:
    """Names with their meanings, for the help text."""
    return "\n".join([f"{title}:", *(f"  {name:<10} {text}" for name, text in about.items())])


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    from marinenav_env import Level
    from marinenav_env.support.files import check_outputs
    from train_RL_agents.config.reading import load_config
    from train_RL_agents.speed.options import Options, on_level
    from train_RL_agents.speed.run import benchmark

    check_outputs(*filter(None, (arguments.json, arguments.plot)))
    if arguments.schedule:
        refuse_beside(arguments.parser, vars(arguments), "schedule", tuple(_LEVEL))
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    words = [f"{key}={given[name]}" for name, key in _SETTINGS.items() if name in given]
    config = load_config(arguments.config, [*words, *arguments.overrides])
    if not arguments.schedule:
        level = Level(*(given.get(name, usual) for name, usual in _LEVEL.items()))
        config = on_level(config, level)
    chosen = {name: given[name] for name in _OPTIONS if name in given}
    chosen |= {name: tuple(dict.fromkeys(chosen[name])) for name in ("parts", "modes") if name in chosen}
    benchmark(Options(config, **chosen), arguments.json, arguments.plot)
    return 0
