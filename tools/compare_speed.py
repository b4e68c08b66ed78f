"""Compare the speeds of two checkouts on this machine in alternating runs.

    python tools/compare_speed.py OLD NEW --parts world loop --agents PPO AC-IQN --pairs 8
    python tools/compare_speed.py OLD NEW --cold --agents AC-IQN --pairs 2

One process per checkout, with this interpreter and the sources of the checkout, stays alive for all runs. A pair
consists of eight runs of the old and eight of the new checkout, of equally many steps and never at the same time; their
order alternates. A ratio is the new speed divided by the old one, so above 1 is faster. With one thread it is computed
from processor time, which other programs disturb less. With ``--cold`` a pair consists of two trainings with an empty
cache of generated code, timed from the command to the first update and to the first return of training episodes.

Memory layout differs between processes, which pairs do not average out; ``--rounds`` starts new processes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
SIDES = ("old", "new")
"""Names of the two checkouts."""
_UNREACHABLE_STEPS = 1_000_000
"""Length (env-steps) of a training that is killed long before, after its first update and return."""
_RUNS_PER_PAIR = 8
"""Number of runs of each checkout in a pair."""


# In the process of a checkout -------------------------------------------------------------------


def serve() -> None:
    """Serve requests, one JSON object per line of standard input: make a benchmark, or run it for some steps."""
    output, sys.stdout = sys.stdout, sys.stderr
    import marinenav_env

    benchmark: Any = None
    close: Callable[[], None] = lambda: None  # noqa: E731
    print(json.dumps(str(Path(marinenav_env.__file__).parents[1])), file=output, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        response: Any = None
        if "part" in request:
            benchmark, close = make_benchmark(**request)
        elif "steps" in request:
            clock = time.process_time if request["threads"] == 1 else time.perf_counter
            began = clock()
            benchmark(request["steps"])
            response = clock() - began
        else:
            close()
        print(json.dumps(response), file=output, flush=True)


def make_benchmark(
    part: str, agent: str, mode: str, threads: int, overrides: Sequence[str]
) -> tuple[Callable[[int], object], Callable[[], None]]:
    """Return a compiled benchmark as two functions: one that makes a number of steps, and one that closes it.

    Args:
        part: part of ``marinenav bench``, or ``evaluation``.
        agent: name of the agent.
        mode: mode of execution: eager, compiled or captured.
        threads: number of CPU threads.
        overrides: settings as ``name=value``.
    """
    import torch

    torch.set_num_threads(threads)
    if part == "evaluation":
        return evaluation_benchmark(agent), lambda: None
    # Names may differ between the checkouts, so all of them are listed.
    sized = import_from("speed.options:benchmark_config", "speed.options:sized", "benchmark.options:sized")
    fixture_of = import_from("speed.fixture:TrainerBenchmarks", "speed.fixture:Fixture", "benchmark.rig:Rig")
    load_config = import_from("config.reading:load_config")
    # The number of threads is set by OMP_NUM_THREADS, as the name of the setting may differ between checkouts.
    fixture = fixture_of(sized(load_config(None, [f"agent_type={agent}", *overrides])), mode)
    benchmark = getattr(fixture, part)()
    for _ in range(2):  # memory layouts may change after the first run, which compiles once more
        benchmark.run(getattr(benchmark, "min_steps", None) or benchmark.least)
    return benchmark.run, fixture.close


def import_from(*places: str) -> Any:
    """Return the first object among ``module:name`` below train_RL_agents that exists in the checkout."""
    folder = Path(importlib.import_module("train_RL_agents").__file__ or "").parent
    for place in places:
        module, _, name = place.partition(":")
        # By file, since an editable install finds packages of another checkout that this one lacks.
        if (folder / module.partition(".")[0]).exists():
            found = getattr(importlib.import_module(f"train_RL_agents.{module}"), name, None)
            if found is not None:
                return found
    raise SystemExit(f"the checkout has none of {', '.join(places)}: add the place to this script")


def evaluation_benchmark(agent: str) -> Callable[[int], None]:
    """Return a function that makes a number of steps; each evaluates a shipped policy on 100 episodes per level."""
    from train_RL_agents.api import load

    policy = load(agent.lower().replace("-", "_"))

    def run(steps: int) -> None:
        for _ in range(steps):
            policy.evaluate(episodes=100)

    return run


# Alternating runs -------------------------------------------------------------------------------


class CheckoutProcess:
    """Process that runs the benchmarks of a checkout.

    Args:
        checkout: folder of the checkout.
        threads: number of threads of every library.
    """

    def __init__(self, checkout: Path, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(HERE), "--work"],
            cwd=checkout,
            text=True,
            env=process_environment(checkout, threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        folder = self._read()
        if Path(folder) != checkout:
            raise SystemExit(f"{checkout}: python imports marinenav_env from {folder}")

    def ask(self, **request: Any) -> Any:
        """Send a request and return the response."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        """Return the next JSON value that the process prints."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with status {self._process.wait()}; see above")
        return json.loads(line)

    def close(self) -> None:
        """Close the benchmark and end the process."""
        self.ask()
        self._process.communicate()


def process_environment(checkout: Path, threads: int) -> dict[str, str]:
    """Return the environment variables of a process with the sources of a checkout and a number of threads."""
    variables = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return os.environ | variables | {"PYTHONPATH": str(checkout)}


TimeFunctions = dict[str, Callable[[int], float]]
"""For each side, ``old`` and ``new``, a function that makes a number of steps and returns their time (s)."""


def measure_alternating(measure: TimeFunctions, steps: int, pairs: int) -> list[float]:
    """Return the ratio of the old time to the new time in each of several pairs, whose runs alternate.

    Args:
        measure: for each of ``old`` and ``new``, a function that makes a number of steps and returns their time (s).
        steps: number of steps of a run.
        pairs: number of pairs, each of eight runs of either checkout.
    """
    ratios = []
    for _ in range(pairs):
        seconds = dict.fromkeys(SIDES, 0.0)
        for number in range(_RUNS_PER_PAIR):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                seconds[side] += measure[side](steps)
        ratios.append(seconds["old"] / seconds["new"])
    return ratios


def ratio_text(ratios: Sequence[float]) -> str:
    """Return as text the median of the ratios of pairs, its standard error from their spread, and their range."""
    median = statistics.median(ratios)
    deviation = statistics.median(abs(ratio - median) for ratio in ratios)
    error = 1.253 * 1.4826 * deviation / math.sqrt(len(ratios))
    return f"new/old {median:.3f} +- {error:.3f}  ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"


def calibrate_steps(measure: TimeFunctions, seconds: float) -> int:
    """Return the number of steps that take the slower checkout about ``seconds``, from trial runs of both.

    ``measure`` has, for each of ``old`` and ``new``, a function that makes some steps and returns their time (s).
    """
    steps = 1
    while True:
        elapsed = max(run(steps) for run in measure.values())
        if elapsed >= 0.2 * seconds:
            return max(1, round(steps * seconds / elapsed))
        steps = max(steps + 1, min(10 * steps, round(0.5 * steps * seconds / elapsed)))


def measure_ratios(checkouts: dict[str, Path], arguments: argparse.Namespace, agent: str, part: str) -> list[float]:
    """Return the ratio of new to old speed of a part in each pair, measured in two new processes."""
    threads = arguments.threads
    workers = {side: CheckoutProcess(path, threads) for side, path in checkouts.items()}

    def runner(worker: CheckoutProcess) -> Callable[[int], float]:
        return lambda steps: worker.ask(steps=steps, threads=threads)

    for worker in workers.values():
        worker.ask(part=part, agent=agent, mode=arguments.mode, threads=threads, overrides=arguments.words)
    measure = {side: runner(worker) for side, worker in workers.items()}
    steps = calibrate_steps(measure, arguments.seconds / _RUNS_PER_PAIR)
    ratios = measure_alternating(measure, steps, arguments.pairs)
    for worker in workers.values():
        worker.close()
    return ratios


def compare(checkouts: dict[str, Path], arguments: argparse.Namespace) -> None:
    """Measure all parts of all agents, and print a line per agent and part."""
    for agent in arguments.agents:
        for part in arguments.parts:
            rounds = range(arguments.rounds)
            ratios = [ratio for _ in rounds for ratio in measure_ratios(checkouts, arguments, agent, part)]
            print(f"{agent:8} {part:10} {ratio_text(ratios)}", flush=True)


# Cold start -------------------------------------------------------------------------------------


def time_cold_start(checkout: Path, agent: str, threads: int, overrides: Sequence[str]) -> dict[str, float]:
    """Return the seconds from a training command with an empty cache to its first ``update`` and ``return``."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [
            sys.executable,
            "-P",
            "-m",
            "train_RL_agents",
            "train",
            "--json-lines",
            "--agent",
            agent,
            "--device=cpu",
            f"--threads={threads}",
            "monitor=false",
            f"total_timesteps={_UNREACHABLE_STEPS}",
            f"eval_freq={_UNREACHABLE_STEPS}",
            *overrides,
            f"save_dir={folder}/runs",
        ]
        variables = process_environment(checkout, threads) | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"}
        began, seconds = time.perf_counter(), {}
        with subprocess.Popen(
            command, cwd=checkout, env=variables, text=True, start_new_session=True, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                entry = json.loads(line)
                if entry.get("line", "").startswith("first update"):
                    seconds["update"] = time.perf_counter() - began
                if entry.get("episode_return") is not None:
                    seconds.setdefault("return", time.perf_counter() - began)
                if len(seconds) == 2:
                    break
            # The group includes the compiling processes.
            os.killpg(process.pid, signal.SIGKILL)
    if len(seconds) < 2:
        raise SystemExit(f"{checkout}: the training of {agent} ended before its first update")
    return seconds


def compare_cold(checkouts: dict[str, Path], arguments: argparse.Namespace) -> None:
    """Start trainings in alternation, and print seconds and ratios."""
    for agent in arguments.agents:
        starts: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for number in range(arguments.pairs):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                starts[side].append(time_cold_start(checkouts[side], agent, arguments.threads, arguments.words))
        for name in ("update", "return"):
            old, new = ([measured[name] for measured in starts[side]] for side in SIDES)
            ratios = [old_seconds / new_seconds for old_seconds, new_seconds in zip(old, new, strict=True)]
            seconds = f"{statistics.median(old):.1f} s -> {statistics.median(new):.1f} s"
            print(f"{agent:8} cold start to the first {name}: {seconds}  {ratio_text(ratios)}", flush=True)


def main() -> None:
    """Compare two checkouts, or run as the worker process of one."""
    if sys.argv[1:] == ["--work"]:
        serve()
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument(
        "--parts", nargs="+", default=["world", "loop"], help="parts of `marinenav bench`, or evaluation"
    )
    parser.add_argument("--agents", nargs="+", default=["AC-IQN", "PPO"])
    parser.add_argument("--mode", default="compiled", help="eager, compiled or captured")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1, help="how often all pairs are measured in new processes")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of the runs of a side in a pair (s)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="cold starts instead of parts")
    parser.add_argument("--words", nargs="+", default=[], help="settings, name=value")
    arguments = parser.parse_args()
    checkouts = {side: getattr(arguments, side).resolve() for side in SIDES}
    (compare_cold if arguments.cold else compare)(checkouts, arguments)


if __name__ == "__main__":
    main()
