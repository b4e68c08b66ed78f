"""Compare two ranks with one process: the same total work, one thread each, in turn.

    python tools/bench_ranks.py                                # three pairs of runs
    python tools/bench_ranks.py --repeats 5 --json ranks.json -- -C configs/dqn.json

Prints env-steps per second of training (evaluation, saving and compilation left out) of every run,
and the ratio of two ranks to one: median, lowest and highest over the pairs. On a machine with
fewer free cores than ranks it says nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from train_RL_agents.run.checkpoint import STATE

ROOT = Path(__file__).parents[1]


def parse() -> argparse.Namespace:
    """Command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200_000, help="env-steps of a run, in total")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("settings", nargs="*", help="more for marinenav train, after --")
    return parser.parse_args()


def train(ranks: int, args: argparse.Namespace) -> float:
    """Env-steps per second of one run."""
    module = ["-m", "train_RL_agents"]
    if ranks > 1:
        count = ["--standalone", "--nproc-per-node", str(ranks)]
        module = ["-m", "torch.distributed.run", *count, *module]
    with tempfile.TemporaryDirectory() as folder:
        # One evaluation, at the end, and no replay in the checkpoint: neither is counted.
        own = ["device=cpu", "threads=1", f"total_timesteps={args.steps}", "eval_freq=1000000000",
               "save_replay=false", f"save_dir={folder}", "--quiet"]  # fmt: skip
        subprocess.run(
            [sys.executable, *module, "train", *args.settings, *own], cwd=ROOT, check=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        (file,) = Path(folder).glob(f"*/seed_*/checkpoints/{STATE}")
        clock = torch.load(file)["clock"]
    idle = sum(clock["seconds"].get(name, 0.0) for name in ("evaluate", "save", "compile"))
    return float(args.steps / (clock["total"] - idle))


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Figures of all pairs, each in the other order than the one before."""
    rates: dict[int, list[float]] = {1: [], args.ranks: []}
    for repeat in range(args.repeats):
        for ranks in (1, args.ranks)[:: -1 if repeat % 2 else 1]:
            rates[ranks].append(train(ranks, args))
            print(f"pair {repeat + 1}, ranks {ranks}: {rates[ranks][-1]:,.0f} env-steps/s",
                  flush=True)  # fmt: skip
    ratios = [several / one for one, several in zip(rates[1], rates[args.ranks], strict=True)]
    return {
        "setting": {
            "python": platform.python_version(),
            "torch": version("torch"),
            "torchrl": version("torchrl"),
            "processor cores": len(os.sched_getaffinity(0)),
            "steps": args.steps,
            "ranks": args.ranks,
            "threads of a rank": 1,
            "settings": args.settings,
        },
        "env_steps_per_second": {"one": rates[1], "ranks": rates[args.ranks]},
        "ratio": {"median": statistics.median(ratios), "lowest": min(ratios),
                  "highest": max(ratios)},
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    args = parse()
    load = os.getloadavg()
    found = compare(args)
    found["setting"]["load before"] = load
    ratio = found["ratio"]
    print(f"{args.ranks} ranks / one process: {ratio['median']:.2f} "
          f"({ratio['lowest']:.2f} to {ratio['highest']:.2f})")  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
