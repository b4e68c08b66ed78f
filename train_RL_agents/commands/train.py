"""Train an agent, once for each seed, or resume a run."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.config.resuming import RESUMABLE

if TYPE_CHECKING:
    from train_RL_agents.config.schema import TrainConfig
    from train_RL_agents.torchrl_trainer import TorchRLTrainer

OWN_HELP = True
"""Help lists the settings, which takes an import of torch."""
TAKES_OVERRIDES = True
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
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and all settings", **plain)
    add("-C", "--config", metavar="FILE", type=Path, help="JSON with settings that differ", **plain)
    add(
        "--agent",
        metavar="NAME",
        help="agent_type=NAME, or package.module:Class",
        **plain,
    )
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; device=DEV", **plain)
    add("--seed", metavar="N", nargs="+", help="one run for each; seed=N,...", **plain)
    add("--num-envs", metavar="N", help="trainer.num_envs=N", **plain)
    add("--total-timesteps", metavar="N", help="env-steps of a run; total_timesteps=N", **plain)
    add("--compile", action=argparse.BooleanOptionalAction, help="compile=true or false", **plain)
    add("--profile", metavar="NAME", help="sizes of environments, batch and replay for a device: "
        "auto (default; from the GPU's memory, on the CPU none), none, cpu, 8gb, 16gb, 24gb or "
        "80gb; settings that are given win", **plain)  # fmt: skip
    add("--resume", metavar="RUN", type=Path, help="resume a run, or all runs of a training "
        f"folder; of the settings, only these may change: {', '.join(RESUMABLE)}",
        **plain)  # fmt: skip
    add("--profile-trace", metavar="N", nargs="?", type=int, const=_TRACED, help="write a trace of "
        f"N batches of the collector with their updates ({_TRACED} if not said), once everything "
        "is compiled, into the run folder", **plain)  # fmt: skip
    add("--quiet", action="store_true", help="print nothing", **plain)
    add("--no-bar", action="store_true", help="no progress bar", **plain)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = vars(arguments)
    overrides = _shorthands(given) + arguments.overrides
    if "help" in given:
        return _help(arguments.parser, given.get("config"), overrides)
    display = {"quiet": "quiet" in given, "bar": "no_bar" not in given}
    trace = given.get("profile_trace", 0)
    if "profile_trace" in given and trace < 1:
        arguments.parser.error(f"argument --profile-trace: must be at least 1, not {trace}")
    if "resume" in given and "config" in given:
        arguments.parser.error("--resume takes no --config: a run has its own")
    if "resume" in given and "profile" in given:
        arguments.parser.error("--resume takes no --profile: a run has its sizes")
    from train_RL_agents.run.ranks import joined

    with joined():
        if "resume" in given:
            return _resume(given["resume"], overrides, display, trace)
        return _start(given, overrides, arguments.argv, display, trace)


def _shorthands(given: dict[str, Any]) -> list[str]:
    """Options as key=value words."""
    words = []
    for option, key in _SHORTHANDS.items():
        if option in given:
            value = given[option]
            words.append(f"{key}={','.join(value) if isinstance(value, list) else value}")
    return words


def _planned(given: dict[str, Any], overrides: list[str], quiet: bool) -> TrainConfig[Any]:
    """Size a run for its device, and show what it will take of it.

    Raises:
        ConfigError: when the device is missing or the run will not fit.
    """
    from rich.console import Console

    from train_RL_agents.config.reading import load_config, stated_keys
    from train_RL_agents.planning.plan import check, table
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
    console = Console(quiet=quiet or not ranks.leads, highlight=False)
    console.print(table(own.plan))
    console.print(sized.chosen, markup=False, soft_wrap=True)
    check(own.plan, own.config)
    return sized.config


def _start(
    given: dict[str, Any],
    overrides: list[str],
    argv: list[str],
    display: dict[str, Any],
    trace: int,
) -> int:
    """Train every seed in one training folder; a run that is refused leaves none behind."""
    from marinenav_env.validation import ConfigError
    from train_RL_agents.run.ranks import Ranks
    from train_RL_agents.run.run_folder import RunFolder
    from train_RL_agents.torchrl_trainer import TorchRLTrainer

    ranks = Ranks()
    with ranks.together():
        config = _planned(given, overrides, display["quiet"])

    def create() -> list[RunFolder]:
        """All at once, so that --resume finds the seeds whose turn had not come."""
        parent = RunFolder.make_parent(config.save_dir)
        try:
            return [RunFolder.create(config, seed, argv, parent) for seed in config.seed]
        except ConfigError:
            shutil.rmtree(parent)
            raise

    folders = ranks.led(create)

    def first() -> TorchRLTrainer:
        try:
            return TorchRLTrainer(folders[0], **display)
        except ConfigError:
            shutil.rmtree(folders[0].path.parent, ignore_errors=True)
            raise

    makers: list[Callable[[], TorchRLTrainer]] = [first]
    makers += [partial(TorchRLTrainer, folder, **display) for folder in folders[1:]]
    for make in makers:
        _train(make, trace, display["quiet"])
    return 0


def _resume(path: Path, overrides: list[str], display: dict[str, Any], trace: int) -> int:
    """Resume a run, or every run of a training folder."""
    from marinenav_env.validation import require
    from train_RL_agents.config.reading import override
    from train_RL_agents.run.ranks import Ranks
    from train_RL_agents.run.run_folder import RunFolder, runs_in
    from train_RL_agents.torchrl_trainer import resume

    with Ranks().together():
        folders = [RunFolder.open(each) for each in runs_in(path)]
        for folder in folders:
            folder.config = override(folder.config, overrides)
        for word in overrides:
            key, _, value = word.partition("=")
            require(key in RESUMABLE, key, value, "left as it is when a run is resumed")
    for folder in folders:
        _train(partial(resume, folder, **display), trace, display["quiet"])
    return 0


def _train(make: Callable[[], TorchRLTrainer], trace: int, quiet: bool) -> None:
    """Train; compiled code is dropped afterwards, as the number of its variants is limited.

    Args:
        make: makes the trainer; memory is planned for one, so it must be gone before the next.
        trace: batches of the collector in a profiler's trace; 0: none.
        quiet: do not print where the trace is.

    Raises:
        KeyboardInterrupt: when the trainer was asked to stop; it has saved.
    """
    import torch

    from train_RL_agents.utils.device import release_memory

    trainer = make()
    if trace:
        _train_traced(trainer, trace, quiet)
    else:
        trainer.train()
    torch.compiler.reset()
    if trainer.stopped:
        raise KeyboardInterrupt
    del trainer
    release_memory()


def _train_traced(trainer: TorchRLTrainer, trace: int, quiet: bool) -> None:
    """Train, and say where the trace is."""
    from train_RL_agents.run.tracing import Trace

    tracing = Trace(trainer.run.path, trace, trainer.device)
    trainer.callbacks.append(tracing)
    trainer.train()
    tracing.finish()
    if not quiet:
        print(f"trace: {tracing.path}" if tracing.path else "no trace: the run has too few updates")


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
