"""Measure all benchmark figures of a CUDA machine, in calls of less than eight minutes.

    python tools/gpu_figures.py --out figures           # repeat until no step is left
    python tools/gpu_figures.py --device cpu --tiny     # test of the script

Every step is a separate process with a time limit, so that a step that fails or hangs does not affect the others.
OUT/gpu_figures.json always has the results so far, also after a step was cut off. A call skips the steps that are
done, and resumes the training.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULT_NAME = "gpu_figures.json"
"""Name of the file with the results."""
MARINENAV_COMMAND = [sys.executable, "-m", "train_RL_agents"]
_MAX_OUTPUT_LENGTH = 4000
"""Number of characters at the end of a step's output that are kept."""
_MIN_REMAINING_TIME = 5.0
"""Smallest time left until the limit ``--minutes`` of this call at which a further step is started (s)."""

SIZE_OPTIONS = {
    "world": ["--envs", "16384"],
    "collect": ["--envs", "4096"],
    "update": ["--batch", "256", "1024", "8192"],
    "growth": ["--envs", "256", "1024", "4096", "16384", "--replay", "10000", "100000", "1000000"],
    "loop": [],
}
"""Options of ``marinenav bench`` by the part that is measured."""
TINY_SIZE_OPTIONS = {
    "world": ["--envs", "4"],
    "collect": ["--envs", "4"],
    "update": ["--batch", "4", "8"],
    "growth": ["--envs", "2", "4", "--replay", "100", "1000"],
    "loop": ["trainer.train_freq=8"],
}
"""The same options for a test of this script."""
_TINY_BENCH_OPTIONS = [
    "--seconds",
    "0.01",
    "--repeats",
    "1",
    "--modes",
    "eager",
    "captured",
    "--robots",
    "2",
    "--threads",
    "1",
    "trainer.num_envs=8",
    "trainer.buffer_size=2000",
]
"""Options of every benchmark in a test of this script."""
_TINY_TRAIN_SETTINGS = [
    "total_timesteps=400",
    "eval_freq=200",
    "trainer.num_envs=8",
    "execution.compile=false",
    "execution.threads=1",
    "trainer.buffer_size=2000",
    "trainer.learning_starts=16",
    "world.max_steps=8",
    "eval_schedule.num_episodes=[1,0,0,0,0,0]",
]
"""Settings of the training in a test of this script."""


@dataclass(frozen=True)
class Step:
    """Step of the measurement: a command that runs in a separate process."""

    name: str
    command: list[str]
    time_limit: float
    """Time limit (s)."""
    read_results: Callable[[], Any] = field(default=lambda: None)
    """Function that reads the results of the process."""
    may_stop: Callable[[], bool] = field(default=lambda: False)
    """Function that returns whether the process may be stopped; called every second."""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path(os.environ.get("OUT", "gpu_figures")), help="folder")
    add("--device", default="cuda")
    add("--minutes", type=float, default=7.7, help="time limit of this call")
    add("--success", type=float, default=0.79, help="success at which the training ends")
    add("--only", nargs="+", metavar="STEP", help="steps whose names start with one of these")
    add("--tiny", action="store_true", help="smallest sizes")
    add("--fill", action="store_true", help="only generate code, for all parts at once")
    return parser.parse_args(argv)


# Steps ------------------------------------------------------------------------------------------


def all_steps(args: argparse.Namespace) -> list[Step]:
    """Return all requested steps, the most important first: benchmarks of CUDA graphs first, the training last."""
    modes = ("compiled", "eager")
    *parts, growth = capture_steps(args)
    listed = [
        Step("cache", [sys.executable, __file__, "--fill", *_cache_arguments(args)], 300),
        *parts,
        *gpu_test_steps(),
        growth,
        *(bench_step(args, part, 150, modes) for part in ("world", "collect", "update")),
        training_step(args),
    ]
    prefixes = tuple(args.only or [""])
    return [step for step in listed if step.name.startswith(prefixes)]


def _cache_arguments(args: argparse.Namespace) -> list[str]:
    """Return the options of the step that fills the cache of generated code, which determine that code."""
    return ["--out", str(args.out / "cache"), "--device", args.device, *["--tiny"] * args.tiny]


def capture_steps(args: argparse.Namespace) -> list[Step]:
    """Return the steps that benchmark CUDA graphs; the benchmark ``growth`` comes last."""
    modes, kernel = ("captured",), "execution.kernel=triton"
    # The kernel exists only for GPUs.
    triton = [bench_step(args, part, 100, modes, kernel) for part in ("world", "collect") if args.device != "cpu"]
    return [
        bench_step(args, "world", 100, modes),
        bench_step(args, "collect", 100, modes),
        bench_step(args, "update", 150, modes),
        bench_step(args, "update", 90, modes, "trainer.precision=bf16"),
        bench_step(args, "loop", 80, modes),
        *triton,
        bench_step(args, "growth", 120, modes),
    ]


def fill_cache(args: argparse.Namespace) -> int:
    """Run all benchmarks of CUDA graphs at once for a short time, so that their generated code is in the cache.

    Returns:
        1 if a part failed, else 0.
    """
    args.out.mkdir(parents=True, exist_ok=True)
    shortest = [] if args.tiny else ["--seconds", "0.01", "--repeats", "1"]
    processes = [subprocess.Popen([*step.command, *shortest], cwd=ROOT) for step in capture_steps(args)]
    failed = [process for process in processes if process.wait() != 0]
    return int(len(failed) > 0)


def bench_step(args: argparse.Namespace, part: str, limit: float, modes: tuple[str, ...], *settings: str) -> Step:
    """Return a step that runs a part of ``marinenav bench`` in some modes with settings, and a time limit (s)."""
    name = " ".join((part, *modes, *settings))
    file = args.out / f"{name.replace(' ', '_')}.json"
    command = [*MARINENAV_COMMAND, "bench", "--parts", part, "--device", args.device, "--json", str(file)]
    command += (TINY_SIZE_OPTIONS if args.tiny else SIZE_OPTIONS)[part]
    command += _TINY_BENCH_OPTIONS if args.tiny else ["--modes", *modes]
    return Step(name, [*command, *settings], limit, lambda: _read_json(file))


def gpu_test_steps() -> list[Step]:
    """Return a step for every test file that has tests which need a GPU."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [str(file.relative_to(ROOT)) for file in files if "mark.gpu" in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu"]
    return [Step(name, [*command, name], 60) for name in names]


def training_step(args: argparse.Namespace) -> Step:
    """Return a step that trains until an evaluation reaches ``args.success``, resuming an earlier training."""
    runs = args.out / "runs"
    manifests = sorted(runs.glob("training_*/seed_*/checkpoints/manifest.json"))
    settings = _TINY_TRAIN_SETTINGS if args.tiny else ["eval_freq=100000", "log_freq=100000"]
    command = [*MARINENAV_COMMAND, "train", "--no-bar"]
    if manifests:
        command += ["--resume", str(manifests[-1].parents[1])]
    else:
        command += ["--device", args.device, f"save_dir={runs}", *settings]

    def is_successful() -> bool:
        return any(float(row["success_rate"] or 0.0) >= args.success for row in read_evaluations(runs))

    return Step("training", command, 3600.0, lambda: read_evaluations(runs), is_successful)


def read_evaluations(runs: Path) -> list[dict[str, str]]:
    """Return the evaluations of the training in a folder so far: ``env_steps``, ``train_time`` (s), ... as texts."""
    names = ("env_steps", "train_time", "wall_time", "success_rate")
    files = list(runs.glob("*/seed_*/evaluations.csv"))
    rows = csv.DictReader(files[0].read_text().splitlines()) if files else []
    return [{name: row[name] for name in names} for row in rows]


def _read_json(file: Path) -> Any:
    """Return the content of a JSON file, or None if it is missing."""
    return json.loads(file.read_text()) if file.is_file() else None


# Running the steps ------------------------------------------------------------------------------


def run_step(step: Step, seconds: float, log: Path) -> dict[str, Any]:
    """Run a step within a time limit.

    Args:
        step: step to run.
        seconds: time limit (s).
        log: file for the output.

    Returns:
        ``status`` ("ok", "failed ..." or "cut off"), ``seconds``, ``command``, ``printed`` (end of the output) and
        ``result`` (what Step.read_results returns).
    """
    began = time.monotonic()
    # With -m the working folder comes first in the path; PYTHONPATH may add packages.
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            step.command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = _wait(process, step, began + seconds)
        finally:
            _end_process(process)
    return {
        "status": status,
        "seconds": round(time.monotonic() - began, 1),
        "command": " ".join(step.command[1:]),
        "printed": log.read_text(errors="replace")[-_MAX_OUTPUT_LENGTH:],
        "result": step.read_results(),
    }


def _wait(process: subprocess.Popen[bytes], step: Step, deadline: float) -> str:
    """Wait until a process has ended or should be stopped, and return its status as text."""
    while True:
        try:
            status = process.wait(min(1.0, max(0.01, deadline - time.monotonic())))
            return "ok" if status == 0 else f"failed with status {status}"
        except subprocess.TimeoutExpired:
            if step.may_stop():
                return "ok, ended when it was enough"
            if time.monotonic() >= deadline:
                return "cut off"


def _end_process(process: subprocess.Popen[bytes]) -> None:
    """Terminate a process if it still runs, then kill it and the processes that it started."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20.0)
    # Other processes of its group, such as compilers, may still run.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(argv: list[str] | None = None) -> int:
    """Run the steps that are not done, and return 1 if a step failed, else 0."""
    args = parse_arguments(argv)
    if args.fill:
        return fill_cache(args)
    deadline = time.monotonic() + 60.0 * args.minutes
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    setting = {"device": args.device, "tiny": args.tiny}
    content: dict[str, Any] = _read_json(args.out / RESULT_NAME) or {**setting, "steps": {}}
    if {name: content[name] for name in setting} != setting:
        raise SystemExit(f"gpu_figures: error: {args.out} has figures of another --device or size")
    listed, results = all_steps(args), content["steps"]
    for step in listed:
        if results.get(step.name, {}).get("status", "").startswith("ok"):
            continue
        remaining = deadline - time.monotonic()
        if remaining < _MIN_REMAINING_TIME:
            results.setdefault(step.name, {"status": "no time left"})
            continue
        results[step.name] = result = run_step(step, min(step.time_limit, remaining), args.out / "log.txt")
        (args.out / RESULT_NAME).write_text(json.dumps(content, indent=2) + "\n")
        print(f"{step.name:<28} {result['status']} ({result['seconds']} s)", flush=True)
        if not result["status"].startswith("ok"):
            print(result["printed"][-1500:], flush=True)
    (args.out / RESULT_NAME).write_text(json.dumps(content, indent=2) + "\n")
    print(args.out / RESULT_NAME)
    return int(any(results[step.name]["status"].startswith("failed") for step in listed))


if __name__ == "__main__":
    # sys.exit lets run end the current step.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
