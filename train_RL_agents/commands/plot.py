"""Draw learning curves, success by level and comparisons of groups, and write their tables."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav plot`` to its parser."""
    add = parser.add_argument
    add("runs", metavar="RUN", type=Path, nargs="+", help="run folders, folders of them, or evaluations.npz files")
    add("--out", metavar="DIR", type=Path, required=True, help="folder for PNG, PDF and CSV files")
    add("--by", choices=("agent", "folder"), default="agent", help="groups of runs: agents (default), or folders")


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav plot``, and return its exit status."""
    from marinenav_env.support.extras import import_optional
    from marinenav_env.support.files import require_writable_folder
    from train_RL_agents.figures import curves, plotting

    import_optional("matplotlib.figure", "plot")  # reports a missing package before anything is computed
    require_writable_folder(arguments.out)
    runs = curves.read_runs(arguments.runs)
    groups, left_out = curves.drop_early_runs(curves.group_runs(runs, arguments.by))
    for sentence in left_out:
        print(sentence)
    tables = {name: plotting.FIGURES[name].table(groups) for name in plotting.UNPAIRED_FIGURES}
    for path in plotting.write_figures(arguments.out, tables):
        print(path)
    return 0
