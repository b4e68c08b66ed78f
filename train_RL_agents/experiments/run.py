"""Training of one run in this process, from its run folder to its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from marinenav_env.runtime.kept_code import keep_code_in
from marinenav_env.support.validation import ConfigError, replace_settings
from train_RL_agents import torchrl_trainer
from train_RL_agents.experiments.parallel_compilation import compiling_at_once
from train_RL_agents.run.checkpoint import CHECKPOINTS_FOLDER
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.torchrl_trainer import TorchRLTrainer
from train_RL_agents.utils.compiling import call_with_compile_fallback, compile_problem, not_compiled_message
from train_RL_agents.utils.device import release_memory
from train_RL_agents.utils.signals import call_on_first_signal
from train_RL_agents.utils.toolchain import cache_folder, cache_problem, compiler_problem


class RunResult(NamedTuple):
    """State of a run when its training ended in this process."""

    finished: bool
    """True if the run made all its env-steps."""
    stopped: bool
    """True if the run was asked to stop, perhaps in its last iteration."""


@dataclass(frozen=True)
class Run:
    """A run to train; its folder has the configuration and the seed."""

    name: str
    folder: RunFolder
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of TorchRLTrainer, used if this process trains the run."""
    overrides: Sequence[str] = ()
    """Overrides of the settings in the folder, as ``key=value``; used if another process trains the run."""
    new_parent: Path | None = None
    """New training folder, which is removed if the run is refused before any run in it has begun; None if not new."""


def run_to_the_end(run: Run) -> RunResult:
    """Train a run in this process to its end; then drop compiled code, of which torch keeps a limited number."""
    folder, ranks, quiet = run.folder, Ranks(), run.options.get("quiet", False)
    execution, able = folder.config.execution, True

    def attempt(compiled: bool) -> RunResult:
        compiled = able and compiled
        if not compiled:
            folder.config = replace_settings(folder.config, {"execution.compile": False})
        trainer = _make_trainer(run)
        if not compiled:
            # The next resume may have a compiler.
            folder.config = replace_settings(folder.config, {"execution.compile": execution.compile})
            with ranks.barrier():
                if ranks.is_main:
                    folder.write_config()
        keep = partial(keep_code_in, cache_folder() / "marinenav", "marinenav_env", "train_RL_agents")
        with compiling_at_once(trainer, keep):
            trainer.train()
        return RunResult(trainer.finished, trainer.stopped)

    def log(line: str) -> None:
        folder.writer.close()
        folder.writer.heading = [line]
        if not quiet:
            print(line, flush=True)

    if ranks.size > 1 or folder.config.trainer.collector != "local":
        # Processes wait for one another, so one of them cannot start again alone.
        problem = compiler_problem() or cache_problem() if execution.compile else ""
        able = not ranks.any_rank(bool(problem))
        if not able:
            line = not_compiled_message(problem or "another process has no compiler")
            folder.writer.heading.append(line)
            if ranks.is_main and not quiet:
                print(line, flush=True)
    if ranks.size == 1:
        result = call_with_compile_fallback(attempt, log)
    else:
        try:
            result = attempt(True)
        except Exception as error:
            problem = compile_problem(error)
            if not problem:
                raise
            raise ConfigError(
                f"{problem}; then go on with --resume, or start with execution.compile=false (process {ranks.rank})"
            ) from error
    torch.compiler.reset()
    release_memory()
    return result


def _make_trainer(run: Run) -> TorchRLTrainer:
    """Return the trainer of a run, which stops at once if a signal asked to stop while it was made."""
    requests: list[bool] = []
    saves = run.folder.config.on_user_signal == "save"  # there is nothing to save yet
    on_user_signal = (lambda number: None) if saves else None
    with call_on_first_signal(lambda: requests.append(True), on_user_signal), remove_if_refused(run.new_parent):
        trainer = torchrl_trainer.resume(run.folder, **run.options)
    if requests:
        trainer.stop()  # it stops at once, after saving its state
    return trainer


@contextmanager
def remove_if_refused(parent: Path | None) -> Iterator[None]:
    """Remove a new training folder if this context raises an error before a run in it has begun."""
    try:
        yield
    except (ConfigError, OSError):
        remove_if_not_begun(parent)
        raise


def remove_if_not_begun(parent: Path | None) -> None:
    """Remove a new training folder if no run in it has begun; do nothing if the folder is None."""
    # A failure on one rank alone must not remove the folder of the ranks that continue.
    if parent and Ranks().is_main and not any(parent.glob(f"seed_*/{CHECKPOINTS_FOLDER}/*")):
        shutil.rmtree(parent, ignore_errors=True)
