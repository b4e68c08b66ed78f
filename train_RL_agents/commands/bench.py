"""Measure the speed of training and its parts on this machine, and print it with machine, software and settings."""

from __future__ import annotations

import argparse
from pathlib import Path

from train_RL_agents.commands.choosing import reject_excluded
from train_RL_agents.speed import MODES, PARTS

TAKES_OVERRIDES = True
OWN_THREADS = True
IMPORTS = ("train_RL_agents.torchrl_trainer",)
_BENCHMARK_OPTIONS = ("parts", "modes", "envs", "batch", "replay", "seconds", "repeats")
"""Options of the command that are also fields of BenchmarkOptions."""
_DEFAULT_LEVEL = {"robots": 5, "vortices": 0, "obstacles": 4}
"""Default numbers of robots, vortices and obstacles in every scenario."""
_SETTING_KEYS = {"agent": "agent_type", "device": "execution.device", "threads": "execution.threads"}
"""Key of the setting that an option sets, by the name of the option."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav bench`` to its parser."""
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    parser.argument_default = argparse.SUPPRESS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _describe_choices("parts", PARTS) + "\n\n" + _describe_choices("modes", MODES)
    add = parser.add_argument
    add("--parts", nargs="+", choices=PARTS, metavar="PART", help="parts to measure, see below; all by default")
    add(
        "--modes",
        nargs="+",
        choices=MODES,
        metavar="MODE",
        help="modes of the runs, see below; all possible by default",
    )
    add(
        "--envs",
        metavar="N",
        type=int,
        nargs="+",
        help="environments of world, policy, insertion, collect and growth; 256 to 16384 by "
        "default (the loop uses trainer.num_envs)",
    )
    add(
        "--batch",
        metavar="N",
        type=int,
        nargs="+",
        help="transitions per batch of sampling and update; 256 and 1024 by default (loop and "
        "growth use trainer.batch_size)",
    )
    add(
        "--replay",
        metavar="N",
        type=int,
        nargs="+",
        help="entries of the replay buffer for growth; 10000, 100000 and 1000000 by default",
    )
    add("--robots", metavar="N", type=int, help="robots in every scenario; 5 by default")
    add("--vortices", metavar="N", type=int, help="vortex cores in every scenario; 0 by default")
    add("--obstacles", metavar="N", type=int, help="obstacles in every scenario; 4 by default")
    add("--schedule", action="store_true", help="use scenarios of the configuration's training_schedule instead")
    add("--seconds", metavar="S", type=float, help="length of a run (s); 2 by default")
    add("--repeats", metavar="N", type=int, help="alternating runs per size and mode; 3 by default")
    add("--agent", metavar="NAME", help="agent; AC-IQN by default; agent_type=NAME")
    add("-C", "--config", metavar="FILE", type=Path, help="configuration file, as for train")
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; execution.device=DEV")
    add("--threads", metavar="N", help="CPU threads of torch, 0: one per idle core; execution.threads=N")
    add("--json", metavar="FILE", type=Path, help="write all results to this file after every part")
    add("--plot", metavar="FILE", type=Path, help="draw the results to a PNG or PDF (extra: plot)")


def _describe_choices(title: str, meanings: dict[str, str]) -> str:
    """Return a titled list of names with their meanings, one per line, for the help text."""
    return "\n".join([f"{title}:", *(f"  {name:<10} {text}" for name, text in meanings.items())])


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav bench``, and return its exit status."""
    from marinenav_env import Level
    from marinenav_env.support.files import require_writable_outputs
    from train_RL_agents.config.reading import load_config
    from train_RL_agents.speed.options import BenchmarkOptions, with_training_level
    from train_RL_agents.speed.run import run_benchmark

    given = vars(arguments)
    require_writable_outputs(*(given[name] for name in ("json", "plot") if name in given))
    reject_excluded(arguments.parser, given, "schedule", tuple(_DEFAULT_LEVEL))
    overrides = [f"{key}={given[name]}" for name, key in _SETTING_KEYS.items() if name in given]
    config = load_config(given.get("config"), [*overrides, *arguments.overrides])
    config.env.require_built_in("benchmarks")
    if "schedule" not in given:
        level = Level(*(given.get(name, default) for name, default in _DEFAULT_LEVEL.items()))
        config = with_training_level(config, level)
    options = {name: given[name] for name in _BENCHMARK_OPTIONS if name in given}
    options |= {name: tuple(dict.fromkeys(options[name])) for name in ("parts", "modes") if name in options}
    run_benchmark(BenchmarkOptions(config, **options), given.get("json"), given.get("plot"))
    return 0
