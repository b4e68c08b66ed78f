"""Take all figures of a CUDA machine in one run of under eight minutes.

    python tools/gpu_figures.py --out figures           # or into $OUT
    python tools/gpu_figures.py --device cpu --tiny     # tries the script itself

Every step is a process of its own with a time limit, so that one that fails or hangs does not lose
the others. What is known so far is always in OUT/gpu_figures.json, also after a step was cut off.
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
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
RESULT = "gpu_figures.json"
MARINENAV = [sys.executable, "-m", "train_RL_agents"]
_TAIL = 4000
"""Characters kept of what a step printed."""
_SPARE = 5.0
"""Seconds below which no step is started."""

SIZES = {
    "world": ["--envs", "16384"],
    "collect": ["--envs", "4096"],
    "update": ["--batch", "256", "1024", "8192"],
    "growth": ["--envs", "256", "1024", "4096", "16384", "--replay", "10000", "100000", "1000000"],
    "loop": [],
}
TINY = {
    "world": ["--envs", "4"],
    "collect": ["--envs", "4"],
    "update": ["--batch", "4", "8"],
    "growth": ["--envs", "2", "4", "--replay", "100", "1000"],
    "loop": ["trainer.train_freq=8"],
}
_TINY_BENCH = ["--seconds", "0.01", "--repeats", "1", "--modes", "eager", "captured",
               "--robots", "2", "--threads", "1", "trainer.num_envs=8",
               "trainer.buffer_size=2000"]  # fmt: skip
_TINY_TRAIN = ["total_timesteps=400", "eval_freq=200", "trainer.num_envs=8", "compile=false",
               "threads=1",
               "trainer.buffer_size=2000", "trainer.learning_starts=16", "world.max_steps=8",
               "eval_schedule.num_episodes=[1,0,0,0,0,0]"]  # fmt: skip


@dataclass(frozen=True)
class Step:
    """One process."""

    name: str
    command: list[str]
    limit: float
    """Seconds it may take."""
    read: Callable[[], Any] = field(default=lambda: None)
    """What it left behind."""
    enough: Callable[[], bool] = field(default=lambda: False)
    """Whether it may be ended, asked every second."""


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--out", type=Path, default=Path(os.environ.get("OUT", "gpu_figures")), help="folder")
    add("--device", default="cuda")
    add("--minutes", type=float, default=7.7, help="for everything")
    add("--success", type=float, default=0.79, help="success at which the training ends")
    add("--only", nargs="+", metavar="STEP", help="these steps alone")
    add("--tiny", action="store_true", help="smallest sizes")
    return parser.parse_args(argv)


# Steps ------------------------------------------------------------------------------------------


def steps(args: argparse.Namespace, work: Path) -> list[Step]:
    """All steps, the most wanted first.

    Args:
        args: of the command line.
        work: folder for what they leave behind.
    """
    found = [
        bench(args, work, "world", 100),
        bench(args, work, "collect", 100),
        bench(args, work, "update", 150),
        Step("tests", [sys.executable, "-m", "pytest", "-q", "-m", "gpu"], 90),
        bench(args, work, "growth", 120, "compiled", "captured"),
        bench(args, work, "loop", 80, "compiled", "captured"),
    ]
    switch = bf16_switch()
    if switch:
        found.insert(4, bench(args, work, "update", 90, "compiled", "captured", switch=switch))
    found.append(training(args, work))
    return [step for step in found if args.only is None or step.name in args.only]


def bench(
    args: argparse.Namespace, work: Path, part: str, limit: float, *modes: str, switch: str = ""
) -> Step:
    """One part of ``marinenav bench``; with a switch, under another name."""
    name = f"{part}_bf16" if switch else part
    file = work / f"{name}.json"
    command = [*MARINENAV, "bench", "--parts", part, "--device", args.device, "--json", str(file)]
    command += (TINY if args.tiny else SIZES)[part]
    command += _TINY_BENCH if args.tiny else ["--modes", *modes] if modes else []
    return Step(name, [*command, *([switch] if switch else [])], limit, lambda: _json(file))


def bf16_switch() -> str:
    """The setting that has updates computed in bfloat16, as key=value; empty if there is none."""
    from train_RL_agents.config.reading import default_config, settings_of

    for setting in settings_of(default_config("AC-IQN")):
        options = get_args(setting.annotation) if get_origin(setting.annotation) is Literal else ()
        for option in options:
            if str(option) in ("bf16", "bfloat16"):
                return f"{setting.key}={option}"
        if setting.annotation is bool and setting.key.endswith("bf16"):
            return f"{setting.key}=true"
    return ""


def training(args: argparse.Namespace, work: Path) -> Step:
    """Training until an evaluation reaches the wanted success, or as long as there is time."""
    runs = work / "runs"
    settings = _TINY_TRAIN if args.tiny else ["eval_freq=100000", "log_freq=100000"]
    command = [*MARINENAV, "train", "--device", args.device, "--no-bar", f"save_dir={runs}",
               "save_replay=false", *settings]  # fmt: skip

    def enough() -> bool:
        return any(float(row["success_rate"] or 0.0) >= args.success for row in evaluations(runs))

    return Step("training", command, 3600.0, lambda: evaluations(runs), enough)


def evaluations(runs: Path) -> list[dict[str, str]]:
    """Env-steps, times (s) and success of the evaluations so far."""
    names = ("env_steps", "train_time", "wall_time", "success_rate")
    files = list(runs.glob("*/seed_*/evaluations.csv"))
    rows = csv.DictReader(files[0].read_text().splitlines()) if files else []
    return [{name: row[name] for name in names} for row in rows]


def _json(file: Path) -> Any:
    return json.loads(file.read_text()) if file.is_file() else None


# Running them -----------------------------------------------------------------------------------


def run(step: Step, seconds: float, log: Path) -> dict[str, Any]:
    """Run a step for no longer than so many seconds.

    Returns:
        How it ended, its seconds, the end of what it printed, and what it left behind.
    """
    began = time.monotonic()
    # The working folder is found first by -m; PYTHONPATH may lead to packages brought along.
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with log.open("w") as output:
        process = subprocess.Popen(
            step.command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
            stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            status = _wait(process, step, began + seconds)
        finally:
            _end(process)
    return {
        "status": status,
        "seconds": round(time.monotonic() - began, 1),
        "command": " ".join(step.command[1:]),
        "printed": log.read_text(errors="replace")[-_TAIL:],
        "result": step.read(),
    }


def _wait(process: subprocess.Popen[bytes], step: Step, deadline: float) -> str:
    """Wait until it has ended or should: in words."""
    while True:
        try:
            status = process.wait(min(1.0, max(0.01, deadline - time.monotonic())))
            return "ok" if status == 0 else f"failed with status {status}"
        except subprocess.TimeoutExpired:
            if step.enough():
                return "ok, ended when it was enough"
            if time.monotonic() >= deadline:
                return "cut off"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ask a process to stop, if it has not, then kill it with those it started."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5.0)
    # What is left of its group, such as compilers.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(argv: list[str] | None = None) -> int:
    """Run the steps; 1 if one of them failed."""
    args = parse(argv)
    ends = time.monotonic() + 60.0 * args.minutes
    args.out.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"device": args.device, "tiny": args.tiny, "steps": {}}
    with tempfile.TemporaryDirectory(prefix="gpu_figures_") as folder:
        for step in steps(args, Path(folder)):
            left = ends - time.monotonic()
            if left < _SPARE:
                found: dict[str, Any] = {"status": "no time left"}
            else:
                found = run(step, min(step.limit, left), Path(folder) / f"{step.name}.log")
            content["steps"][step.name] = found
            print(f"{step.name:<12} {found['status']} ({found.get('seconds', 0.0)} s)", flush=True)
            if not found["status"].startswith("ok"):
                print(found.get("printed", "")[-1500:], flush=True)
            (args.out / RESULT).write_text(json.dumps(content, indent=2) + "\n")
    print(args.out / RESULT)
    return int(any(each["status"].startswith("failed") for each in content["steps"].values()))


if __name__ == "__main__":
    # So that the current step is ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
