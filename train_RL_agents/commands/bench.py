"""Measure the speed of training and its parts on this machine, and print it with machine, software and settings."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from train_RL_agents.commands.train import stated_settings
from train_RL_agents.experiments.benchmark_parts import PARTS

IMPORTS = ("train_RL_agents.torchrl_trainer",)
_BENCHMARK_OPTIONS = ("parts", "envs", "batch", "seconds", "repeats")
"""Options of the command that are also fields of BenchmarkOptions."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav bench`` to its parser."""
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    parser.argument_default = argparse.SUPPRESS
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(["parts:", *(f"  {name:<10} {text}" for name, text in PARTS.items())])
    add = parser.add_argument
    sizes: dict[str, Any] = {"metavar": "N", "type": int, "nargs": "+"}
    add("--parts", nargs="+", choices=PARTS, metavar="PART", help="parts to measure, see below; all by default")
    add("--envs", **sizes, help="environments of world and policy; 256 4096 16384 by default")
    add("--batch", **sizes, help="transitions per batch of replay and update; 256 1024 by default")
    add("--seconds", metavar="S", type=float, help="length of a run (s); 2 by default")
    add("--repeats", metavar="N", type=int, help="runs of every size; 3 by default")
    add("--agent", metavar="NAME", help="agent; AC-IQN by default; agent_type=NAME")
    add("-C", "--config", metavar="FILE", type=Path, help="configuration file, as for train")
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; execution.device=DEV")
    add("--threads", metavar="N", help="CPU threads, 0: as many as other programs leave idle; execution.threads=N")
    add("--json", metavar="FILE", type=Path, help="write all results to this file after every size")


def settings(arguments: argparse.Namespace) -> tuple[Path | None, list[str]]:
    """Return the configuration file and the settings that replace its own."""
    return vars(arguments).get("config"), stated_settings(vars(arguments))


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav bench``, and return its exit status."""
    from marinenav_env.support.files import require_writable_outputs
    from train_RL_agents.config.reading import load_config
    from train_RL_agents.experiments.benchmark_report import BenchmarkOptions, run_benchmark

    given = vars(arguments)
    require_writable_outputs(*(given[name] for name in ("json",) if name in given))
    config = load_config(*settings(arguments))
    config.env.require_built_in("benchmarks")
    options = {name: given[name] for name in _BENCHMARK_OPTIONS if name in given}
    if "parts" in options:
        options["parts"] = tuple(dict.fromkeys(options["parts"]))
    run_benchmark(BenchmarkOptions(config, **options), given.get("json"))
    return 0
