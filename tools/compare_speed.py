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
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from itertools import count, product
from pathlib import Path
from subprocess import PIPE, Popen

SIDES = ("old", "new")
"""Names of the two checkouts."""
Run = Callable[[int], float]
"""Function that makes a number of steps and returns their time (s)."""


def serve(part: str, agent: str, *settings: str) -> None:
    """Prepare a part of training; then read numbers of steps from standard input, and print how long they took (s)."""
    output, sys.stdout = sys.stdout, sys.stderr
    run = make_benchmark(part, agent, settings)
    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" and part != "start" else time.perf_counter
    for line in sys.stdin:
        began = clock()
        run(int(line))
        print(clock() - began, file=output, flush=True)


def make_benchmark(part: str, agent: str, settings: Sequence[str]) -> Callable[[int], object]:
    """Return a function that makes a number of steps of a part; see the option ``--parts``."""
    if part == "start":
        return lambda steps: [start_cold(agent, settings) for _ in range(steps)]
    if part == "evaluation":
        policy = import_module("train_RL_agents.api").load(agent.lower().replace("-", "_"))
        return lambda steps: [policy.evaluate(episodes=100) for _ in range(steps)]
    config = import_module("train_RL_agents.config.reading").load_config(None, [f"agent_type={agent}", *settings])
    try:
        parts, mode = import_module("train_RL_agents.experiments.benchmarks"), []
    except ModuleNotFoundError:  # up to release 0.2, where the mode of execution is an argument
        fastest = "captured" if import_module("torch").cuda.is_available() else "compiled"
        mode = [fastest if config.execution.compile else "eager"]
        parts = import_module("train_RL_agents.speed.parts")
    benchmark = getattr(parts.TrainerBenchmarks(parts.benchmark_config(config), *mode), part)()
    for _ in range(2):  # memory layouts may change after the first run, which compiles once more
        benchmark.run(benchmark.min_steps)
    return benchmark.run


def start_cold(agent: str, settings: Sequence[str]) -> None:
    """Train with an empty cache of generated code until the first return of training episodes."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = ["monitor=false", "total_timesteps=1000000", "eval_freq=1000000", *settings, f"save_dir={folder}/runs"]
        command = [sys.executable, "-P", "-m", "train_RL_agents", "train", "--json-lines", "--agent", agent, *words]
        environment = os.environ | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"}
        with Popen(command, env=environment, text=True, start_new_session=True, stdout=PIPE) as process:
            began = any(json.loads(line).get("episode_return") is not None for line in process.stdout or ())
            os.killpg(process.pid, signal.SIGKILL)  # the group includes the compiling processes
    if not began:
        raise SystemExit(f"the training of {agent} ended before its first return")


@contextmanager
def worker(checkout: Path, threads: int, *words: str) -> Iterator[Run]:
    """Yield a function that runs a part with a checkout's sources; ``words`` are the part, the agent and settings."""
    variables = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads)) | {"PYTHONPATH": str(checkout)}
    command = [sys.executable, "-P", str(Path(__file__).resolve()), "--work", *words]
    environment = os.environ | variables
    with Popen(command, cwd=checkout, env=environment, text=True, stdin=PIPE, stdout=PIPE) as process:

        def run(steps: int) -> float:
            assert process.stdin is not None and process.stdout is not None
            print(steps, file=process.stdin, flush=True)
            line = process.stdout.readline()
            if not line:
                raise SystemExit(f"a worker ended with status {process.wait()}; see above")
            return float(line)

        yield run


def measure_alternating(measure: dict[str, Run], seconds: float, pairs: int, runs: int = 8) -> list[float]:
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
    given = parser.parse_args()
    folders = {side: getattr(given, side).resolve() for side in SIDES}
    for agent, part in product(given.agents, given.parts):
        words = (part, agent, *given.settings)
        with ExitStack() as stack:
            measure = {side: stack.enter_context(worker(folders[side], given.threads, *words)) for side in SIDES}
            ratios = measure_alternating(measure, given.seconds, given.pairs, given.runs)
        print(f"{agent:8} {part:10} {ratio_text(ratios)}", flush=True)


if __name__ == "__main__":
    main()
