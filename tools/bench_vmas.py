"""Compare the world's rate with that of VMAS's `navigation`, on one machine in one run.

VMAS is no dependency, and its licence is another: it stays in an environment of its own, and a
worker process there is driven from here.

    python -m venv /tmp/vmas && /tmp/vmas/bin/pip install vmas
    python tools/bench_vmas.py --vmas-python /tmp/vmas/bin/python --json vmas.json

Both worlds have five agents, new uniform random actions every step, the same threads and
device. They take turns within a repeat. Ours counts noise, resets and the refresh of scenarios;
VMAS is not reset at all, which is to its advantage. At last the best size of each is measured
against the other, in turn, and the ratio is of these runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the worker has neither
    import torch

    from train_RL_agents.benchmark.timing import Row, Subject

ROOT = Path(__file__).parents[1]


def parse(argv: list[str] | None) -> argparse.Namespace:
    """Command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--vmas-python", type=Path, help="Python of an environment with vmas")
    add("--sizes", type=int, nargs="+", default=[256, 1024, 4096, 16384], help="environments")
    add("--agents", type=int, default=5)
    add("--obstacles", type=int, default=4, help="of our world; VMAS's has none")
    add("--device", default="cpu")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)), help="CPU threads of each")
    add("--seconds", type=float, default=2.0, help="length of a run")
    add("--repeats", type=int, default=5)
    add("--compile", action=argparse.BooleanOptionalAction, default=True, help="our world's step")
    add("--json", type=Path, help="also write everything here")
    add("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(argv)


# The side of VMAS ---------------------------------------------------------------------------------


def work(args: argparse.Namespace) -> None:
    """Serve requests, a line of JSON each: open a size, or make steps; runs in VMAS's Python."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print must not get in between
    from importlib.metadata import version

    versions = {"vmas": version("vmas")}  # first: it is known at once whether it is there
    import torch
    import vmas

    versions["torch of vmas"] = torch.__version__
    torch.set_num_threads(args.threads)
    env = None
    for line in sys.stdin:
        request = json.loads(line)
        if "open" in request:
            env = vmas.make_env("navigation", num_envs=request["open"], device=args.device,
                                continuous_actions=True, n_agents=args.agents, seed=0)  # fmt: skip
            env.reset()
            answer = versions
        else:
            answer = {"seconds": steps_of(env, request["steps"], args.device)}
        print(json.dumps(answer), file=answers, flush=True)


def steps_of(env: Any, count: int, device: str) -> float:
    """Seconds of so many vector steps of VMAS under random actions."""
    import torch

    def synchronize() -> None:
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    synchronize()
    began = time.perf_counter()
    for _ in range(count):
        env.step([torch.rand(env.num_envs, 2, device=device) * 2.0 - 1.0 for _ in env.agents])
    synchronize()
    return time.perf_counter() - began


class Worker:
    """A process of VMAS's Python that measures on request."""

    def __init__(self, args: argparse.Namespace) -> None:
        words = ["--worker", "--agents", args.agents, "--device", args.device,
                 "--threads", args.threads]  # fmt: skip
        # Ours is not on its path: neither program sees the other.
        clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        try:
            self._process = subprocess.Popen(
                [str(args.vmas_python), str(Path(__file__).resolve()), *map(str, words)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean,
            )  # fmt: skip
        except OSError as error:
            raise SystemExit(f"bench_vmas: error: --vmas-python: {error}") from error

    def ask(self, **request: int) -> dict[str, Any]:
        """The answer to a request."""
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise SystemExit("bench_vmas: error: VMAS's process ended; is vmas installed there?")
        return json.loads(line)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *error: object) -> None:
        """End the process."""
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


# Both -------------------------------------------------------------------------------------------


def subject_of_vmas(worker: Worker, size: int, device: torch.device) -> Subject:
    """VMAS at a size, as a subject of our measurements."""
    from train_RL_agents.benchmark.timing import Subject

    class Remote(Subject):
        """Measured where it runs."""

        def run(self, steps: int) -> float:
            return worker.ask(steps=steps)["seconds"]

    worker.ask(open=size)
    labels = {"mode": "vmas", "environments": size}
    return Remote(labels, "env-steps/s", size, device, step=lambda: None)


def configuration(args: argparse.Namespace) -> Any:
    """Ours, on one level."""
    from marinenav_env import Level
    from train_RL_agents.benchmark.options import on_level
    from train_RL_agents.config.reading import load_config

    words = [f"device={args.device}", f"threads={args.threads}"]
    level = Level(args.agents, 0, args.obstacles)
    return on_level(load_config(None, words), level)


@contextmanager
def our_subject(config: Any, size: int, mode: str) -> Iterator[Subject]:
    """Our world at a size."""
    import torch

    from train_RL_agents.benchmark.options import sized
    from train_RL_agents.benchmark.rig import Rig

    torch.compiler.reset()
    with closing(Rig(sized(config, num_envs=size), mode)) as rig:
        subject = rig.world()
        subject.labels["mode"] = "ours"
        yield subject


def compare(
    args: argparse.Namespace, worker: Worker, config: Any, ours: int, theirs: int
) -> list[Row]:
    """Rows of both worlds at a size of each, measured in turn."""
    from train_RL_agents.benchmark.timing import measure
    from train_RL_agents.utils.device import resolve_device

    device = resolve_device(args.device)
    mode = "eager" if not args.compile else "captured" if device.type == "cuda" else "compiled"
    with our_subject(config, ours, mode) as subject:
        other = subject_of_vmas(worker, theirs, device)
        rows = measure([subject, other], args.seconds, args.repeats)
    for row in rows:
        rates = [f"{row[name]:,.0f}" for name in ("median", "lowest", "highest")]
        print(f"{row['mode']:>5} {row['environments']:>8,} environments {rates[0]:>12} "
              f"env-steps/s ({rates[1]} to {rates[2]}), compile {row['compile_seconds']:.1f} s",
              flush=True)  # fmt: skip
    return rows


def measure_all(args: argparse.Namespace, worker: Worker) -> tuple[list[Row], list[Row]]:
    """Rows of all sizes, and those of the best size of each in turn."""
    config = configuration(args)
    rows = [row for size in args.sizes for row in compare(args, worker, config, size, size)]
    best = [max((row for row in rows if row["mode"] == mode), key=lambda row: row["median"])
            for mode in ("ours", "vmas")]  # fmt: skip
    print("best size of each, in turn:")
    return rows, compare(args, worker, config, *(row["environments"] for row in best))


def ratio(ours: Row, theirs: Row) -> dict[str, float]:
    """Ours by theirs: of the runs that followed one another."""
    each = [one / other for one, other in zip(ours["runs"], theirs["runs"], strict=True)]
    return {"median": statistics.median(each), "lowest": min(each), "highest": max(each)}


def main(argv: list[str] | None = None) -> None:
    """Measure and print."""
    args = parse(argv)
    if args.worker:
        work(args)
        return
    if args.vmas_python is None or not args.vmas_python.is_file():
        raise SystemExit("bench_vmas: error: --vmas-python must be the Python of an environment "
                         "with vmas")  # fmt: skip
    sys.path.insert(0, str(ROOT))
    import torch

    from train_RL_agents.benchmark.setting import machine, software
    from train_RL_agents.utils.device import resolve_device

    torch.set_num_threads(args.threads)
    with Worker(args) as worker:
        facts = machine(resolve_device(args.device)) | software() | worker.ask(open=1)
        facts |= {name: str(value) for name, value in vars(args).items() if name != "worker"}
        for name, value in facts.items():
            print(f"{name:>16}: {value}")
        rows, final = measure_all(args, worker)
    found = ratio(*final)
    print(f"ours to VMAS: {found['median']:.2f} times ({found['lowest']:.2f} to "
          f"{found['highest']:.2f})")  # fmt: skip
    if args.json:
        content = {"setting": facts, "rows": rows, "best": final, "ratio": found}
        args.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
