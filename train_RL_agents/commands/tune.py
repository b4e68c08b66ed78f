"""Search for better settings, by the success of evaluations."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path

TAKES_OVERRIDES = True
IMPORTS = ("train_RL_agents.torchrl_trainer",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
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
        help="processes that make trials at the same time, over cores or GPUs; 1 by default",
    )
    add("--job", action="store_true", help=argparse.SUPPRESS)  # one of several
    add("--quiet", action="store_true", help="one line per trial")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    import torch

    from marinenav_env.support.extras import need
    from train_RL_agents.config.reading import load_config
    from train_RL_agents.experiments.runner import Jobs
    from train_RL_agents.experiments.search import BEST, Search, read_space
    from train_RL_agents.utils.device import release_memory
    from train_RL_agents.utils.signals import INTERRUPTED

    for name in ("trials", "jobs"):
        value = getattr(arguments, name)
        if value < 1:
            arguments.parser.error(f"argument --{name}: must be at least 1, not {value}")
    need("optuna", "tune")
    # A replay buffer kept for each trial would fill the disk, and trials are not resumed.
    words = ["save_replay=false", "on_divergence=stop", *arguments.overrides]
    config = load_config(arguments.config, words)
    search = Search(arguments.study, config, read_space(arguments.space, config), arguments.trials)
    if arguments.jobs > 1:
        commands = {f"job {number}": _command(arguments) for number in range(arguments.jobs)}
        jobs = Jobs(commands, arguments.jobs, bar=False)
        jobs.run()
        status = jobs.report("stopped; the same command continues")
        if status:
            return status
    parent = os.getppid()
    while search.lacks_trials(lambda line: print(line, flush=True)):
        if arguments.job and os.getppid() != parent:
            return INTERRUPTED  # the command was killed, and no Ctrl-C reaches this process
        line = search.run_trial(arguments.argv, quiet=arguments.quiet)
        torch.compiler.reset()
        release_memory()
        if line:
            print(line, flush=True)
        search.write_best()
    best = None if arguments.job else search.write_best()
    if best is not None:
        command = shlex.join(["marinenav", "train", "-C", str(arguments.study / BEST)])
        print(f"best: trial {best.number}, success {best.value:.3f}; train it in full with: {command}")
    return 0


def _command(arguments: argparse.Namespace) -> list[str]:
    """The command line of one of several jobs."""
    from train_RL_agents.experiments.runner import command_line

    words = ["tune", "--job", "--quiet", "--trials", str(arguments.trials)]
    paths = {"space": arguments.space, "study": arguments.study, "config": arguments.config}
    words += [f"--{name}={path}" for name, path in paths.items() if path is not None]
    return command_line(*words, *arguments.overrides)
