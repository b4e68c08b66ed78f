"""Options of several commands that choose scenarios, and conversions and checks of command-line arguments."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from train_RL_agents.evaluation.suites import SUITE_NAMES

POLICY_HELP = "run folder, policy file or name of a shipped policy"
WHICH_OPTION: dict[str, Any] = {"metavar": "NAME", "help": "policy of a run: best (default), latest or a file's name"}
DEVICE_OPTION: dict[str, Any] = {"metavar": "DEV", "default": "auto", "help": "auto (default), cpu, cuda, cuda:N"}


def add_scenario_options(parser: argparse.ArgumentParser, *more_suites: str) -> None:
    """Add the options that choose scenarios to a parser; parsed arguments then lack options that are not given."""
    parser.argument_default, names = argparse.SUPPRESS, (*SUITE_NAMES, *more_suites)
    add = parser.add_argument
    add("--which", **WHICH_OPTION)
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--levels", metavar="L", type=int, nargs="+", help="levels, from 1; all by default")
    suites = f"one of {', '.join(names)}, instead of levels"
    source.add_argument("--suite", metavar="NAME", choices=names, help=suites)
    files = "scenario file or folder of them, instead of levels; also of DNV, NTNU and CommonOcean"
    source.add_argument("--scenarios", "--scenario", metavar="FILE", type=Path, help=files)
    add("--strict", action="store_true", help="refuse a scenario file with odd starts or goals, instead of a warning")
    count = (
        "episodes per level or group of a suite; by default as in training, or the suite's; the first ones of a file"
    )
    add("--episodes", metavar="N", type=parse_count, help=count)
    seeds = parser.add_mutually_exclusive_group()
    seeds.add_argument("--seed", metavar="N", type=int, help="seed of scenarios and noise; by default the fixed one")
    seeds.add_argument("--fresh", action="store_true", help="use new scenarios and noise")


def require_policies(names: Iterable[str], baselines: bool = True) -> None:
    """Raise a ConfigError for the first name of neither a policy nor, if allowed, a baseline; torch is not imported."""
    from train_RL_agents.evaluation.running.baselines import BASELINES
    from train_RL_agents.run.finding import locate_policy

    for name in names:
        locate_policy(name, BASELINES if baselines else ())


def parse_names(text: str) -> tuple[str, ...]:
    """Convert a command-line argument to the names that it lists, with commas in between."""
    return tuple(name.strip() for name in text.split(","))


def parse_html_path(text: str) -> Path:
    """Convert a command-line argument to the path of an HTML page."""
    if Path(text).suffix.lower() not in (".html", ".htm"):
        raise argparse.ArgumentTypeError(f"must be a page that ends in .html, not {text}")
    return Path(text)


def parse_count(text: str, least: int = 1, most: int = 100_000) -> int:
    """Convert a command-line argument to a whole number, such as that of episodes."""
    if not (text.isdecimal() and len(text) < 10 and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"must be from {least} to {most:,}, not {text}")
    return int(text)
