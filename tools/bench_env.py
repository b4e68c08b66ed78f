"""Measure the rate of the world: random actions, observations, rewards, noise and resets included.

    python tools/bench_env.py                       # sizes 1 to 16,384 on the CPU
    python tools/bench_env.py --device cuda --sizes 4096 16384
    python tools/bench_env.py --json rates.json

Prints the whole setting first, then a row per size: the median over the repeats with the lowest
and the highest, in env-steps per second, and active robot-steps per second beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from marinenav_env import GROUP, Curriculum, Level, MarineNavEnv

SIZES = (1, 4, 16, 64, 256, 1024, 4096, 16384)


def parse() -> argparse.Namespace:
    """Command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="environments")
    parser.add_argument("--robots", type=int, default=5)
    parser.add_argument("--obstacles", type=int, default=4)
    parser.add_argument("--cores", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=int, default=cores, help="CPU threads")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    return parser.parse_args()


def cpu_name() -> str:
    """The processor's name, with its widest vector instructions as torch sees them."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {torch.backends.cpu.get_cpu_capability()}"


def setting(args: argparse.Namespace) -> dict[str, Any]:
    """Everything that the figures depend on."""
    packages = {name: version(name) for name in ("torch", "torchrl", "tensordict")}
    cuda = args.device.startswith("cuda")
    return {
        "python": platform.python_version(),
        **packages,
        "machine": torch.cuda.get_device_name() if cuda else cpu_name(),
        "processor cores": len(os.sched_getaffinity(0)),
        **{name: value for name, value in vars(args).items() if name not in ("json", "sizes")},
        "dtype": "float32",
        "actions": "uniform, continuous, drawn anew every step",
        "included": "step, observation, noise, reward, resets, refresh of the pool of starts",
    }


def synchronize(device: str) -> None:
    """Wait for the device's work to be done."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


class World:
    """An environment under random actions."""

    def __init__(self, size: int, args: argparse.Namespace) -> None:
        level = Level(args.robots, args.cores, args.obstacles)
        self.env = MarineNavEnv(
            num_envs=size,
            scenarios=Curriculum((level,)),
            device=args.device,
            compile_step=args.compile,
        )
        self.step = self.env.reset()
        self.shape = (size, args.robots, 2)
        self.active = torch.zeros((), device=args.device, dtype=torch.int64)

    def advance(self, steps: int) -> None:
        """Take vector steps."""
        for _ in range(steps):
            self.active += self.step.get((GROUP, "mask")).sum()
            action = torch.rand(self.shape, device=self.env.device) * 2.0 - 1.0
            self.step.set((GROUP, "action"), action)
            self.step = self.env.step_and_maybe_reset(self.step)[1]


def measure(size: int, args: argparse.Namespace) -> dict[str, Any]:
    """Rates of one size."""
    torch.compiler.reset()
    began = time.perf_counter()
    world = World(size, args)
    world.advance(3)
    synchronize(args.device)
    warm_up = time.perf_counter() - began
    began = time.perf_counter()
    world.advance(5)
    synchronize(args.device)
    # As many steps as fill the wanted time, and far enough for resets to be under way.
    steps = max(10, int(5 * args.seconds / (time.perf_counter() - began)))
    world.advance(min(steps, 100))
    rates, robot_rates = [], []
    for _ in range(args.repeats):
        world.active.zero_()
        synchronize(args.device)
        began = time.perf_counter()
        world.advance(steps)
        synchronize(args.device)
        seconds = time.perf_counter() - began
        rates.append(size * steps / seconds)
        robot_rates.append(world.active.item() / seconds)
    return {
        "environments": size,
        "env_steps_per_second": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "active_robot_steps_per_second": statistics.median(robot_rates),
        "steps": steps,
        "warm_up_seconds": warm_up,
    }


def main() -> None:
    """Measure and print."""
    args = parse()
    torch.set_num_threads(args.threads)
    facts = setting(args)
    for name, value in facts.items():
        print(f"{name:>15}: {value}")
    print(f"\n{'environments':>12} {'env-steps/s':>14} {'lowest':>12} {'highest':>12} "
          f"{'active robot-steps/s':>22} {'warm-up s':>10}")  # fmt: skip
    rows = []
    for size in args.sizes:
        row = measure(size, args)
        rows.append(row)
        print(f"{size:>12,} {row['env_steps_per_second']:>14,.0f} {row['lowest']:>12,.0f} "
              f"{row['highest']:>12,.0f} {row['active_robot_steps_per_second']:>22,.0f} "
              f"{row['warm_up_seconds']:>10.1f}", flush=True)  # fmt: skip
    if args.json:
        args.json.write_text(json.dumps({"setting": facts, "rows": rows}, indent=2) + "\n")
    best = max(rows, key=lambda row: row["env_steps_per_second"])
    level = asdict(Level(args.robots, args.cores, args.obstacles))
    print(f"\nbest: {best['env_steps_per_second']:,.0f} env-steps/s at "
          f"{best['environments']:,} environments ({level})")  # fmt: skip


if __name__ == "__main__":
    main()
