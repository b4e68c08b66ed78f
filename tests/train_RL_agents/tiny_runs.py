"""Runs of a few hundred env-steps, ways to interrupt them and to compare what they leave; refused command lines."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensordict import TensorDictBase

from marinenav_env import Curriculum
from train_RL_agents.agents import AGENTS
from train_RL_agents.commands.cli import main
from train_RL_agents.config.reading import from_dict
from train_RL_agents.config.schema import TrainingSchedule
from train_RL_agents.learning.collectors import StepCollector
from train_RL_agents.run.checkpoint import POLICY_FORMAT, STATE_FILE, TRAINING_FORMAT, read_checkpoint, read_manifest
from train_RL_agents.run.run_folder import RunFolder
from train_RL_agents.run.run_writer import LOCK_FILE, LOG_FILE
from train_RL_agents.torchrl_trainer import TorchRLTrainer, resume

CPU = torch.device("cpu")
ROOT = Path(__file__).parents[2]
LEVELS = {
    "levels": [
        {"num_robots": 2, "num_cores": 0, "num_obstacles": 1, "min_start_goal_dis": 10.0},
        {"num_robots": 3, "num_cores": 1, "num_obstacles": 0, "min_start_goal_dis": 12.0},
    ]
}
TINY: dict[str, Any] = {
    "agent_type": "DQN",
    "total_timesteps": 160,
    "eval_freq": 80,
    "log_freq": 40,
    "execution": {"device": "cpu", "threads": 1, "compile": False},
    "trainer": {
        "num_envs": 8,
        "batch_size": 8,
        "buffer_size": 150,
        "learning_starts": 16,
        "train_freq": 8,
        "n_steps": 1,
    },
    # Short episodes and wide goals: robots arrive, collide and run out of time.
    "world": {
        "max_steps": 8,
        "dt": 0.25,
        "substeps": 2,
        "vessel": {"goal_distance": 13.0},
        "scenario": {"width": 25.0, "height": 25.0, "clear_r": 5.0},
    },
    "training_schedule": LEVELS,
    "eval_schedule": {**LEVELS, "num_episodes": [2, 1]},
}
"""20 vector steps; the buffer is written over, and both evaluations fall on a log entry."""
ROLLOUTS: dict[str, Any] = {"num_envs": 8, "rollout_steps": 2, "epochs": 2, "batch_size": 8}
"""The section ``trainer`` for on-policy agents: 10 rollouts."""
SMALL = {
    "agent_type": "DQN",
    "agent.critics": 1,
    "execution.device": "cpu",
    "world.max_steps": 3,
    "eval_schedule.num_episodes": [2] * 6,
}
"""Settings of a policy that is only looked at."""
TIMES = ("train_time", "wall_time")


@contextmanager
def programs(*module: str, end: Callable[[Any], None], **options: Any) -> Iterator[Callable[..., Any]]:
    """Starts ``python -m MODULE ...`` with arguments, any number of times, and leaves none behind.

    Args:
        module: its name, and arguments before those of a call.
        end: ends what still runs.
        options: further ones of subprocess.Popen.
    """
    started = []

    def begin(*arguments: str) -> Any:
        process = subprocess.Popen(
            [sys.executable, "-m", *module, *arguments],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            **options,
        )
        started.append(process)
        return process

    try:
        yield begin
    finally:
        for process in started:
            end(process)
            process.communicate()


@contextmanager
def small_pool(refresh_interval: int = 5, pool_size: int = 32) -> Iterator[None]:
    """Within it, training scenarios come from a small pool that is refreshed often."""
    usual, threads = TrainingSchedule.curriculum, torch.get_num_threads()

    def curriculum(schedule: TrainingSchedule) -> Curriculum:
        return replace(usual(schedule), pool_size=pool_size, refresh_size=8, refresh_interval=refresh_interval)

    with patch.object(TrainingSchedule, "curriculum", curriculum):
        yield
    torch.set_num_threads(threads)


@contextmanager
def usual_signals() -> Iterator[None]:
    """Within it, Ctrl-C raises also where it is ignored, and a SIGTERM does not end the tests."""

    def terminate(*arguments: Any) -> None:
        raise RuntimeError("SIGTERM had no effect")

    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: terminate}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def tiny_settings(agent: str) -> dict[str, Any]:
    """TINY for an agent of any kind."""
    own = {"trainer": ROLLOUTS} if AGENTS[agent].algorithm == "on-policy" else {}
    return TINY | {"agent_type": agent} | own


def new_run(parent: Path, *overrides: str, seed: int = 0) -> RunFolder:
    """A run of TINY, or of the same for the agent that ``agent_type=NAME`` names."""
    words = dict(word.partition("=")[::2] for word in overrides)
    settings = tiny_settings(words.get("agent_type", TINY["agent_type"]))
    return RunFolder.create(from_dict(settings, overrides), seed, ["marinenav"], parent)


def trainer_of(parent: Path, *overrides: str) -> TorchRLTrainer:
    """A trainer that starts a new run."""
    return TorchRLTrainer(new_run(parent, *overrides), quiet=True)


def begin(run: RunFolder) -> TorchRLTrainer:
    """A trainer that starts a run, or goes on from its checkpoint."""
    return (resume if (run.checkpoints / STATE_FILE).exists() else TorchRLTrainer)(run, quiet=True)


def begin_in_graphs(run: RunFolder) -> TorchRLTrainer:
    """A trainer whose steps come from the graph collector, captured only on a GPU."""
    initialize = StepCollector.__init__

    def init(self: StepCollector, *args: Any) -> None:
        initialize(self, *args)
        self.uses_cuda_graphs = True

    with patch.object(StepCollector, "__init__", init):
        return TorchRLTrainer(run, quiet=True)


def train(run: RunFolder, stop_at: int | None = None) -> TorchRLTrainer:
    """Train, or go on; with ``stop_at``, up to a SIGTERM at so many env-steps."""
    trainer = begin(run)
    if stop_at is not None:
        at(trainer, stop_at, lambda: signal.raise_signal(signal.SIGTERM))
    with usual_signals():
        trainer.train()
    return trainer


def at(trainer: TorchRLTrainer, env_steps: int, act: Callable[[], None]) -> None:
    """Act once, in the middle of the batch that ends at so many env-steps."""
    add_steps = trainer.algorithm.add_steps

    def hooked(steps: TensorDictBase) -> None:
        if trainer.env_steps == env_steps:
            act()
        add_steps(steps)

    trainer.algorithm.add_steps = hooked  # type: ignore[method-assign]


# What a run leaves ------------------------------------------------------------------------------


def saved(run: RunFolder) -> dict[str, Any]:
    """The training state on disk, but for wall times."""
    return without_times(read_checkpoint(run.checkpoints / STATE_FILE, TRAINING_FORMAT, CPU))


def without_times(state: dict[str, Any]) -> dict[str, Any]:
    rows = [{key: value for key, value in row.items() if key not in TIMES} for row in state["rows"]]
    return {key: value for key, value in state.items() if key != "clock"} | {"rows": rows}


def evaluations(run: RunFolder) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO((run.path / "evaluations.csv").read_text())))


def arrays(run: RunFolder) -> dict[str, np.ndarray]:
    with np.load(run.path / "evaluations.npz") as file:
        return dict(file)


def scalars(run: RunFolder) -> dict[str, list[tuple[int, float]]]:
    """TensorBoard's scalars: step and value by tag."""
    with TemporaryDirectory() as folder:
        # Files are read in the order of their names, which for runs that one process resumes
        # within a second end in 8, 9, 10, ...
        written = sorted(run.path.glob("events*"), key=_written_at)
        for number, file in enumerate(written):
            (Path(folder) / f"events.out.tfevents.{number:03}").write_bytes(file.read_bytes())
        events = EventAccumulator(folder, size_guidance={"scalars": 0}).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def strict(path: Path) -> Any:
    """JSON without NaN and infinities."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{path}: {name}")

    return json.loads(path.read_text(), parse_constant=refuse)


def _written_at(file: Path) -> list[int]:
    """Second, process and count in the name of an event file."""
    return [int(part) for part in file.name.split(".") if part.isdecimal()]


def results(run: RunFolder) -> dict[str, Any]:
    """Everything that two equal runs must have in common, wall times left out."""
    rows = [{key: value for key, value in row.items() if key not in TIMES} for row in evaluations(run)]
    logged = {
        tag: values
        for tag, values in scalars(run).items()
        if not tag.startswith(("time/", "charts/", "system/", "gpu/"))
    }
    policies = {file.name: read_checkpoint(file, POLICY_FORMAT, CPU) for file in run.checkpoints.glob("policy_*.pt")}
    return {
        "state": saved(run),
        "policies": policies,
        "manifest": read_manifest(run.checkpoints) | {"time": None},
        "evaluations": rows,
        "arrays": arrays(run),
        "scalars": logged,
        "scenarios": (run.path / "eval_configs.json").read_text(),
    }


def differences(one: Any, other: Any, name: str = "") -> list[str]:
    """Where two nested structures are not the same, bit for bit."""
    if isinstance(one, dict) and isinstance(other, dict):
        lacking = [f"{name}.{key}" for key in one.keys() ^ other.keys()]
        pairs = [(one[key], other[key], f"{name}.{key}") for key in one.keys() & other.keys()]
    elif isinstance(one, list) and isinstance(other, list):
        lacking = [f"{name}.length"] * (len(one) != len(other))
        pairs = [(*each, f"{name}.{i}") for i, each in enumerate(zip(one, other, strict=False))]
    else:
        return [] if same(one, other) else [name]
    return lacking + [found for pair in pairs for found in differences(*pair)]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor | np.ndarray) and type(one) is type(other):
        one, other = np.asarray(one), np.asarray(other)
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return type(one) is type(other) and one == other


def files(path: Path) -> dict[str, bytes]:
    """The content of every file below a folder, but for who wrote a run when."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name not in (LOCK_FILE, LOG_FILE)
    }


# Processes of their own -------------------------------------------------------------------------


def train_apart(folder: Path, stop_at: int | None) -> None:
    """Train, or go on, in a process of its own; see train."""
    with small_pool():
        train(RunFolder.open(folder), stop_at)


def only_run(tmp_path: Path) -> RunFolder:
    """The run that a command made."""
    (path,) = tmp_path.glob("runs/*/seed_*")
    return RunFolder.open(path)


def wait_for_state(process: Any, tmp_path: Path) -> None:
    """Wait until the run of a command has a checkpoint."""
    until = time.monotonic() + 90.0
    while not list(tmp_path.glob(f"runs/*/seed_0/checkpoints/{STATE_FILE}")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def no_temporaries(run: RunFolder) -> bool:
    """Whether no half-written file is left in a run's folder."""
    return not list(run.path.rglob(".*"))


# Command lines ----------------------------------------------------------------------------------


def refused(capsys, *argv):
    """The sentence that a command line is refused with."""
    assert main(argv) == 2
    output = capsys.readouterr()
    assert output.out == ""
    lines = output.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("marinenav: error: ")
    return lines[0].removeprefix("marinenav: error: ")
