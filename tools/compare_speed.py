"""Ratios of the speeds of two checkouts on this machine, measured in turn.

    python tools/compare_speed.py OLD NEW --parts world loop --agents PPO AC-IQN --pairs 8
    python tools/compare_speed.py OLD NEW --cold --agents AC-IQN --pairs 2

Each checkout is a process that stays alive, with this interpreter and its own sources. A pair is
eight runs of the old and eight of the new one, of as many steps and never at once; which goes first
alternates. A ratio is the new speed over the old one: above 1 is faster. With one thread it is that
of processor time, which other programs disturb less. With ``--cold`` a pair is two trainings with
an empty cache of generated code, from the command to the first update and to the first return of
training episodes.

Memory may lie better in one process than in another, which pairs do not average out: ``--rounds``
starts new processes.
"""

from __future__ import annotations

import argparse
import importlib.util
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
_LONG = 1_000_000
"""Env-steps that a cold start may take."""
_RUNS = 8
"""Of each side in a pair."""


# In the process of a checkout -------------------------------------------------------------------


def work() -> None:
    """Answer lines of JSON on standard input: make a benchmark, or run it for so many steps."""
    answers, sys.stdout = sys.stdout, sys.stderr
    import marinenav_env

    benchmark: Any = None
    close: Callable[[], None] = lambda: None  # noqa: E731
    print(json.dumps(str(Path(marinenav_env.__file__).parents[1])), file=answers, flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        answer: Any = None
        if "part" in asked:
            benchmark, close = made(**asked)
        elif "steps" in asked:
            clock = time.process_time if asked["threads"] == 1 else time.perf_counter
            began = clock()
            benchmark(asked["steps"])
            answer = clock() - began
        else:
            close()
        print(json.dumps(answer), file=answers, flush=True)


def made(
    part: str, agent: str, mode: str, threads: int, words: Sequence[str]
) -> tuple[Callable[[int], object], Callable[[], None]]:
    """Make what is measured, compiled: a function that makes steps, and one that ends it."""
    import torch

    torch.set_num_threads(threads)
    if part == "evaluation":
        return evaluation(agent), lambda: None
    # The other checkout may have them elsewhere: name every place.
    sized = imported("sized", "speed.options")
    fixture_of = imported("Fixture", "speed.fixture")
    load_config = imported("load_config", "config.reading")
    # The variable OMP_NUM_THREADS says how many threads: checkouts may name the setting otherwise.
    fixture = fixture_of(sized(load_config(None, [f"agent_type={agent}", *words])), mode)
    benchmark = getattr(fixture, part)()
    for _ in range(2):  # layouts may change after the first pass, and are compiled once more
        benchmark.run(benchmark.least)
    return benchmark.run, fixture.close


def imported(name: str, *modules: str) -> Any:
    """Return what has a name in the first of some modules of the trainer that there is."""
    for module in modules:
        if importlib.util.find_spec(f"train_RL_agents.{module.partition('.')[0]}"):
            return getattr(importlib.import_module(f"train_RL_agents.{module}"), name)
    raise SystemExit(f"{name} is in none of {', '.join(modules)}: add its module to this script")


def evaluation(agent: str) -> Callable[[int], None]:
    """Evaluate a shipped policy on 100 scenarios of each level; a step is one evaluation."""
    from train_RL_agents.api import load

    policy = load(agent.lower().replace("-", "_"))

    def run(steps: int) -> None:
        for _ in range(steps):
            policy.evaluate(episodes=100)

    return run


# In turn ----------------------------------------------------------------------------------------


class Worker:
    """The process of a checkout.

    Args:
        checkout: its folder.
        threads: of every library.
    """

    def __init__(self, checkout: Path, threads: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(HERE), "--work"],
            cwd=checkout,
            text=True,
            env=environment(checkout, threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        found = self._read()
        if Path(found) != checkout:
            raise SystemExit(f"{checkout}: python imports marinenav_env from {found}")

    def ask(self, **what: Any) -> Any:
        """Send a question; returns the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with status {self._process.wait()}; see above")
        return json.loads(line)

    def close(self) -> None:
        """End the process, once it has ended what it made."""
        self.ask()
        self._process.communicate()


def environment(checkout: Path, threads: int) -> dict[str, str]:
    """Return the environment of a process of a checkout."""
    own = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return os.environ | own | {"PYTHONPATH": str(checkout)}


Measures = dict[str, Callable[[int], float]]
"""Of each side, seconds that so many steps take."""


def in_turn(measure: Measures, steps: int, pairs: int) -> list[float]:
    """Return ratios of the old seconds to the new ones; the first of two runs alternates."""
    ratios = []
    for _ in range(pairs):
        seconds = dict.fromkeys(SIDES, 0.0)
        for number in range(_RUNS):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                seconds[side] += measure[side](steps)
        ratios.append(seconds["old"] / seconds["new"])
    return ratios


def summary(ratios: Sequence[float]) -> str:
    """Return the median ratio, its standard error from the spread of pairs, and the range."""
    middle = statistics.median(ratios)
    deviation = statistics.median(abs(each - middle) for each in ratios)
    error = 1.253 * 1.4826 * deviation / math.sqrt(len(ratios))
    return f"new/old {middle:.3f} +- {error:.3f}  ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} pairs)"


def calibrated(measure: Measures, seconds: float) -> int:
    """Return steps that take about so many seconds; both sides make equally many on the way."""
    steps = 1
    while True:
        took = max(run(steps) for run in measure.values())
        if took >= 0.2 * seconds:
            return max(1, round(steps * seconds / took))
        steps = max(steps + 1, min(10 * steps, round(0.5 * steps * seconds / took)))


def ratios_of(checkouts: dict[str, Path], arguments: argparse.Namespace, agent: str, part: str) -> list[float]:
    """Return the ratios of a part, from new processes."""
    threads = arguments.threads
    workers = {side: Worker(path, threads) for side, path in checkouts.items()}

    def runs(worker: Worker) -> Callable[[int], float]:
        return lambda steps: worker.ask(steps=steps, threads=threads)

    for worker in workers.values():
        worker.ask(part=part, agent=agent, mode=arguments.mode, threads=threads, words=arguments.words)
    measure = {side: runs(worker) for side, worker in workers.items()}
    steps = calibrated(measure, arguments.seconds / _RUNS)
    found = in_turn(measure, steps, arguments.pairs)
    for worker in workers.values():
        worker.close()
    return found


def compare(checkouts: dict[str, Path], arguments: argparse.Namespace) -> None:
    """Measure every part of every agent in turn, and print a line each."""
    for agent in arguments.agents:
        for part in arguments.parts:
            rounds = range(arguments.rounds)
            ratios = [each for _ in rounds for each in ratios_of(checkouts, arguments, agent, part)]
            print(f"{agent:8} {part:10} {summary(ratios)}", flush=True)


# Cold start -------------------------------------------------------------------------------------


def cold_start(checkout: Path, agent: str, threads: int, words: Sequence[str]) -> dict[str, float]:
    """Return seconds from a command with an empty cache to the first update and return."""
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
            f"total_timesteps={_LONG}",
            f"eval_freq={_LONG}",
            *words,
            f"save_dir={folder}/runs",
        ]
        own = environment(checkout, threads) | {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"}
        began, found = time.perf_counter(), {}
        with subprocess.Popen(
            command, cwd=checkout, env=own, text=True, start_new_session=True, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                told = json.loads(line)
                if told.get("line", "").startswith("first update"):
                    found["update"] = time.perf_counter() - began
                if told.get("episode_return") is not None:
                    found.setdefault("return", time.perf_counter() - began)
                if len(found) == 2:
                    break
            # Those that compile, too.
            os.killpg(process.pid, signal.SIGKILL)
    if len(found) < 2:
        raise SystemExit(f"{checkout}: the training of {agent} ended before its first update")
    return found


def compare_cold(checkouts: dict[str, Path], arguments: argparse.Namespace) -> None:
    """Start training in turn, and print seconds and ratios."""
    for agent in arguments.agents:
        seen: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
        for number in range(arguments.pairs):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                seen[side].append(cold_start(checkouts[side], agent, arguments.threads, arguments.words))
        for name in ("update", "return"):
            old, new = ([each[name] for each in seen[side]] for side in SIDES)
            ratios = [before / after for before, after in zip(old, new, strict=True)]
            seconds = f"{statistics.median(old):.1f} s -> {statistics.median(new):.1f} s"
            print(f"{agent:8} cold start to the first {name}: {seconds}  {summary(ratios)}", flush=True)


def main() -> None:
    """Compare two checkouts, or be the process of one."""
    if sys.argv[1:] == ["--work"]:
        work()
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--parts", nargs="+", default=["world", "loop"], help="of `marinenav bench`, or evaluation")
    parser.add_argument("--agents", nargs="+", default=["AC-IQN", "PPO"])
    parser.add_argument("--mode", default="compiled", help="eager, compiled or captured")
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=1, help="new processes, each for all pairs")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a side in a pair")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cold", action="store_true", help="cold starts instead of parts")
    parser.add_argument("--words", nargs="+", default=[], help="settings, name=value")
    arguments = parser.parse_args()
    checkouts = {side: getattr(arguments, side).resolve() for side in SIDES}
    (compare_cold if arguments.cold else compare)(checkouts, arguments)


if __name__ == "__main__":
    main()
