"""Train, evaluate and compare the agents, settings and seeds that a file lists."""

from __future__ import annotations

import argparse
from pathlib import Path

IMPORTS = ("train_RL_agents.torchrl_trainer",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav study`` to its parser."""
    add = parser.add_argument
    add("file", metavar="FILE", type=Path, help="JSON: agents, and perhaps settings, seeds, common, suites and which")
    add("--out", metavar="DIR", type=Path, help="folder of runs, figures and page; by default runs/ and FILE's name")
    add("--jobs", metavar="N", type=int, default=1, help="runs that are trained at a time")
    add("-D", "--device", metavar="DEV", default="auto", help="device of the evaluations")
    add("--quiet", action="store_true", help="show no progress")


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav study``, and return its exit status."""
    from marinenav_env.support.extras import import_optional
    from marinenav_env.support.files import require_writable_folder
    from train_RL_agents.experiments.runner import Runner
    from train_RL_agents.experiments.study import check_suites, evaluate_runs, read_study, run_folders, unfinished_runs
    from train_RL_agents.experiments.study_report import write_report
    from train_RL_agents.utils.device import resolve_device

    if arguments.jobs < 1:
        arguments.parser.error(f"argument --jobs: must be at least 1, not {arguments.jobs}")
    import_optional("matplotlib.figure", "plot")  # says what is missing before anything is trained
    device = resolve_device(arguments.device)
    study = read_study(arguments.file)
    check_suites(study)
    out = arguments.out or Path("runs") / arguments.file.stem
    require_writable_folder(out)
    runs = unfinished_runs(study, out, arguments.argv, arguments.jobs)
    total = len(run_folders(study, out))
    print(f"{out}: {total} runs, {len(runs)} of them to be trained", flush=True)
    runner = Runner(runs, arguments.jobs, arguments.quiet)
    runner.run()
    status = runner.print_failures("stopped and saved; the same command continues")
    if runner.stopped:
        return status
    for path in write_report(study, arguments.file.stem, out, evaluate_runs(study, out, device)):
        print(path)
    return status
