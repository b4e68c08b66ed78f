"""Take all figures of a CUDA machine, in calls of under eight minutes.

    python tools/gpu_figures.py --out figures           # again, until nothing is left
    python tools/gpu_figures.py --device cpu --tiny     # tries the script itself

Every step is a process of its own with a time limit, so that one that fails or hangs does not lose
the others. What is known so far is always in OUT/gpu_figures.json, also after a step was cut off.
A call leaves out the steps that are done, and resumes the training.
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
_TINY_BENCH = [
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
_TINY_TRAIN = [
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
    add("--minutes", type=float, default=7.7, help="for this call")
    add("--success", type=float, default=0.79, help="success at which the training ends")
    add("--only", nargs="+", metavar="STEP", help="steps whose names begin so")
    add("--tiny", action="store_true", help="smallest sizes")
    add("--fill", action="store_true", help="only generate code, of all parts at once")
    return parser.parse_args(argv)


# Steps ------------------------------------------------------------------------------------------


def steps(args: argparse.Namespace) -> list[Step]:
    """All steps, the most wanted first: what is captured before what is not, the training last.

    Args:
        args: of the command line.
    """
    last = ("compiled", "eager")
    *parts, growth = captured(args)
    found = [
        Step("cache", [sys.executable, __file__, "--fill", *_given(args)], 300),
        *parts,
        *tests(),
        growth,
        *(bench(args, part, 150, last) for part in ("world", "collect", "update")),
        training(args),
    ]
    wanted = tuple(args.only or [""])
    return [step for step in found if step.name.startswith(wanted)]


def _given(args: argparse.Namespace) -> list[str]:
    """The arguments that decide what code is generated."""
    return ["--out", str(args.out / "cache"), "--device", args.device, *["--tiny"] * args.tiny]


def captured(args: argparse.Namespace) -> list[Step]:
    """What is measured in CUDA graphs, the growth last."""
    first, kernel = ("captured",), "execution.kernel=triton"
    # The CPU has no such kernel.
    triton = [bench(args, part, 100, first, kernel) for part in ("world", "collect") if args.device != "cpu"]
    return [
        bench(args, "world", 100, first),
        bench(args, "collect", 100, first),
        bench(args, "update", 150, first),
        bench(args, "update", 90, first, "execution.precision=bf16"),
        bench(args, "loop", 80, first),
        *triton,
        bench(args, "growth", 120, first),
    ]


def fill(args: argparse.Namespace) -> int:
    """Start all parts at once, for a moment: each leaves its generated code in the cache.

    Returns:
        1 if one of them failed.
    """
    args.out.mkdir(parents=True, exist_ok=True)
    moment = [] if args.tiny else ["--seconds", "0.01", "--repeats", "1"]
    begun = [subprocess.Popen([*step.command, *moment], cwd=ROOT) for step in captured(args)]
    failed = [process for process in begun if process.wait() != 0]
    return int(len(failed) > 0)


def bench(args: argparse.Namespace, part: str, limit: float, modes: tuple[str, ...], *settings: str) -> Step:
    """One part of ``marinenav bench`` in some modes."""
    name = " ".join((part, *modes, *settings))
    file = args.out / f"{name.replace(' ', '_')}.json"
    command = [*MARINENAV, "bench", "--parts", part, "--device", args.device, "--json", str(file)]
    command += (TINY if args.tiny else SIZES)[part]
    command += _TINY_BENCH if args.tiny else ["--modes", *modes]
    return Step(name, [*command, *settings], limit, lambda: _json(file))


def tests() -> list[Step]:
    """The tests that need a GPU, by file."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    names = [str(file.relative_to(ROOT)) for file in files if "mark.gpu" in file.read_text()]
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu"]
    return [Step(name, [*command, name], 60) for name in names]


def training(args: argparse.Namespace) -> Step:
    """Training until an evaluation reaches the wanted success; it goes on where it was cut off."""
    runs = args.out / "runs"
    begun = sorted(runs.glob("training_*/seed_*/checkpoints/manifest.json"))
    settings = _TINY_TRAIN if args.tiny else ["eval_freq=100000", "log_freq=100000"]
    command = [*MARINENAV, "train", "--no-bar"]
    if begun:
        command += ["--resume", str(begun[-1].parents[1])]
    else:
        command += ["--device", args.device, f"save_dir={runs}", *settings]

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
        process.wait(20.0)
    # What is left of its group, such as compilers.
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def main(argv: list[str] | None = None) -> int:
    """Run the steps; 1 if one of them failed."""
    args = parse(argv)
    if args.fill:
        return fill(args)
    ends = time.monotonic() + 60.0 * args.minutes
    args.out = args.out.resolve()
    args.out.mkdir(parents=True, exist_ok=True)
    setting = {"device": args.device, "tiny": args.tiny}
    content: dict[str, Any] = _json(args.out / RESULT) or {**setting, "steps": {}}
    if {name: content[name] for name in setting} != setting:
        raise SystemExit(f"gpu_figures: error: {args.out} has figures of another --device or size")
    listed, known = steps(args), content["steps"]
    for step in listed:
        if known.get(step.name, {}).get("status", "").startswith("ok"):
            continue
        left = ends - time.monotonic()
        if left < _SPARE:
            known.setdefault(step.name, {"status": "no time left"})
            continue
        known[step.name] = found = run(step, min(step.limit, left), args.out / "log.txt")
        (args.out / RESULT).write_text(json.dumps(content, indent=2) + "\n")
        print(f"{step.name:<28} {found['status']} ({found['seconds']} s)", flush=True)
        if not found["status"].startswith("ok"):
            print(found["printed"][-1500:], flush=True)
    (args.out / RESULT).write_text(json.dumps(content, indent=2) + "\n")
    print(args.out / RESULT)
    return int(any(known[step.name]["status"].startswith("failed") for step in listed))


if __name__ == "__main__":
    # So that the current step is ended, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    sys.exit(main())
