"""Train an agent, once for each seed, or resume a run."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from train_RL_agents.config.resuming import RESUMABLE

OWN_HELP = True
"""Help lists the settings too."""
TAKES_OVERRIDES = True
OWN_THREADS = True
"""A setting of the runs."""
IMPORTS = ("train_RL_agents.torchrl_trainer",)
_SHORTHANDS = {
    "agent": "agent_type",
    "device": "execution.device",
    "threads": "execution.threads",
    "seed": "seed",
    "num_envs": "trainer.num_envs",
    "total_timesteps": "total_timesteps",
    "compile": "execution.compile",
    "strict": "training_schedule.strict",
}
"""Options that stand for keys."""
_QUICK = ("total_timesteps=100000", "eval_freq=100000", "log_freq=5000", "execution.compile=false")
"""Settings of ``--quick``."""
_TRACED = 20
"""Batches of the collector in a trace, if not said otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and all settings")
    add(
        "-C",
        "--config",
        metavar="FILE",
        type=Path,
        help="JSON with settings that differ, or the name of one that is shipped, such as dqn",
    )
    add("--agent", metavar="NAME", help="agent_type=NAME, or package.module:Class")
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; execution.device=DEV")
    add("--threads", metavar="N", help="CPU threads, 0: one per idle core; execution.threads=N")
    add("--seed", metavar="N", nargs="+", help="one run for each; seed=N,...")
    add("--num-envs", metavar="N", help="trainer.num_envs=N")
    add("--total-timesteps", metavar="N", help="env-steps of a run; total_timesteps=N")
    add("--compile", action=argparse.BooleanOptionalAction, help="execution.compile=true or false")
    add(
        "--strict",
        action="store_true",
        help="refuse a scenario file with odd starts or goals; training_schedule.strict=true",
    )
    add(
        "--profile",
        metavar="NAME",
        help="sizes of environments, batch and replay for a device: "
        "auto (default; from the GPU's memory, on the CPU none), none, cpu, 8gb, 16gb, 24gb or "
        "80gb; settings that are given win",
    )
    add(
        "--resume",
        metavar="RUN",
        type=Path,
        help="resume a run, or all runs of a training "
        f"folder; of the settings, only these may change: {', '.join(RESUMABLE)}",
    )
    add(
        "--profile-trace",
        metavar="N",
        nargs="?",
        type=int,
        const=_TRACED,
        help="write a trace of "
        f"N batches of the collector with their updates ({_TRACED} if not said), once everything "
        "is compiled, into the run folder",
    )
    add(
        "--jobs",
        metavar="N",
        type=int,
        help="train N runs at a time, each in a process of its own with its share of the cores and GPUs",
    )
    add(
        "--quick",
        action="store_true",
        help="a short run that shows whether all works: "
        f"{' '.join(_QUICK)}; wins over what a file states, but "
        "not over settings of the command line",
    )
    add("-v", "--verbose", action="store_true", help="print what takes memory, too")
    add("--quiet", action="store_true", help="print nothing")
    add("--no-bar", action="store_true", help="no progress bar")
    add("--json-lines", action="store_true", help="print progress as JSON, an object a line")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = vars(arguments)
    quick = list(_QUICK) if "quick" in given else []
    overrides = quick + _shorthands(given) + arguments.overrides
    if "help" in given:
        return _help(arguments, overrides)
    trace = given.get("profile_trace", 0)
    if "profile_trace" in given and trace < 1:
        arguments.parser.error(f"argument --profile-trace: must be at least 1, not {trace}")
    if given.get("jobs", 1) < 1:
        arguments.parser.error(f"argument --jobs: must be at least 1, not {given['jobs']}")
    for option in ("config", "profile", "quick"):
        if "resume" in given and option in given:
            arguments.parser.error(f"--resume takes no --{option}: a run has its own")
    from marinenav_env.support.validation import require
    from train_RL_agents.experiments.run import new_runs, resumed_runs, run_to_the_end
    from train_RL_agents.run.ranks import Ranks, process_group
    from train_RL_agents.utils.signals import INTERRUPTED

    display = {"quiet": "quiet" in given, "bar": "no_bar" not in given, "json_lines": "json_lines" in given}
    with process_group():
        ranks, at_once = Ranks(), given.get("jobs", 1)
        with ranks.barrier():
            require(at_once == 1 or ranks.size == 1, "--jobs", at_once, "left out with torchrun")
        if "resume" in given:
            runs = resumed_runs(given["resume"], overrides, **display)
        else:
            profile = given.get("profile", "auto")
            runs = new_runs(
                given.get("config"), overrides, profile, arguments.argv, at_once, "verbose" in given, **display
            )
        if at_once > 1:
            words = [*(overrides if "resume" in given else []), *([f"--profile-trace={trace}"] if trace else [])]
            return _together([folder.path for folder, _ in runs], words, at_once, display)
        for number, each in enumerate(runs, start=1):
            ending = run_to_the_end(each, trace, display["quiet"])
            if ending.stopped and not (ending.finished and number == len(runs)):
                if ending.finished and ranks.is_main and not display["quiet"]:
                    words = ["marinenav", "train", "--resume", str(each[0].path.parent)]
                    print(f"stopped before the next seed; go on with: {shlex.join(words)}")
                return INTERRUPTED
    return 0


def _together(folders: Sequence[Path], words: Sequence[str], at_once: int, display: dict[str, Any]) -> int:
    """Train runs at the same time; see run.jobs. Returns the exit status."""
    from train_RL_agents.experiments.runner import Jobs, training_command

    commands = {path.name: training_command(path, words) for path in folders}
    jobs = Jobs(commands, at_once, display["quiet"], display["bar"])
    jobs.run()
    path = folders[0].parent if len(folders) > 1 else folders[0]
    again = ["marinenav", "train", "--resume", str(path), "--jobs", str(at_once)]
    return jobs.report(f"continue all: {shlex.join(again)}")


def _shorthands(given: dict[str, Any]) -> list[str]:
    """Options as key=value words."""
    values = {key: given[option] for option, key in _SHORTHANDS.items() if option in given}
    return [f"{key}={','.join(value) if isinstance(value, list) else value}" for key, value in values.items()]


def _help(arguments: argparse.Namespace, overrides: list[str]) -> int:
    """Print the options, and every setting of the chosen agent with its default."""
    from train_RL_agents.agents import AGENTS
    from train_RL_agents.config.help import sections, settings_text
    from train_RL_agents.config.reading import default_config, load_config

    agent = load_config(vars(arguments).get("config"), overrides).agent_type
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    print(arguments.parser.format_help())
    print(f"settings, as key=value or in a file, here for {agent} (agents: {', '.join(AGENTS)}):\n")
    print(settings_text(sections(default_config(agent)), width))
    return 0
