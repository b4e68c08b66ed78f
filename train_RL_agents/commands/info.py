"""Show versions and devices, or the content of a run folder, a policy file or a configuration."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.commands.choosing import POLICY_HELP, require_policies
from train_RL_agents.run.finding import find_runs_below, resolve_path

if TYPE_CHECKING:
    from train_RL_agents.config.schema import TrainConfig


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav info`` to its parser."""
    kinds = f"{POLICY_HELP}, folder of runs, latest (the newest run) or configuration (FILE.json)"
    parser.add_argument("path", metavar="PATH", type=Path, nargs="?", help=kinds)


def check(arguments: argparse.Namespace) -> None:
    """Check that there is what is to be shown."""
    if arguments.path is not None:
        require_policies([str(arguments.path)], baselines=False)


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav info``, and return its exit status."""
    if arguments.path is None:
        print("\n".join(_machine_lines()))
        return 0
    from train_RL_agents.run.checkpoint import SHIPPED_POLICY_FILE, find_run

    path: Path = resolve_path(arguments.path)
    if path.suffix == ".json":
        from train_RL_agents.config.reading import load_config

        lines = [f"{path}: configuration", *_config_lines(load_config(path))]
    elif path.is_file() or (path / SHIPPED_POLICY_FILE).is_file():
        lines = _policy_lines(path)
    else:
        # Without any run, find_run raises the error for the path itself.
        folders = sorted(find_runs_below(path)) or [path]
        runs = [
            find_run(folder, "path", "a policy file, a run folder or a shipped policy's name") for folder in folders
        ]
        lines = [line for run in runs for line in _run_lines(run)]
    print("\n".join(lines))
    return 0


def _machine_lines() -> list[str]:
    """Return lines on this machine: versions of packages, devices, number of threads, and names of agents."""
    import torch

    from train_RL_agents.agents import AGENTS
    from train_RL_agents.utils.device import available_devices
    from train_RL_agents.utils.provenance import software_versions

    lines = [f"{name}: {version}" for name, version in software_versions().items()]
    for name in available_devices():
        title = f" ({torch.cuda.get_device_name(name)})" if name.startswith("cuda") else ""
        lines.append(f"device: {name}{title}")
    lines.append(f"threads: {torch.get_num_threads()}")
    return [*lines, *(f"agent: {name}" for name in AGENTS)]


def _config_lines(config: TrainConfig[Any]) -> list[str]:
    """Return lines on the boat of a configuration, unless it is the published vessel, and on its changed settings."""
    from marinenav_env.vessels import describe_vessel
    from train_RL_agents.config.reading import changed_settings

    boat = describe_vessel(config.world, config.training_schedule.levels)
    return [f"  {line}" for line in (*boat, *(f"{key}={text}" for key, text in changed_settings(config).items()))]


def _policy_lines(path: Path) -> list[str]:
    from train_RL_agents.run.checkpoint import load_policy

    loaded = load_policy(path)
    num_weights = sum(parameter.numel() for parameter in loaded.agent.networks.parameters())
    return [
        f"{loaded.path}: policy after {loaded.env_steps:,} env-steps, {num_weights:,} weights",
        *_config_lines(loaded.config),
        f"  {_metrics_line(loaded.metrics)}",
    ]


def _run_lines(path: Path) -> list[str]:
    from train_RL_agents.run.checkpoint import STATE_FILE, STOPPED_POLICY_FILE, read_manifest
    from train_RL_agents.run.run_folder import RunFolder

    folder = RunFolder.open(path)
    manifest = read_manifest(folder.checkpoints)
    entries = manifest["policies"]
    steps = max((entry["env_steps"] for entry in entries if entry["file"] != STOPPED_POLICY_FILE), default=0)
    state = "no training state yet"
    if (folder.checkpoints / STATE_FILE).exists():
        state = "can be resumed" if folder.config.is_resumable else "cannot be resumed (save_replay=false)"
    lines = [
        f"{folder.path}: run, seed {folder.seed}, evaluated up to {steps:,} of "
        f"{folder.config.total_timesteps:,} env-steps, {state}",
        *_config_lines(folder.config),
    ]
    for entry in entries:
        names = [name for name in ("latest", "best") if manifest[name] == entry["file"]]
        marks = f" ({', '.join(names)})" if names else ""
        lines.append(f"  {entry['file']}: {_metrics_line(entry['metrics'])}{marks}")
    return lines


def _metrics_line(metrics: dict[str, Any]) -> str:
    names = ("success_rate", "collision_rate", "grounding_rate", "timeout_rate", "avg_time", "avg_return")
    entries = [f"{name} {metrics[name]:.3f}" for name in names if metrics.get(name) is not None]
    return ", ".join([*entries, metrics["note"]] if "note" in metrics else entries)
