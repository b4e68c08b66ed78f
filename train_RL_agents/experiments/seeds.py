"""Preparation of the training runs of all seeds of one configuration, new or resumed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from marinenav_env.support.validation import require
from marinenav_env.vessels import describe_vessel
from train_RL_agents.agents import registered_agent_name
from train_RL_agents.config.overrides import Overrides, flatten_overrides
from train_RL_agents.config.reading import apply_overrides, load_config, read_file_settings
from train_RL_agents.experiments.memory_plan import check_memory_plan, summary_line
from train_RL_agents.experiments.profiles import SizedConfig, size_config
from train_RL_agents.experiments.run import Run, remove_if_refused
from train_RL_agents.run.checkpoint import STATE_FILE
from train_RL_agents.run.finding import CONFIG_FILE, LATEST, POLICY_PATTERN, resolve_path
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.run.resuming import RESUMABLE_SETTINGS
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.utils.progress import relative_to_cwd


def sized_config(path: Path | None, overrides: Overrides, profile: str = "auto", at_once: int = 1) -> SizedConfig:
    """Return a configuration with sizes, such as of batches, for its device, and a plan of the memory it needs."""
    config, ranks = load_config(path, overrides), Ranks()
    stated = {*read_file_settings(path), *flatten_overrides(overrides)}
    # Resolved now, because once the run has a folder, it is the newest run itself.
    newest: dict[str, Any] = {
        name: str(resolve_path(Path(value), POLICY_PATTERN))
        for name in ("load_model", "teacher")
        if Path(value := getattr(config, name)).name == LATEST
    }
    config = replace(config, **newest)
    is_shared = at_once == 1 or config.execution.device in ("auto", "cpu", "cuda")
    require(is_shared, "execution.device", config.execution.device, "auto, cpu or cuda with --jobs, which shares them")
    device = ranks.rank_device(config.execution.device)
    local = sized = size_config(config, profile, stated, device)
    if ranks.size > 1:  # memory is planned for the share of a process
        local = size_config(ranks.rank_config(sized.config), "none", stated, device)
    check_memory_plan(local.memory_plan, local.config, min(at_once, len(config.seed)) * ranks.local_size)
    return sized._replace(memory_plan=local.memory_plan)


def _banner(folder: Path, agent: str, device: str, more: str, root: Path) -> list[str]:
    """Return the two lines that a run prints first: what runs on which device, and the command for TensorBoard."""
    watch = shlex.join(["tensorboard", "--logdir", str(relative_to_cwd(root))])
    return [f"{relative_to_cwd(folder)}: {agent} on {device}, {more}", f"curves: {watch}"]


def new_runs(
    path: Path | None,
    overrides: Overrides,
    profile: str = "auto",
    argv: Sequence[str] = (),
    at_once: int = 1,
    **options: Any,
) -> list[Run]:
    """Return a run of every seed in one new training folder; if one is refused, no folder is left behind."""
    ranks = Ranks()
    with ranks.barrier():
        sized = sized_config(path, overrides, profile, at_once)
    quiet = options.get("quiet") or options.get("json_lines") or not ranks.is_main
    config = sized.config

    def create() -> list[RunFolder]:
        """Make all folders at once, so that --resume finds the seeds that have not begun."""
        parent = RunFolder.make_parent(config)
        with remove_if_refused(parent):
            return [RunFolder.create(config, seed, argv, parent) for seed in config.seed]

    folders = ranks.broadcast_result(create)
    parent = folders[0].path.parent
    banner = _banner(parent, config.agent_type, str(sized.memory_plan.device), sized.description, parent.parent)
    boat = describe_vessel(config.world, config.training_schedule.levels)
    if not quiet:
        print(*banner, *boat, summary_line(sized.memory_plan), sep="\n", flush=True)
    for folder in folders:
        folder.writer.heading = banner
    first, *others = [Run(folder.path.name, folder, options) for folder in folders]
    return [replace(first, new_parent=parent), *others]


def resumed_runs(path: Path, overrides: Overrides, **options: Any) -> list[Run]:
    """Return a run, or every run of a training folder, in order to resume it."""
    ranks, settings = Ranks(), flatten_overrides(overrides)
    with ranks.barrier():
        paths = sorted(file.parent for file in path.glob(f"seed_*/{CONFIG_FILE}")) or [path]
        folders = [*map(RunFolder.open, paths)]
        for folder in folders:
            agent = folder.config.agent_type
            name = str(settings.get("agent_type", agent))
            allowed = f"left out, or {agent}: {folder.path} is a run of that agent"
            require(registered_agent_name(name) == agent, "agent_type", name, allowed)
            folder.config = apply_overrides(folder.config, overrides)
        for key, value in settings.items():
            require(key in (*RESUMABLE_SETTINGS, "agent_type"), key, value, "left as it is when a run is resumed")
        for folder in folders:
            device = str(ranks.rank_device(folder.config.execution.device))
            begins = "resumed" if (folder.checkpoints / STATE_FILE).exists() else "from the beginning"
            root = folder.path.parent.parent
            folder.writer.heading = _banner(folder.path, folder.config.agent_type, device, begins, root)
            if ranks.is_main and not (options.get("quiet") or options.get("json_lines")):
                print(*folder.writer.heading, sep="\n", flush=True)
    arguments = () if isinstance(overrides, Mapping) else overrides
    return [Run(folder.path.name, folder, options, arguments) for folder in folders]
