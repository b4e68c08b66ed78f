"""Search for settings with the highest success rate, or else return, in evaluations."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

TAKES_OVERRIDES = True
IMPORTS = ("train_RL_agents.torchrl_trainer",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav tune`` to its parser."""
    parser.usage = f"{parser.prog} --space FILE --study DIR [options] [key=value ...]"
    add = parser.add_argument
    add(
        "--space",
        metavar="FILE",
        type=Path,
        required=True,
        help="JSON: for each setting a list of values, or an object with low, high and perhaps log",
    )
    add(
        "--study",
        metavar="DIR",
        type=Path,
        required=True,
        help="folder of the study; if it exists, the search continues",
    )
    add(
        "--trials",
        metavar="N",
        type=int,
        default=20,
        help="runs of the study in all, pruned ones included; 20 by default",
    )
    add("-C", "--config", metavar="FILE", type=Path, help="JSON with settings that all trials have in common")
    add(
        "--jobs",
        metavar="N",
        type=int,
        default=1,
        help="trials that run at the same time, each in a process of its own, over cores or GPUs; 1 by default",
    )
    add("--quiet", action="store_true", help="one line per trial")


def settings(arguments: argparse.Namespace) -> tuple[Path | None, list[str]]:
    """Return the configuration file and the settings that replace its own."""
    return arguments.config, arguments.overrides


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav tune``, and return its exit status."""
    from marinenav_env.support import plugins
    from marinenav_env.support.extras import import_optional
    from train_RL_agents.config.reading import load_config
    from train_RL_agents.experiments.runner import Runner
    from train_RL_agents.experiments.search import BEST_CONFIG_NAME, Search, read_space

    for name in ("trials", "jobs"):
        value = getattr(arguments, name)
        if value < 1:
            arguments.parser.error(f"argument --{name}: must be at least 1, not {value}")
    import_optional("optuna", "tune")
    # A replay buffer kept for each trial would fill the disk, and trials are not resumed.
    overrides = ["save_replay=false", "on_divergence=stop", *arguments.overrides]
    config, best = (load_config(arguments.config, words) for words in (overrides, arguments.overrides))
    search = Search(arguments.study, config, read_space(arguments.space, config), arguments.trials, best)
    runner = Runner(search.runs(arguments.argv, arguments.jobs), arguments.jobs, arguments.quiet)
    runner.run()
    status = runner.print_failures("stopped; the same command continues")
    best = search.write_best()
    if status == 0 and best is not None:
        file = str(arguments.study / BEST_CONFIG_NAME)
        command = shlex.join(["marinenav", "train", "-C", file, *plugins.option_words()])
        print(f"best: trial {best.number}, {search.score_name} {best.value:.3f}; train it in full with: {command}")
    return status
