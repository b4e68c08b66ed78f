"""Compare the speed of two ranks with that of one process: same total work, one thread per process, alternating runs.

    python tools/bench_ranks.py                                # three pairs of runs
    python tools/bench_ranks.py --repeats 5 --json ranks.json -- -C configs/dqn.json

Prints env-steps per second of training (without evaluation, saving and compilation) of every run, and the ratio of
two ranks to one: median, lowest and highest over the pairs. The ratio means nothing on a machine with fewer free cores
than ranks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

from train_RL_agents.run.checkpoint import STATE_FILE
from train_RL_agents.speed.setting import describe_machine, describe_software

ROOT = Path(__file__).parents[1]


def parse_arguments() -> argparse.Namespace:
    """Return the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=200_000, help="env-steps of a run, in total")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("settings", nargs="*", help="further arguments of marinenav train, after --")
    return parser.parse_args()


def measure_rate(ranks: int, args: argparse.Namespace) -> float:
    """Run one training on a number of ranks, and return its env-steps per second."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks), "-m"]
    with tempfile.TemporaryDirectory() as folder:
        # One evaluation, at the end, and no replay in the checkpoint, as their time is not counted.
        fixed = [
            "--device=cpu",
            "--threads=1",
            "--quiet",
            f"total_timesteps={args.steps}",
            "eval_freq=1000000000",
            "save_replay=false",
            f"save_dir={folder}",
        ]
        command = [
            sys.executable,
            "-m",
            *(launcher if ranks > 1 else []),
            "train_RL_agents",
            "train",
            *args.settings,
            *fixed,
        ]
        subprocess.run(command, cwd=ROOT, check=True)
        (file,) = Path(folder).glob(f"*/seed_*/checkpoints/{STATE_FILE}")
        clock = torch.load(file)["clock"]
    idle = sum(clock["seconds"].get(name, 0.0) for name in ("evaluate", "save", "compile"))
    return float(args.steps / (clock["total"] - idle))


def main() -> None:
    """Measure all pairs and print the result; the order of a pair alternates."""
    args = parse_arguments()
    setting = describe_machine(torch.device("cpu")) | describe_software()
    setting |= {"steps": args.steps, "ranks": args.ranks, "settings": args.settings, "threads": 1}
    rates: dict[int, list[float]] = {1: [], args.ranks: []}
    for repeat in range(args.repeats):
        for ranks in (1, args.ranks)[:: -1 if repeat % 2 else 1]:
            rates[ranks].append(measure_rate(ranks, args))
            print(f"pair {repeat + 1}, ranks {ranks}: {rates[ranks][-1]:,.0f} env-steps/s", flush=True)
    ratios = [multiple / single for single, multiple in zip(rates[1], rates[args.ranks], strict=True)]
    ratio = {"median": statistics.median(ratios), "lowest": min(ratios), "highest": max(ratios)}
    print(f"{args.ranks} ranks / one process: {ratio['median']:.2f} ({ratio['lowest']:.2f} to {ratio['highest']:.2f})")
    if args.json:
        result = {"setting": setting, "env_steps_per_second": rates, "ratio": ratio}
        args.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
