"""Train an agent, once for each seed, or go on with a run."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
_RESUMABLE = ("total_timesteps", "eval_freq", "log_freq", "threads", "compile", "save_replay")
"""Keys that may change when a run goes on; all others would make it another run. Not the device:
generators of another kind of device cannot take up the streams of random numbers."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    parser.usage = f"{parser.prog} [options] [key=value ...]"
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show this and all settings", **plain)
    add("-C", "--config", metavar="FILE", type=Path, help="JSON with settings that differ", **plain)
    add("--agent", metavar="NAME", help="short for agent_type=NAME", **plain)
    add("-D", "--device", metavar="DEV", help="auto, cpu, cuda, cuda:N; device=DEV", **plain)
    add("--seed", metavar="N", nargs="+", help="one run for each; seed=N,...", **plain)
    add("--num-envs", metavar="N", help="trainer.num_envs=N", **plain)
    add("--total-timesteps", metavar="N", help="env-steps of a run; total_timesteps=N", **plain)
    add("--compile", action=argparse.BooleanOptionalAction, help="compile=true or false", **plain)
    add("--resume", metavar="RUN", type=Path, help="go on with a run, or with all of a training "
        f"folder; of the settings, only these may change: {', '.join(_RESUMABLE)}",
        **plain)  # fmt: skip
    add("--quiet", action="store_true", help="print nothing", **plain)
    add("--no-bar", action="store_true", help="no progress bar", **plain)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = vars(arguments)
    overrides = _shorthands(given) + arguments.overrides
    if "help" in given:
        return _help(arguments.parser, given.get("config"), overrides)
    display = {"quiet": "quiet" in given, "bar": "no_bar" not in given}
    if "resume" in given and "config" in given:
        arguments.parser.error("--resume takes no --config: a run has its own")
    from train_RL_agents.distributed import joined

    with joined():
        if "resume" in given:
            return _resume(given["resume"], overrides, display)
        return _start(given.get("config"), overrides, arguments.argv, display)


def _shorthands(given: dict[str, Any]) -> list[str]:
    """Options as key=value words."""
    words = []
    for option, key in _SHORTHANDS.items():
        if option in given:
            value = given[option]
            words.append(f"{key}={','.join(value) if isinstance(value, list) else value}")
    return words


def _start(
    path: Path | None, overrides: list[str], argv: list[str], display: dict[str, bool]
) -> int:
    """Train every seed in one training folder."""
    from train_RL_agents.config_file import load_config
    from train_RL_agents.distributed import Ranks
    from train_RL_agents.run_folder import RunFolder
    from train_RL_agents.torchrl_trainer import TorchRLTrainer

    ranks = Ranks()
    # Before there is a folder: a device that is missing should not leave an empty one behind.
    with ranks.together():
        config = load_config(path, overrides)
        ranks.device(config.device)
        ranks.share(config)

    def create() -> list[RunFolder]:
        """All at once, so that --resume finds the seeds whose turn had not come."""
        parent = RunFolder.new_parent(config.save_dir)
        return [RunFolder.create(config, seed, argv, parent) for seed in config.seed]

    for folder in ranks.led(create):
        _train(TorchRLTrainer(folder, **display))
    return 0


def _resume(path: Path, overrides: list[str], display: dict[str, bool]) -> int:
    """Go on with a run, or with every run of a training folder."""
    from marinenav_env.validation import require
    from train_RL_agents.config_file import override
    from train_RL_agents.distributed import Ranks
    from train_RL_agents.run_folder import RunFolder
    from train_RL_agents.torchrl_trainer import resume

    with Ranks().together():
        folders = [RunFolder.open(each) for each in runs_in(path)]
        for folder in folders:
            folder.config = override(folder.config, overrides)
        for word in overrides:
            key, _, value = word.partition("=")
            require(key in _RESUMABLE, key, value, "left as it is when a run is resumed")
    for folder in folders:
        _train(resume(folder, **display))
    return 0


def runs_in(path: Path) -> list[Path]:
    """The seeds' folders in a training folder; else the path itself."""
    return sorted(file.parent for file in path.glob("seed_*/trial_config.json")) or [path]


def _train(trainer: TorchRLTrainer) -> None:
    """Train; with code compiled for this run alone, as there is a limit to its variants.

    Raises:
        KeyboardInterrupt: when the trainer was asked to stop; it has saved.
    """
    import torch

    trainer.train()
    torch.compiler.reset()
    if trainer.stopped:
        raise KeyboardInterrupt


def _help(parser: argparse.ArgumentParser, path: Path | None, overrides: list[str]) -> int:
    """Print the options, and every setting of the chosen agent with its default."""
    from train_RL_agents.agents import AGENTS
    from train_RL_agents.config_file import default_config, load_config
    from train_RL_agents.config_help import settings_help

    agent = load_config(path, overrides).agent_type
    width = min(max(shutil.get_terminal_size().columns, 60), 100)
    print(parser.format_help())
    print(f"settings, as key=value or in a file, here for {agent} (agents: {', '.join(AGENTS)}):\n")
    print(settings_help(default_config(agent), width))
    return 0
