"""Search for better settings, by the success of evaluations."""

from __future__ import annotations

import argparse
from pathlib import Path

TAKES_OVERRIDES = True
IMPORTS = ("train_RL_agents.torchrl_trainer",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = f"{parser.prog} --space FILE --study DIR [options] [key=value ...]"
    add = parser.add_argument
    add("--space", metavar="FILE", type=Path, required=True,
        help="JSON: for each setting a list of values, or an object with low, high and "
        "perhaps log")  # fmt: skip
    add("--study", metavar="DIR", type=Path, required=True,
        help="folder of the study; if it exists, the search continues")  # fmt: skip
    add("--trials", metavar="N", type=int, default=20,
        help="runs of the study in all, pruned ones included; 20 by default")  # fmt: skip
    add("-C", "--config", metavar="FILE", type=Path,
        help="JSON with settings that all trials have in common")  # fmt: skip
    add("--quiet", action="store_true", help="one line per trial")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    import torch

    from marinenav_env.extras import need
    from train_RL_agents.config.reading import load_config
    from train_RL_agents.tuning.study import BEST, Study, read_space
    from train_RL_agents.utils.device import release_memory

    if arguments.trials < 1:
        arguments.parser.error(f"argument --trials: must be at least 1, not {arguments.trials}")
    need("optuna", "tune")
    # A replay buffer kept for each trial would fill the disk, and trials are not resumed.
    words = ["save_replay=false", "on_divergence=stop", *arguments.overrides]
    config = load_config(arguments.config, words)
    study = Study(arguments.study, config, read_space(arguments.space, config))
    while study.done < arguments.trials:
        line = study.run_trial(arguments.argv, quiet=arguments.quiet)
        torch.compiler.reset()
        release_memory()
        print(line, flush=True)
        study.write_best()
    best = study.write_best()
    if best is not None:
        print(f"best: trial {best.number}, success {best.value:.3f}; train it in full with: "
              f"marinenav train -C {arguments.study / BEST}")  # fmt: skip
    return 0
