"""Train an agent, once for each seed, or resume a run."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.run.resuming import RESUMABLE_SETTINGS

if TYPE_CHECKING:
    from train_RL_agents.experiments.run import Run

OWN_HELP = True
"""True, because the command prints its own help, which also lists the settings."""
IMPORTS = ("train_RL_agents.torchrl_trainer",)
_SETTING_KEYS = {
    "agent": "agent_type",
    "env": "env.name",
    "device": "execution.device",
    "threads": "execution.threads",
    "seed": "seed",
    "num_envs": "trainer.num_envs",
    "total_timesteps": "total_timesteps",
    "compile": "execution.compile",
    "strict": "training_schedule.strict",
}
_QUICK_SETTINGS = ("total_timesteps=100000", "eval_freq=100000", "log_freq=5000", "execution.compile=false")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav train`` to its parser."""
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and all settings")
    add("-C", "--config", metavar="FILE", type=Path, help="JSON of settings that differ, or a shipped one, such as dqn")
    add("--agent", metavar="NAME", help="agent_type=NAME, or package.module:Class")
    add("--env", metavar="NAME", help="env.name=NAME, or package.module:make_env")
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; execution.device=DEV")
    add("--threads", metavar="N", help="CPU threads, 0: as many as other programs leave idle; execution.threads=N")
    add("--seed", metavar="N", nargs="+", help="one run for each; seed=N,...")
    add("--num-envs", metavar="N", help="trainer.num_envs=N")
    add("--total-timesteps", metavar="N", help="env-steps of a run; total_timesteps=N")
    add("--compile", action=argparse.BooleanOptionalAction, help="execution.compile=true or false")
    _add_running_options(parser)


def _add_running_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that are no settings, or several."""
    add = parser.add_argument
    odd = "refuse a scenario file with odd starts or goals; training_schedule.strict=true"
    add("--strict", action="store_true", help=odd)
    sizes = "sizes for a device: auto (default; from the GPU's memory), none, cpu, 8gb, 16gb, 24gb or 80gb"
    add("--profile", metavar="NAME", help=f"{sizes}; settings that are given win")
    resumed = f"resume a run, or all of a folder; only these settings may change: {', '.join(RESUMABLE_SETTINGS)}"
    add("--resume", metavar="RUN", type=Path, help=resumed)
    add("--jobs", metavar="N", type=int, help="train N runs at a time (1), in processes that share cores and GPUs")
    quick = f"short run that shows whether all works: {' '.join(_QUICK_SETTINGS)}; wins over what a file states"
    add("--quick", action="store_true", help=quick)
    add("--quiet", action="store_true", help="print nothing")
    add("--no-bar", action="store_true", help="no progress bar")
    add("--json-lines", action="store_true", help="print progress as JSON, an object a line")


def check(arguments: argparse.Namespace) -> None:
    """Check options that contradict each other, the agent's name, and that the configuration or run exists."""
    from train_RL_agents.agents import registered_agent_name, require_agent_name
    from train_RL_agents.run.finding import single_run
    from train_RL_agents.utils.shipped import require_config

    options, error = vars(arguments), arguments.parser.error
    if options.get("jobs", 1) < 1:
        error(f"argument --jobs: must be at least 1, not {options['jobs']}")
    for option in ("config", "profile", "quick"):
        if "resume" in options and option in options:
            error(f"--resume takes no --{option}: a run has its own")
    agents = [word.partition("=")[2] for word in arguments.overrides if word.startswith("agent_type=")]
    for name in (*([options["agent"]] if "agent" in options else []), *agents):
        require_agent_name(registered_agent_name(name))
    if "config" in options:
        require_config(options["config"])
    if "resume" in options and not options["resume"].exists():
        single_run(options["resume"])


def settings(arguments: argparse.Namespace) -> tuple[Path | None, list[str]] | None:
    """Return the configuration file of a new run and the settings that replace its own; None when runs are resumed."""
    options = vars(arguments)
    return None if "resume" in options else (options.get("config"), stated_settings(options))


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav train``, and return its exit status."""
    options = vars(arguments)
    overrides = stated_settings(options)
    if "help" in options:
        return _print_help(arguments, overrides)
    from marinenav_env.support import plugins
    from marinenav_env.support.validation import require
    from train_RL_agents.experiments.run import remove_if_not_begun
    from train_RL_agents.experiments.runner import Runner
    from train_RL_agents.experiments.seeds import new_runs, resumed_runs
    from train_RL_agents.run.ranks import Ranks, process_group

    display = {"quiet": "quiet" in options, "bar": "no_bar" not in options, "json_lines": "json_lines" in options}
    with process_group():
        ranks, jobs = Ranks(), options.get("jobs", 1)
        with ranks.barrier():
            require(jobs == 1 or ranks.size == 1, "--jobs", jobs, "left out with torchrun")
        if "resume" in options:
            runs = resumed_runs(options["resume"], overrides, **display)
        else:
            profile = options.get("profile", "auto")
            runs = new_runs(options.get("config"), overrides, profile, arguments.argv, jobs, **display)
        if jobs == 1 and (len(runs) < 2 or ranks.size > 1 or display["json_lines"]):
            return _train_here(runs)
        runner = Runner(runs, jobs, display["quiet"], display["bar"])
        runner.run()
        if runner.failures and not runner.stopped:
            remove_if_not_begun(runs[0].new_parent)
        path = runs[0].folder.path
        words = ["marinenav", "train", "--resume", str(path.parent if len(runs) > 1 else path)]
        words += [*(["--jobs", str(jobs)] if jobs > 1 else []), *plugins.option_words()]
        return runner.print_failures(f"continue all: {shlex.join(words)}")


def _train_here(runs: Sequence[Run]) -> int:
    """Train runs in this process one by one, and return the exit status."""
    from train_RL_agents.experiments.run import run_to_the_end
    from train_RL_agents.utils.signals import INTERRUPTED_STATUS

    for run in runs:
        result = run_to_the_end(run)
        if result.stopped and not (result.finished and run is runs[-1]):
            return INTERRUPTED_STATUS
    return 0


def stated_settings(options: dict[str, Any]) -> list[str]:
    """Return the settings that options and words of the command line set, as ``key=value`` arguments."""
    quick = _QUICK_SETTINGS if "quick" in options else ()
    values = {key: options[option] for option, key in _SETTING_KEYS.items() if option in options}
    words = [f"{key}={','.join(value) if isinstance(value, list) else value}" for key, value in values.items()]
    return [*quick, *words, *options["overrides"]]


def _print_help(arguments: argparse.Namespace, overrides: list[str]) -> int:
    """Print the options, and every setting of the chosen agent with its default, and return the exit status."""
    from train_RL_agents.agents import AGENTS
    from train_RL_agents.commands.settings_help import settings_sections, settings_text
    from train_RL_agents.config.reading import load_config
    from train_RL_agents.config.schema import TrainConfig

    agent = load_config(vars(arguments).get("config"), overrides).agent_type
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    print(arguments.parser.format_help())
    print(f"settings, as key=value or in a file, here for {agent} (agents: {', '.join(AGENTS)}):\n")
    print(settings_text(settings_sections(TrainConfig(agent_type=agent)), width))
    return 0
