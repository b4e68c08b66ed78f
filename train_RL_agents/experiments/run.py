"""Starting runs and resuming them: sizes for the device, run folders, one trainer after another."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console

from marinenav_env.support.validation import ConfigError, require
from train_RL_agents import torchrl_trainer
from train_RL_agents.config.reading import agent_name, load_config, override, stated_keys
from train_RL_agents.config.resuming import RESUMABLE
from train_RL_agents.config.schema import TrainConfig, with_execution
from train_RL_agents.run.checkpoint import CHECKPOINTS, STATE
from train_RL_agents.run.finding import LATEST, POLICIES, resolve_path
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.run.run_folder import RunFolder, runs_in
from train_RL_agents.run.tracing import Trace
from train_RL_agents.sizing.plan import check, is_short, summary, table
from train_RL_agents.sizing.profiles import SizedConfig, planned
from train_RL_agents.torchrl_trainer import TorchRLTrainer
from train_RL_agents.utils.compiling import compile_problem, compiled_or_not, without_code
from train_RL_agents.utils.device import cpu_threads, release_memory
from train_RL_agents.utils.progress import relative
from train_RL_agents.utils.signals import first_signal
from train_RL_agents.utils.toolchain import cache_problem, compiler_problem

Run = tuple[RunFolder, Callable[[], TorchRLTrainer]]
"""A run folder, and what makes its trainer; memory is planned for one trainer at a time."""


def sized_config(path: Path | None, words: Sequence[str], profile: str = "auto", at_once: int = 1) -> SizedConfig:
    """Read a configuration and size it for its device, before there is a folder.

    Args:
        path: see load_config.
        words: settings as ``key=value``, laid over the file.
        profile: see sizing.profiles.apply_profile.
        at_once: runs that share the machine.

    Raises:
        ConfigError: when a setting cannot be used, the device is missing or the run will not fit.
    """
    config, stated, ranks = load_config(path, words), stated_keys(path, words), Ranks()
    # Found now: once the run has a folder, it is the newest itself.
    newest: dict[str, Any] = {
        name: str(resolve_path(Path(value), POLICIES))
        for name in ("load_model", "teacher")
        if Path(value := getattr(config, name)).name == LATEST
    }
    config = replace(config, **newest)
    fine = at_once == 1 or config.execution.device in ("auto", "cpu", "cuda")
    require(fine, "execution.device", config.execution.device, "auto, cpu or cuda with --jobs, which shares them out")
    device = ranks.device(config.execution.device)
    own = sized = planned(config, profile, stated, device)
    if ranks.size > 1:  # each process holds its share
        own = planned(ranks.share(sized.config), "none", stated, device)
    check(own.plan, own.config, min(at_once, len(config.seed)))
    return sized._replace(plan=own.plan)


def _headline(folder: Path, agent: str, device: str, more: str, root: Path) -> list[str]:
    """Return the first lines of a run; ``root`` is the folder that TensorBoard is to show."""
    watch = shlex.join(["tensorboard", "--logdir", str(relative(root))])
    return [f"{relative(folder)}: {agent} on {device}, {more}", f"curves: {watch}"]


def new_runs(
    path: Path | None,
    words: Sequence[str],
    profile: str = "auto",
    argv: Sequence[str] = (),
    at_once: int = 1,
    verbose: bool = False,
    **options: Any,
) -> list[Run]:
    """Runs of every seed in one training folder; a run that is refused leaves none behind.

    Args:
        path: see sized_config.
        words: likewise.
        profile: likewise.
        argv: the command, for the record.
        at_once: see sized_config.
        verbose: print what takes memory also where there is plenty.
        options: of TorchRLTrainer.

    Raises:
        ConfigError: see sized_config.
    """
    ranks = Ranks()
    with ranks.barrier():
        sized = sized_config(path, words, profile, at_once)
    quiet = options.get("quiet") or options.get("json_lines") or not ranks.is_main
    console = Console(quiet=quiet, highlight=False)
    log = partial(console.print, markup=False, soft_wrap=True)
    config = sized.config
    if ranks.size == at_once == 1:  # the same bits when resumed, whatever else runs then
        config = with_execution(config, threads=cpu_threads(config.execution.threads))

    def create() -> list[RunFolder]:
        """All at once, so that --resume finds the seeds whose turn had not come."""
        parent = RunFolder.make_parent(config)
        make = partial(RunFolder.create, config, argv=argv, parent=parent)
        return [_kept(partial(make, seed), parent) for seed in config.seed]

    folders = ranks.broadcast(create)
    parent = folders[0].path.parent
    device = str(sized.plan.device)
    heading = _headline(parent, config.agent_type, device, sized.chosen, parent.parent)
    for each in (*heading, summary(sized.plan)):
        log(each)
    if verbose or is_short(sized.plan):
        console.print(table(sized.plan))
    for folder in folders:
        folder.heading = heading
    first, *others = [(folder, partial(torchrl_trainer.TorchRLTrainer, folder, **options)) for folder in folders]
    return [(first[0], partial(_kept, first[1], parent)), *others]


def _without_code(config: TrainConfig[Any]) -> TrainConfig[Any]:
    """The configuration without generated code, which a Triton kernel is, too."""
    return with_execution(config, kernel="compiled", compile=False)


def _kept(make: Callable[[], Any], parent: Path) -> Any:
    """What is made in a new training folder, which goes where that is refused.

    It stays once a run has begun: a trainer is made again where there is no generated code.
    """
    try:
        return make()
    except (ConfigError, OSError):
        # What fails on one rank alone must not take the folder from those that go on.
        if Ranks().is_main and not any(parent.glob(f"seed_*/{CHECKPOINTS}/*")):
            shutil.rmtree(parent, ignore_errors=True)
        raise


def _check_agent(folder: RunFolder, words: Sequence[str]) -> None:
    """Refuse words that name another agent than a run's.

    Raises:
        ConfigError: when one does.
    """
    own = folder.config.agent_type
    for key, _, value in (word.partition("=") for word in words):
        fine = key != "agent_type" or agent_name(value) == own
        require(fine, key, value, f"left out, or {own}: {folder.path} is a run of that agent")


def resumed_runs(path: Path, words: Sequence[str], **options: Any) -> list[Run]:
    """A run, or every run of a training folder.

    Args:
        path: of the run, or of the folder.
        words: settings that change, as ``key=value``.
        options: of TorchRLTrainer.

    Raises:
        ConfigError: when there is none, or a setting must not change.
    """
    ranks = Ranks()
    with ranks.barrier():
        folders = [RunFolder.open(each) for each in runs_in(path)]
        for folder in folders:
            _check_agent(folder, words)
            folder.config = override(folder.config, words)
        for word in words:
            key, _, value = word.partition("=")
            fine = key in (*RESUMABLE, "agent_type")
            require(fine, key, value, "left as it is when a run is resumed")
        for folder in folders:
            device = str(ranks.device(folder.config.execution.device))
            begun = (folder.checkpoints / STATE).exists()
            folder.heading = _headline(
                folder.path,
                folder.config.agent_type,
                device,
                "resumed" if begun else "from the beginning",
                folder.path.parent.parent,
            )
            if ranks.is_main and not (options.get("quiet") or options.get("json_lines")):
                print(*folder.heading, sep="\n", flush=True)
    return [(folder, partial(torchrl_trainer.resume, folder, **options)) for folder in folders]


class RunResult(NamedTuple):
    """How the training of a run ended."""

    finished: bool
    """Whether it made all its env-steps."""
    stopped: bool
    """Whether it was asked to stop, perhaps in its last turn."""


def run_to_the_end(run: Run, trace: int = 0, quiet: bool = False) -> RunResult:
    """Train; compiled code is dropped afterwards, as the number of its variants is limited.

    Args:
        run: of new_runs or resumed_runs.
        trace: batches of the collector in a profiler's trace; 0: none.
        quiet: print nothing.
    """
    folder, make = run
    wanted, ranks, able = folder.config, Ranks(), True

    def attempt(compiled: bool) -> RunResult:
        folder.config = wanted if able and compiled else _without_code(wanted)
        asked: list[bool] = []
        saves = wanted.on_user_signal == "save"  # there is nothing to save yet
        with first_signal(lambda: asked.append(True), (lambda number: None) if saves else None):
            trainer = make()
        if asked:
            trainer.stop()  # at once, but for saving what there is
        if folder.config != wanted:
            # The next resume may have a compiler.
            folder.config = wanted
            with ranks.barrier():
                if ranks.is_main:
                    folder.write_config()
        return _train(trainer, trace, quiet)

    def log(line: str) -> None:
        folder.close()
        folder.heading = [line]
        if not quiet:
            print(line, flush=True)

    if ranks.size > 1 or wanted.trainer.collector != "local":
        # Processes wait for one another, so one of them cannot start again alone.
        problem = compiler_problem() or cache_problem() if wanted.execution.compile else ""
        able = not ranks.any(bool(problem))
        if not able:
            line = without_code(problem or "another process has no compiler")
            folder.heading.append(line)
            if ranks.is_main and not quiet:
                print(line, flush=True)
    if ranks.size == 1:
        ending = compiled_or_not(attempt, log)
    else:
        try:
            ending = attempt(True)
        except Exception as error:
            problem = compile_problem(error)
            if not problem:
                raise
            raise ConfigError(
                f"{problem}; then go on with --resume, or start with execution.compile=false (process {ranks.rank})"
            ) from error
    torch.compiler.reset()
    release_memory()
    return ending


def _train(trainer: TorchRLTrainer, trace: int, quiet: bool) -> RunResult:
    """Train, with a trace if that is wanted."""
    tracing = Trace(trainer.run.path, trace, trainer.device) if trace else None
    if tracing is not None:
        trainer.callbacks.append(tracing)
    trainer.train()
    if tracing is not None:
        tracing.finish()
        if not quiet:
            none = "no trace: the run has too few updates"
            print(f"trace: {tracing.path}" if tracing.path else none)
    return RunResult(trainer.finished, trainer.stopped)
