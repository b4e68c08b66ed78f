"""Compare hashes of computed values before and after a change that should keep behaviour.

    python -m tools.guard --out before.json
    python -m tools.guard --against before.json
    python -m tools.guard --parts eager --agents PPO

Hashes depend on the processor and on the version of torch, so compare lines printed on the same
machine. Parts, with their time on one core:

- suites (5 s): scenarios of every suite of the benchmark.
- policies (10 s): evaluation of every shipped policy on the fixed 60 scenarios.
- gpu (1 min): for one agent per algorithm, the steps that a GPU captures, run on the CPU; and the number of
  operators on the fake GPU of the tests, which this tool imports.
- eager (4 to 5 min): training of every agent for 60,000 env-steps, not compiled and with a fixed seed: final weights,
  evaluations and the replay buffer, if there is one.
- compiled (1.5 min, longer with an empty cache): the same for one agent per algorithm, compiled.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from tools.guard_parts import PARTS
from train_RL_agents.agents import AGENTS


def comparison_line(values: dict[str, str | float], expected: dict[str, str | float] | None) -> tuple[str, int]:
    """Return computed values as text with their differences from expected ones, and the number of differences.

    A hash that differs and a value that is gone count as differences; a number that has changed does not.

    Args:
        values: hashes and other values by name.
        expected: values to compare with; None: no comparison.
    """
    entries, differing = [], 0
    for name, value in values.items():
        entry = f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}"
        if expected is not None and expected.get(name) != value:
            is_hash = isinstance(value, str)
            differing += is_hash
            entry += " DIFFERS" if is_hash else f" (was {expected.get(name)})"
        entries.append(entry)
    missing = [] if expected is None else [name for name in expected if name not in values]
    entries += [f"{name} IS GONE" for name in missing]
    return "  ".join(entries), differing + len(missing)


def main(argv: list[str] | None = None) -> int:
    """Compute and print hashes, compare them with ``--against``, and return 1 if any differs or is gone, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--out", type=Path, help="write the lines to this file")
    parser.add_argument("--against", type=Path, help="compare with the lines in this file")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    expected = json.loads(arguments.against.read_text()) if arguments.against else {}
    computed, differing = {}, 0
    for part in arguments.parts:
        began = time.perf_counter()
        for name, values in PARTS[part](arguments.agents):
            computed[name] = values
            line, different = comparison_line(values, expected.get(name))
            differing += different
            note = "  NEW" if expected and name not in expected else ""
            print(f"{name:24} {line}{note}", flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(computed, indent=1) + "\n")
        print(f"# {part}: {time.perf_counter() - began:.0f} s", flush=True)
    if expected:
        print(f"{differing} of the hashes differ" if differing else "every hash is as before")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
