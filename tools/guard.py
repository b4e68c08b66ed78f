"""Hashes of what the program computes: the same before and after a change that keeps behaviour.

    python -m tools.guard --out before.json
    python -m tools.guard --against before.json
    python -m tools.guard --parts eager --agents PPO

Hashes depend on the processor and on the version of torch, so compare lines printed on the same
machine. Parts, with their time on one core:

- suites (5 s): the scenarios of every suite of the benchmark.
- policies (10 s): every shipped policy on the fixed 60 scenarios.
- gpu (1 min): for an agent of each algorithm, the steps that a GPU captures, run on the CPU; and
  operators counted on the faked GPU of the tests, which this tool imports.
- eager (4 to 5 min): every agent trains 60,000 env-steps, not compiled and with a fixed seed:
  final weights, evaluations and the replay buffer, if there is one.
- compiled (1.5 min, longer with an empty cache): the same for an agent of each algorithm in
  generated code.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import torch

from tools.guard_parts import AGENTS, PARTS


def text(values: dict[str, str | float], known: dict[str, str | float] | None) -> tuple[str, int]:
    """Return a line's hashes and figures as text, and how many hashes differ.

    Args:
        values: by name.
        known: those of before; None: nothing to compare with.
    """
    words, differing = [], 0
    for name, value in values.items():
        word = f"{name} {value}" if isinstance(value, str) else f"{name} {value:g}"
        if known is not None and known.get(name) != value:
            hashed = isinstance(value, str)
            differing += hashed
            word += " DIFFERS" if hashed else f" (was {known.get(name)})"
        words.append(word)
    gone = [] if known is None else [name for name in known if name not in values]
    words += [f"{name} IS GONE" for name in gone]
    return "  ".join(words), differing + len(gone)


def main(words: list[str] | None = None) -> int:
    """Compute, print, and compare if asked to; return 1 where a hash differs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--agents", nargs="+", choices=AGENTS, default=list(AGENTS))
    parser.add_argument("--out", type=Path, help="write the lines to this file")
    parser.add_argument("--against", type=Path, help="compare with the lines in this file")
    arguments = parser.parse_args(words)
    torch.set_num_threads(1)
    known = json.loads(arguments.against.read_text()) if arguments.against else {}
    found, differing = {}, 0
    for part in arguments.parts:
        began = time.perf_counter()
        for name, values in PARTS[part](arguments.agents):
            found[name] = values
            shown, more = text(values, known.get(name))
            differing += more
            new = "  NEW" if known and name not in known else ""
            print(f"{name:24} {shown}{new}", flush=True)
            if arguments.out:
                arguments.out.write_text(json.dumps(found, indent=1) + "\n")
        print(f"# {part}: {time.perf_counter() - began:.0f} s", flush=True)
    if known:
        print(f"{differing} of the hashes differ" if differing else "every hash is as before")
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main())
