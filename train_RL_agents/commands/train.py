"""Train an agent, once for each seed, or resume a run."""

from __future__ import annotations

import argparse
import shlex
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.config.resuming import RESUMABLE

if TYPE_CHECKING:
    from train_RL_agents.planning.profiles import Sized
    from train_RL_agents.run.run_folder import RunFolder
    from train_RL_agents.torchrl_trainer import TorchRLTrainer

    Maker = Callable[[], TorchRLTrainer]
    Runs = list[tuple[RunFolder, Maker]]
    """Run folders, with what makes the trainer of each."""

OWN_HELP = True
"""Help lists the settings, which takes an import of torch."""
TAKES_OVERRIDES = True
IMPORTS = ("train_RL_agents.torchrl_trainer",)
INTERRUPTED = 130
"""Exit status of a run that was asked to stop."""
_SHORTHANDS = {
    "agent": "agent_type",
    "device": "device",
    "seed": "seed",
    "num_envs": "trainer.num_envs",
    "total_timesteps": "total_timesteps",
    "compile": "compile",
}
"""Options that stand for keys."""
_TRACED = 20
"""Batches of the collector in a trace, if not said otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and all settings")
    add("-C", "--config", metavar="FILE", type=Path, help="JSON with settings that "
        "differ, or the name of one that is shipped, such as dqn")  # fmt: skip
    add("--agent", metavar="NAME", help="agent_type=NAME, or package.module:Class")
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; device=DEV")
    add("--seed", metavar="N", nargs="+", help="one run for each; seed=N,...")
    add("--num-envs", metavar="N", help="trainer.num_envs=N")
    add("--total-timesteps", metavar="N", help="env-steps of a run; total_timesteps=N")
    add("--compile", action=argparse.BooleanOptionalAction, help="compile=true or false")
    add("--profile", metavar="NAME", help="sizes of environments, batch and replay for a device: "
        "auto (default; from the GPU's memory, on the CPU none), none, cpu, 8gb, 16gb, 24gb or "
        "80gb; settings that are given win")  # fmt: skip
    add("--resume", metavar="RUN", type=Path, help="resume a run, or all runs of a training "
        f"folder; of the settings, only these may change: {', '.join(RESUMABLE)}")  # fmt: skip
    add("--profile-trace", metavar="N", nargs="?", type=int, const=_TRACED, help="write a trace of "
        f"N batches of the collector with their updates ({_TRACED} if not said), once everything "
        "is compiled, into the run folder")  # fmt: skip
    add("--quiet", action="store_true", help="print nothing")
    add("--no-bar", action="store_true", help="no progress bar")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = vars(arguments)
    overrides = _shorthands(given) + arguments.overrides
    if "help" in given:
        return _help(arguments.parser, given.get("config"), overrides)
    trace = given.get("profile_trace", 0)
    if "profile_trace" in given and trace < 1:
        arguments.parser.error(f"argument --profile-trace: must be at least 1, not {trace}")
    for option in ("config", "profile"):
        if "resume" in given and option in given:
            arguments.parser.error(f"--resume takes no --{option}: a run has its own")
    from train_RL_agents.run.ranks import joined

    display = {"quiet": "quiet" in given, "bar": "no_bar" not in given}
    with joined():
        if "resume" in given:
            runs = _resumed(given["resume"], overrides, display)
        else:
            runs = _new(given, overrides, arguments.argv, display)
        for folder, make in runs:
            _train(folder, make, trace, display["quiet"])
    return 0


def _shorthands(given: dict[str, Any]) -> list[str]:
    """Options as key=value words."""
    values = {key: given[option] for option, key in _SHORTHANDS.items() if option in given}
    return [f"{key}={','.join(value) if isinstance(value, list) else value}"
            for key, value in values.items()]  # fmt: skip


def _planned(given: dict[str, Any], overrides: list[str]) -> Sized:
    """Size a run for its device.

    Raises:
        ConfigError: when the device is missing or the run will not fit.
    """
    from train_RL_agents.config.reading import load_config, stated_keys
    from train_RL_agents.planning.plan import check
    from train_RL_agents.planning.profiles import planned
    from train_RL_agents.run.ranks import Ranks

    # Before there is a folder: what cannot be trained should not leave an empty one behind.
    config = load_config(given.get("config"), overrides)
    ranks = Ranks()
    stated = stated_keys(given.get("config"), overrides)
    device, profile = ranks.device(config.device), given.get("profile", "auto")
    sized = planned(config, profile, stated, device)
    # What each process holds is its share.
    own = planned(ranks.share(sized.config), "none", stated, device)
    check(own.plan, own.config)
    return sized._replace(plan=own.plan)


def _headline(folder: Path, agent: str, device: str, more: str) -> str:
    """The first line of a run; TensorBoard names runs by their folders below the one given."""
    watch = shlex.join(["tensorboard", "--logdir", str(folder.parent)])
    return f"{folder}: {agent} on {device}, {more}; {watch}"


def _new(
    given: dict[str, Any], overrides: list[str], argv: list[str], display: dict[str, Any]
) -> Runs:
    """Runs of every seed in one training folder; a run that is refused leaves none behind."""
    from rich.console import Console

    from train_RL_agents.planning.plan import table
    from train_RL_agents.run.ranks import Ranks
    from train_RL_agents.run.run_folder import RunFolder
    from train_RL_agents.torchrl_trainer import TorchRLTrainer

    ranks = Ranks()
    with ranks.together():
        sized = _planned(given, overrides)
        config = sized.config

    def create() -> list[RunFolder]:
        """All at once, so that --resume finds the seeds whose turn had not come."""
        parent = RunFolder.make_parent(config)
        make = partial(RunFolder.create, config, argv=argv, parent=parent)
        return [_kept(partial(make, seed), parent) for seed in config.seed]

    folders = ranks.led(create)
    parent = folders[0].path.parent
    line = _headline(parent, config.agent_type, str(sized.plan.device), sized.chosen)
    console = Console(quiet=display["quiet"] or not ranks.leads, highlight=False)
    console.print(line, markup=False, soft_wrap=True)
    console.print(table(sized.plan))
    for folder in folders:
        folder.heading = [line]
    first, *others = [(folder, partial(TorchRLTrainer, folder, **display)) for folder in folders]
    return [(first[0], partial(_kept, first[1], parent)), *others]


def _kept(make: Callable[[], Any], parent: Path) -> Any:
    """What is made in a new training folder, which goes where that is refused."""
    from marinenav_env.validation import ConfigError

    try:
        return make()
    except ConfigError:
        shutil.rmtree(parent, ignore_errors=True)
        raise


def _resumed(path: Path, overrides: list[str], display: dict[str, Any]) -> Runs:
    """A run, or every run of a training folder."""
    from marinenav_env.validation import require
    from train_RL_agents.config.reading import override
    from train_RL_agents.run.ranks import Ranks
    from train_RL_agents.run.run_folder import RunFolder, runs_in
    from train_RL_agents.torchrl_trainer import resume

    ranks = Ranks()
    with ranks.together():
        folders = [RunFolder.open(each) for each in runs_in(path)]
        for folder in folders:
            folder.config = override(folder.config, overrides)
        for word in overrides:
            key, _, value = word.partition("=")
            require(key in RESUMABLE, key, value, "left as it is when a run is resumed")
        for folder in folders:
            device = str(ranks.device(folder.config.device))
            line = _headline(folder.path, folder.config.agent_type, device, "resumed")
            folder.heading = [line]
            if ranks.leads and not display["quiet"]:
                print(line, flush=True)
    return [(folder, partial(resume, folder, **display)) for folder in folders]


def _train(folder: RunFolder, make: Maker, trace: int, quiet: bool) -> None:
    """Train; compiled code is dropped afterwards, as the number of its variants is limited.

    Args:
        folder: of the run.
        make: makes its trainer; memory is planned for one, so it must be gone before the next.
        trace: batches of the collector in a profiler's trace; 0: none.
        quiet: print nothing.

    Raises:
        SystemExit: when the trainer was asked to stop; it has saved and said so.
    """
    import torch

    from train_RL_agents.run.ranks import Ranks
    from train_RL_agents.utils.compiling import compiled_or_not
    from train_RL_agents.utils.device import release_memory

    def attempt(compiled: bool) -> bool:
        folder.config = replace(folder.config, compile=folder.config.compile and compiled)
        return _train_once(make(), trace, quiet)

    def say(line: str) -> None:
        folder.close()
        folder.heading = [line]
        if not quiet:
            print(line, flush=True)

    # Ranks wait for one another, so one of them cannot start again alone.
    single = Ranks().size == 1
    stopped = compiled_or_not(attempt, say) if single else attempt(True)
    torch.compiler.reset()
    release_memory()
    if stopped:
        raise SystemExit(INTERRUPTED)


def _train_once(trainer: TorchRLTrainer, trace: int, quiet: bool) -> bool:
    """Train, with a trace if that is wanted; whether it was asked to stop."""
    from train_RL_agents.run.tracing import Trace

    tracing = Trace(trainer.run.path, trace, trainer.device) if trace else None
    if tracing is not None:
        trainer.callbacks.append(tracing)
    trainer.train()
    if tracing is not None:
        tracing.finish()
        if not quiet:
            none = "no trace: the run has too few updates"
            print(f"trace: {tracing.path}" if tracing.path else none)
    return trainer.stopped


def _help(parser: argparse.ArgumentParser, path: Path | None, overrides: list[str]) -> int:
    """Print the options, and every setting of the chosen agent with its default."""
    from train_RL_agents.agents import AGENTS
    from train_RL_agents.config.help import settings_help
    from train_RL_agents.config.reading import default_config, load_config

    agent = load_config(path, overrides).agent_type
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    print(parser.format_help())
    print(f"settings, as key=value or in a file, here for {agent} (agents: {', '.join(AGENTS)}):\n")
    print(settings_help(default_config(agent), width))
    return 0
