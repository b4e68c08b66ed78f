"""The folder of a run: configuration, versions, evaluations, checkpoints."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from marinenav_env.support.files import read_text
from marinenav_env.support.validation import ConfigError, require
from train_RL_agents.agents import Agent
from train_RL_agents.config.building import require_compatible_teacher
from train_RL_agents.config.reading import restore_config, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.checkpoint import (
    CHECKPOINTS_FOLDER,
    NOT_EVALUATED_NOTE,
    STATE_FILE,
    STOPPED_POLICY_FILE,
    TEACHER_FILE,
    find_run,
    load_policy,
    read_manifest,
    restart_hint,
    save_policy,
)
from train_RL_agents.run.finding import CONFIG_FILE, MANIFEST_FILE, VERSIONS_FILE
from train_RL_agents.run.run_writer import RunWriter
from train_RL_agents.run.tags import top_scalars
from train_RL_agents.utils.files import make_folder, read_json, write_atomically
from train_RL_agents.utils.provenance import git_revision, software_versions
from train_RL_agents.utils.table import Table


class RunFolder:
    """The folder of one run, SAVE_DIR/AGENT_TIME/seed_N."""

    def __init__(self, path: Path, config: TrainConfig[Any], seed: int) -> None:
        self.path, self.seed = path, seed
        self.checkpoints = path / CHECKPOINTS_FOLDER
        self.writer = RunWriter(path, config)

    @property
    def config(self) -> TrainConfig[Any]:
        """Return the configuration of the run."""
        return self.writer.config

    @config.setter
    def config(self, config: TrainConfig[Any]) -> None:
        self.writer.config = config

    @staticmethod
    def make_parent(config: TrainConfig[Any]) -> Path:
        """Make a new training folder, named after agent and time, for the runs of one command."""
        agent = re.sub(r"[^\w.-]", "_", config.agent_type.rpartition(":")[2])
        name = f"{agent}_{time.strftime('%Y-%m-%d-%H-%M-%S')}"
        named = path = Path(config.save_dir) / name
        make_folder(named.parent)
        for count in itertools.count(2):
            # Trying to make it is atomic: another command may start within the same second.
            with suppress(FileExistsError):
                path.mkdir(parents=True)
                break
            path = named.with_name(f"{named.name}_{count}")
        return path

    @classmethod
    def create(
        cls, config: TrainConfig[Any], seed: int, argv: Sequence[str] = (), parent: Path | None = None
    ) -> RunFolder:
        """Make the folder of a new run, which may go on from another working directory."""
        schedule = config.training_schedule
        if schedule.scenarios:
            schedule = replace(schedule, scenarios=str(Path(schedule.scenarios).absolute()))
        if config.load_model:
            load_policy(config.load_model)  # checked once here, before the process of every seed would refuse it
        teacher = b""
        if config.teacher:
            loaded = load_policy(config.teacher)
            require_compatible_teacher(config, loaded.config, config.teacher)
            teacher = loaded.path.read_bytes()
        parent = parent or cls.make_parent(config)
        path = parent / f"seed_{seed}"
        require(not path.exists(), "run folder", str(path), "new; use --resume to go on with it")
        run = cls(path, replace(config, seed=(seed,), training_schedule=schedule), seed)
        run.checkpoints.mkdir(parents=True)
        if teacher:
            run._write(TEACHER_FILE, teacher)
        run.write_config()
        commit, patch = git_revision()
        run._write_json(VERSIONS_FILE, software_versions() | {"git revision": commit, "time": time.time()})
        run._write("git_diff.patch", patch)
        run._write("command.txt", shlex.join(argv or sys.argv) + "\n")
        return run

    @classmethod
    def open(cls, path: Path | str) -> RunFolder:
        """Return the run of a folder that create made, or the only run inside a training folder."""
        folder = find_run(Path(path))
        path = folder / CONFIG_FILE
        config = restore_config(read_json(path), str(path))
        return cls(folder, config, config.seed[0])

    def _write(self, name: str, content: str | bytes) -> None:
        write_atomically(self.path / name, content, replace_input=True)

    def _write_json(self, name: str, content: Any) -> None:
        self._write(name, json.dumps(content, indent=2, allow_nan=False) + "\n")

    def write_config(self) -> None:
        """Write the configuration for open to read."""
        self._write_json(CONFIG_FILE, to_dict(self.config))

    def start(self) -> None:
        """Make a missing folder of checkpoints before the first step, and refuse a run whose state is gone."""
        state = self.checkpoints / STATE_FILE
        if len(read_evaluations(self.path)) > 1:  # after each evaluation a state is saved
            raise ConfigError(f"{state}: missing, so that the run cannot go on{restart_hint(self.path)}")
        make_folder(self.checkpoints)

    def write_scenarios(self, text: str) -> None:
        """Write the scenarios of the run's evaluations, as the text of a scenario file."""
        self._write("eval_configs.json", text)

    def write_evaluations(self, rows: list[dict[str, Any]], arrays: dict[str, Any]) -> None:
        """Write the results of all evaluations so far to evaluations.csv and evaluations.npz."""
        # Rows of a resumed run may lack metrics that a later version added.
        self._write("evaluations.csv", Table.from_rows(rows).csv())
        file = io.BytesIO()
        np.savez(file, **arrays)
        self._write("evaluations.npz", file.getvalue())

    def add_policy(self, name: str, env_steps: int, metrics: dict[str, Any]) -> bool:
        """Add a policy to the manifest as the latest, and return whether it is the best so far."""
        manifest = read_manifest(self.checkpoints)
        entry = {"file": name, "env_steps": env_steps, "metrics": metrics}
        # A resumed run repeats what came after its checkpoint.
        kept = [
            old for old in manifest["policies"] if old["env_steps"] < env_steps and old["file"] != STOPPED_POLICY_FILE
        ]
        best = best_policy([*kept, entry])
        content = {"time": time.time(), "latest": name, "best": best["file"], "policies": [*kept, entry]}
        self._write_json(f"{self.checkpoints.name}/{MANIFEST_FILE}", content)
        if name != STOPPED_POLICY_FILE:
            (self.checkpoints / STOPPED_POLICY_FILE).unlink(missing_ok=True)
        return best is entry

    def save_stopped_policy(self, agent: Agent[Any], env_steps: int) -> None:
        """Save the policy of a run that stops, unless a policy of the same env-steps is already saved."""
        saved = [entry["env_steps"] for entry in read_manifest(self.checkpoints)["policies"]]
        if env_steps not in saved:
            metrics = {"note": NOT_EVALUATED_NOTE}
            save_policy(self.checkpoints / STOPPED_POLICY_FILE, agent, self.config, env_steps, metrics)
            self.add_policy(STOPPED_POLICY_FILE, env_steps, metrics)


def read_evaluations(folder: Path) -> list[dict[str, float]]:
    """Return ``env_steps``, ``train_time`` and ``wall_time`` (s) of each evaluation of a run, 0 if they are missing."""
    table = folder / "evaluations.csv"
    if not table.is_file():
        return []
    names = ("env_steps", "train_time", "wall_time")
    try:
        rows = csv.DictReader(read_text(table, "a table of evaluations").splitlines())
        return [{name: float(row.get(name) or 0.0) for name in names} for row in rows]
    except (csv.Error, TypeError, ValueError) as error:
        raise ConfigError(f"{table}: damaged, or not a table of evaluations ({error})") from error


def best_policy(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the entry of the best policy among the entries of a manifest, which must not be empty.

    Policies whose success rate is below the highest by at most its standard error or one episode (the larger) count as
    equal, because the highest of many success rates over few episodes is mostly luck (the one-standard-error rule,
    Breiman et al. 1984). The best of them has the fewest collisions, then the highest return.
    """

    def metric(entry: dict[str, Any], name: str) -> float:
        # If the weights are not finite, the evaluation has no return.
        value = entry["metrics"].get(name)
        return -math.inf if value is None else float(value)

    def success(entry: dict[str, Any]) -> float:
        return metric(entry, "success_rate")

    highest = max(entries, key=success)
    top, episodes = success(highest), highest["metrics"].get("episodes")
    error = max(math.sqrt(top * (1.0 - top) / episodes), 1.0 / episodes) if episodes and top >= 0.0 else 0.0
    # Lowered slightly, so that rounding of the rates excludes no policy; one without any success is no equal.
    bound = max(top - error, min(top, 1e-6)) - 1e-9
    near = [entry for entry in entries if not success(entry) < bound]
    return max(
        near,
        key=lambda entry: (
            -(entry["metrics"].get("collision_rate") or 0.0),
            metric(entry, "avg_return"),
            success(entry),
        ),
    )


def record_policy(
    run: RunFolder, agent: Agent[Any], env_steps: int, metrics: dict[str, Any], scalars: dict[str, Any]
) -> bool:
    """Log an evaluation, save its policy, and return whether it is the best so far."""
    run.writer.log(
        {f"eval/{name}": value for name, value in scalars.items()} | top_scalars("Result", metrics), env_steps
    )
    name = f"policy_{env_steps:012d}.pt"
    save_policy(run.checkpoints / name, agent, run.config, env_steps, metrics)
    return run.add_policy(name, env_steps, metrics)
