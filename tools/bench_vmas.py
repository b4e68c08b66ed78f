"""Compare the speed of the world with that of the scenario `navigation` of VMAS, on one machine in one run.

VMAS is not a dependency, and has another licence: it is installed in a separate environment, where tools/vmas_rate.py
runs it.

    python -m venv /tmp/vmas && /tmp/vmas/bin/pip install vmas
    python tools/bench_vmas.py --vmas-python /tmp/vmas/bin/python --json vmas.json

Both worlds have five agents, new uniform random actions every step, and the same threads and device. Their runs
alternate. The time of this project's world includes noise, resets and the refresh of scenarios; VMAS is never reset,
which is to its advantage. Finally the fastest sizes of both are measured in alternating runs, which give the ratio.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from marinenav_env import Level
from train_RL_agents.config.reading import load_config
from train_RL_agents.speed.fixture import TrainerBenchmarks
from train_RL_agents.speed.options import benchmark_config, with_training_level
from train_RL_agents.speed.setting import describe_machine, describe_software
from train_RL_agents.speed.timing import estimate_steps, measure_compile_seconds
from train_RL_agents.utils.device import num_cpu_cores, resolve_device

WorldRates = dict[str, Any]
"""Results of a world: number of ``environments``, rates of all ``runs`` (env-steps/s), and their ``median``, ``lowest``
and ``highest``."""


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """Return the command-line arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--vmas-python", type=Path, required=True, help="Python of an environment with vmas")
    add("--sizes", type=int, nargs="+", default=[256, 1024, 4096, 16384], help="environments")
    add("--agents", type=int, default=5)
    add("--obstacles", type=int, default=4, help="obstacles of our world; that of VMAS has none")
    add("--device", default="cpu")
    add("--threads", type=int, default=num_cpu_cores(), help="CPU threads per world")
    add("--seconds", type=float, default=2.0, help="length of a run (s)")
    add("--repeats", type=int, default=5)
    add("--compile", action=argparse.BooleanOptionalAction, default=True, help="compile the step of our world")
    add("--json", type=Path, help="also write everything here")
    return parser.parse_args(argv)


def run_vmas(args: argparse.Namespace, size: int, seconds: float) -> dict[str, Any]:
    """Run vmas_rate.py in the environment with VMAS, and return what it prints: ``rate`` (env-steps/s) and versions.

    Args:
        args: command-line arguments.
        size: number of environments.
        seconds: length of the run (s).
    """
    arguments = [
        args.vmas_python,
        Path(__file__).with_name("vmas_rate.py"),
        size,
        args.agents,
        args.threads,
        args.device,
        seconds,
    ]
    # VMAS must not import packages of this project.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    try:
        process = subprocess.run([*map(str, arguments)], stdout=subprocess.PIPE, check=True, env=environment)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"bench_vmas: error: --vmas-python must be the Python of an environment with vmas ({error})"
        ) from error
    return json.loads(process.stdout)


def median_and_range(values: list[float]) -> dict[str, float]:
    """Return the ``median``, the ``lowest`` and the ``highest`` of some values."""
    return {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}


def compare_worlds(args: argparse.Namespace, ours: int, theirs: int) -> dict[str, WorldRates]:
    """Measure this project's world and that of VMAS in alternating runs, and print their rates.

    Args:
        args: command-line arguments.
        ours: number of environments of this project's world.
        theirs: number of environments of VMAS.

    Returns:
        Results of the worlds by the names ``ours`` and ``vmas``.
    """
    overrides = [f"execution.device={args.device}", f"execution.threads={args.threads}"]
    config = load_config(None, overrides)
    config = benchmark_config(with_training_level(config, Level(args.agents, 0, args.obstacles)), num_envs=ours)
    mode = "eager" if not args.compile else "compiled" if args.device == "cpu" else "captured"
    rates: dict[str, list[float]] = {"ours": [], "vmas": []}
    torch.compiler.reset()
    with closing(TrainerBenchmarks(config, mode)) as trainer:
        benchmark = trainer.world()
        compiling = measure_compile_seconds(benchmark)
        steps = estimate_steps(benchmark, args.seconds)
        for _ in range(args.repeats):
            rates["ours"].append(ours * steps / benchmark.run(steps))
            rates["vmas"].append(run_vmas(args, theirs, args.seconds)["rate"])
    print(f"compiled in {compiling:.1f} s; env-steps/s:")
    runs = {}
    for name, size in (("ours", ours), ("vmas", theirs)):
        runs[name] = {"environments": size, **median_and_range(rates[name]), "runs": rates[name]}
        print(
            "{:>5} {environments:>8,} environments {median:>12,.0f} ({lowest:,.0f} to {highest:,.0f})".format(
                name, **runs[name]
            ),
            flush=True,
        )
    return runs


def main(argv: list[str] | None = None) -> None:
    """Measure this project's world and VMAS with all numbers of environments, and print or write the rates."""
    args = parse_arguments(argv)
    torch.set_num_threads(args.threads)
    versions = run_vmas(args, 1, 0.0)
    del versions["rate"]
    facts = describe_machine(resolve_device(args.device)) | describe_software() | versions
    facts |= {name: str(value) for name, value in vars(args).items()}
    for name, value in facts.items():
        print(f"{name:>16}: {value}")
    rows = [compare_worlds(args, size, size) for size in args.sizes]
    best = [
        max((row[name] for row in rows), key=lambda runs: runs["median"])["environments"] for name in ("ours", "vmas")
    ]
    print("best size of each, in turn:")
    final = compare_worlds(args, *best)
    pairs = zip(final["ours"]["runs"], final["vmas"]["runs"], strict=True)
    ratio = median_and_range([ours / vmas for ours, vmas in pairs])
    print("ours to VMAS: {median:.2f} times ({lowest:.2f} to {highest:.2f})".format(**ratio))
    if args.json:
        content = {"setting": facts, "rows": rows, "best": final, "ratio": ratio}
        args.json.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
