"""Compare the speeds of two checkouts on this machine in alternating runs.

    python tools/compare_speed.py OLD NEW --parts world loop evaluation --agents PPO AC-IQN --pairs 8
    python tools/compare_speed.py OLD NEW --parts start --agents AC-IQN --pairs 2 --runs 1

One process for each checkout, with this interpreter and the checkout's sources, stays alive for all runs. A pair is
eight runs of each, of equally many steps and never at the same time; their order alternates. A ratio is the new speed
divided by the old one. With one thread it is computed from processor time, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

SIDES = ("old", "new")
"""Names of the two checkouts."""
TimeFunctions = dict[str, Callable[[int], float]]
"""For each side, ``old`` and ``new``, a function that makes a number of steps and returns their time (s)."""


def serve(part: str, agent: str, *settings: str) -> None:
    """Prepare a part of training; then read numbers of steps from standard input, and print how long they took (s)."""
    output, sys.stdout = sys.stdout, sys.stderr
    run = make_benchmark(part, agent, settings)
    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" and part != "start" else time.perf_counter
    print(0.0, file=output, flush=True)
    for line in sys.stdin:
        began = clock()
        run(int(line))
        print(clock() - began, file=output, flush=True)


def make_benchmark(part: str, agent: str, settings: Sequence[str]) -> Callable[[int], object]:
    """Return a function that makes a number of steps of a part; see the option ``--parts``."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    if part == "start":
        return lambda steps: [start_cold(agent, settings) for _ in range(steps)]
    if part == "evaluation":
        from train_RL_agents.api import load

        policy = load(agent.lower().replace("-", "_"))
        return lambda steps: [policy.evaluate(episodes=100) for _ in range(steps)]
    from train_RL_agents.config.reading import load_config

    config = load_config(None, [f"agent_type={agent}", *settings])
    from train_RL_agents.experiments import benchmarks as parts

    fastest = "captured" if torch.cuda.is_available() else "compiled"
    # Up to release 0.2 the mode of execution is an argument.
    mode = [fastest if config.execution.compile else "eager"] if hasattr(parts, "SWEEPS") else []
    benchmarks: Any = parts.TrainerBenchmarks
    trainer = benchmarks(parts.benchmark_config(config), *mode)
    benchmark = getattr(trainer, part)()
    for _ in range(2):  # memory layouts may change after the first run, which compiles once more
        benchmark.run(benchmark.min_steps)
    return benchmark.run  # type: ignore[no-any-return]


def start_cold(agent: str, settings: Sequence[str]) -> None:
    """Train with an empty cache of generated code until the first return of training episodes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = ["--json-lines", "--agent", agent, f"--threads={os.environ['OMP_NUM_THREADS']}", "monitor=false"]
        words += ["total_timesteps=1000000", "eval_freq=1000000", *settings, f"save_dir={folder}/runs"]
        command, cache = [sys.executable, "-P", "-m", "train_RL_agents", "train"], f"{folder}/cache"
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": cache}
        with subprocess.Popen(
            [*command, *words], env=environment, text=True, start_new_session=True, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            began = any(json.loads(line).get("episode_return") is not None for line in process.stdout)
            os.killpg(process.pid, signal.SIGKILL)  # the group includes the compiling processes
    if not began:
        raise SystemExit(f"the training of {agent} ended before its first return")


class CheckoutProcess:
    """Process that measures a part of an agent with the sources of a checkout."""

    def __init__(self, checkout: Path, threads: int, part: str, agent: str, settings: Sequence[str] = ()) -> None:
        variables = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        command = [sys.executable, "-P", str(Path(__file__).resolve()), "--work", part, agent, *settings]
        environment, pipe = os.environ | variables | {"PYTHONPATH": str(checkout)}, subprocess.PIPE
        self._process = subprocess.Popen(command, cwd=checkout, env=environment, text=True, stdin=pipe, stdout=pipe)

    def time(self, steps: int | None = None) -> float:
        """Make a number of steps and return their time (s); without a number, wait until the process is ready."""
        assert self._process.stdin is not None and self._process.stdout is not None
        if steps is not None:
            print(steps, file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with status {self._process.wait()}; see above")
        return float(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def measure_alternating(measure: TimeFunctions, seconds: float, pairs: int, runs: int = 8) -> list[float]:
    """Return the ratio of the old time to the new time in each of several pairs, whose runs alternate.

    Runs have the least power of two of steps that takes the slower side at least ``seconds`` in a pair.
    """
    enough = seconds / runs
    steps = next(2**k for k in count() if max([run(2**k) for run in measure.values()]) >= enough)
    ratios = []
    for _ in range(pairs):
        took = dict.fromkeys(SIDES, 0.0)
        for number in range(runs):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                took[side] += measure[side](steps)
        ratios.append(took["old"] / took["new"])
    return ratios


def ratio_text(ratios: Sequence[float]) -> str:
    """Return as text the median of the ratios of pairs, its standard error from their spread, and their range."""
    median = statistics.median(ratios)
    error = 1.253 * 1.4826 * statistics.median(abs(ratio - median) for ratio in ratios) / len(ratios) ** 0.5
    return f"new/old {median:.3f} +- {error:.3f}  ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"


def compare(arguments: argparse.Namespace, agent: str, part: str) -> None:
    """Measure a part of an agent in both checkouts in turn, and print a line."""
    folders = {side: getattr(arguments, side).resolve() for side in SIDES}
    settings, threads = arguments.settings, arguments.threads
    workers = {side: CheckoutProcess(folders[side], threads, part, agent, settings) for side in SIDES}
    for worker in workers.values():
        worker.time()
    measure: TimeFunctions = {side: worker.time for side, worker in workers.items()}
    ratios = measure_alternating(measure, arguments.seconds, arguments.pairs, arguments.runs)
    for worker in workers.values():
        worker.close()
    print(f"{agent:8} {part:10} {ratio_text(ratios)}", flush=True)


def main() -> None:
    """Compare two checkouts, or run as the worker process of one."""
    if sys.argv[1:2] == ["--work"]:
        serve(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add, own = parser.add_argument, "evaluation of a shipped policy, start (cold, to the first return)"
    add("old", type=Path)
    add("new", type=Path)
    add("--parts", nargs="+", default=["world", "loop"], help=f"parts of `marinenav bench`, {own}")
    add("--agents", nargs="+", default=["AC-IQN", "PPO"])
    add("--pairs", type=int, default=8)
    add("--runs", type=int, default=8, help="runs of each side in a pair")
    add("--seconds", type=float, default=2.0, help="least length of the runs of a side in a pair (s)")
    add("--threads", type=int, default=1)
    add("--settings", nargs="+", default=[], metavar="name=value")
    arguments = parser.parse_args()
    for agent in arguments.agents:
        for part in arguments.parts:
            compare(arguments, agent, part)


if __name__ == "__main__":
    main()
