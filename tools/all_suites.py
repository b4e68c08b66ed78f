"""Evaluate all policies of pretrained/ and all baselines on all suites, and write the tables.

    python tools/all_suites.py                  # the sizes of docs/suites.md
    python tools/all_suites.py --episodes 2     # a quick look: so many a level or group
    python tools/all_suites.py --suites rules   # this one alone; the page shows all that are there

Each suite is one `marinenav evaluate`, whose figures go to docs/results/suite_NAME.json and .csv;
docs/suites.md is made of these files. A suite that the same command has finished before is left as
it is, so that an interrupted run continues; --again repeats it, which is needed when policies
or code have changed. --out is below the repository.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from train_RL_agents.baselines import BASELINES
from train_RL_agents.cli import main as marinenav
from train_RL_agents.evaluation.suites import RULES, SUITES
from train_RL_agents.evaluation.tables import CONDUCT, markdown_table
from train_RL_agents.utils.files import write_atomically

ROOT = Path(__file__).parents[1]
SEED = 12345
"""Of suites that have no seed of their own."""
SIZES = {"currents": 300, "crowd": 100}
"""Episodes of suites that are larger here than by default; vessels are counted in these, too."""


def contenders() -> list[str]:
    """Trained policies, then baselines, as `marinenav evaluate` takes them."""
    trained = sorted(file.parent for file in (ROOT / "pretrained").glob("*/policy.pt"))
    return [path.relative_to(ROOT).as_posix() for path in trained] + list(BASELINES)


# The figures ------------------------------------------------------------------------------------


def command(suite: str, names: Sequence[str], episodes: int | None) -> list[str]:
    """The words that evaluate a suite, the same on every machine."""
    words = ["evaluate", *names, "--suite", suite]
    if SUITES[suite].seed is None:
        words += ["--seed", str(SEED)]
    episodes = SIZES.get(suite) if episodes is None else episodes
    if episodes is not None and not SUITES[suite].fixed:
        words += ["--episodes", str(episodes)]
    return words


def evaluate(suite: str, names: Sequence[str], words: list[str], stem: Path) -> int:
    """Run a suite and write its files; the status of the command."""
    partial = stem.with_suffix(".partial")
    files = ["--json", str(partial), "--csv", str(stem.with_suffix(".csv"))]
    began = time.perf_counter()
    status = marinenav([*words, *files])
    if status != 0:
        return status
    content = read(partial)
    # Without paths of this machine.
    for policy, name in zip(content["policies"], names, strict=True):
        if policy["about"]["checkpoint"] is not None:
            policy["about"]["checkpoint"] = f"{name}/policy.pt"
    about = {"command": " ".join(["marinenav", *words]),
             "seconds": round(time.perf_counter() - began)}  # fmt: skip
    text = json.dumps(about | content, indent=2) + "\n"
    write_atomically(stem.with_suffix(".json"), text)
    partial.unlink()
    return 0


def read(path: Path) -> dict[str, Any]:
    """A JSON file; empty if it is not there."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


# The page ---------------------------------------------------------------------------------------


def share(row: dict[str, Any]) -> str:
    """A success rate with its interval."""
    return f"{row['success_rate']:.3f} ({row['success_low']:.2f} to {row['success_high']:.2f})"


def short(name: str) -> str:
    """A policy's name in tables."""
    return name.rpartition("/")[2]


def overview(found: dict[str, dict[str, Any]]) -> str:
    """Success of every policy on every suite."""
    suites = [by_name(content) for content in found.values()]
    # A suite that was run before a policy was there lacks it.
    names = dict.fromkeys(name for suite in suites for name in suite)
    rows = [[short(name), *(share(suite[name]["figures"]["overall"]) if name in suite else "-"
                            for suite in suites)] for name in names]  # fmt: skip
    return markdown_table(["", *found], rows)


def by_name(content: dict[str, Any]) -> dict[str, Any]:
    """The policies of a file by their names."""
    return {policy["name"]: policy for policy in content["policies"]}


def groups_table(content: dict[str, Any]) -> str:
    """Success by group, with time, energy and how the other episodes fail."""
    groups = list(content["policies"][0]["figures"])
    shown = [group for group in groups if group != "overall"]
    rows = []
    for policy in content["policies"]:
        figures, overall = policy["figures"], policy["figures"]["overall"]
        means = [("-" if overall[name] is None else f"{overall[name]:.{digits}f}")
                 for name, digits in (("avg_time", 1), ("avg_energy", 0))]  # fmt: skip
        rows.append([short(policy["name"]), *(f"{figures[each]['success_rate']:.2f}"
                     for each in shown), f"{overall['collision_rate']:.3f}",
                     f"{overall['timeout_rate']:.3f}", *means])  # fmt: skip
    return markdown_table(["", *shown, "collision", "time-out", "time (s)", "energy (N s)"], rows)


def vessels_table(content: dict[str, Any]) -> str:
    """Share of single vessels that arrive, by group."""
    groups = list(content["policies"][0]["figures"])
    rows = [[short(policy["name"]), *(f"{policy['figures'][each]['robot_success_rate']:.3f}"
             for each in groups)] for policy in content["policies"]]  # fmt: skip
    return markdown_table(["", *groups], rows)


def conduct_table(content: dict[str, Any]) -> str:
    """Share of encounters in which the rules of the sea were kept."""
    encounters = list(content["policies"][0]["conduct"])
    rows = [[short(policy["name"]), *(f"{policy['conduct'][each]['compliance']:.2f}"
             for each in encounters)] for policy in content["policies"]]  # fmt: skip
    return markdown_table(["", *encounters], rows)


INTRODUCTION = """# All policies on all suites

**Rules of the sea.** Nothing enforces them. `ppo_rules` is trained with penalties by role and keeps
them if the others do; how often the others keep them is in the last table of this page.

The policies of `pretrained/` and the baselines, by the rule that each acts by if nothing else is
said. What the suites are is in [evaluation](evaluation.md). This page, and the JSON and CSV files
`docs/results/suite_NAME.*` that it is made of, are written by one command (sizes are those below;
without `--episodes` they are 300 of `currents`, 100 a group of `crowd`, else the suites' own):

```bash
python tools/all_suites.py
```

Success of all episodes of a suite, with 95% Wilson intervals. All policies met the same scenarios;
those of `paper` were used to choose among the policies of a run, so its figures are optimistic.
Policies were trained with up to 5 vessels and 4 obstacles, without currents and with the published
noise:

"""


def page(found: dict[str, dict[str, Any]]) -> str:
    """The whole page in Markdown."""
    parts = [INTRODUCTION, overview(found)]
    missing = [suite for suite in SUITES if suite not in found]
    if missing:
        parts.append(f"\nNot run yet: {', '.join(missing)}.\n")
    for suite, content in found.items():
        about, setting = SUITES[suite].about, content["setting"]
        options = content["command"].partition(" --suite ")[2]
        size = f"{setting['episodes']} episodes in all (`--suite {options}`)"
        parts.append(f"\n## {suite}\n\n{about[0].upper()}{about[1:]}; {size}. Success by group; "
                     "collisions, time-outs, travel time and energy of all:\n\n")  # fmt: skip
        parts.append(groups_table(content))
        if suite in SIZES:
            parts.append("\nShare of vessels that arrive where the others go on after a collision:"
                         f"\n\n{vessels_table(content)}")  # fmt: skip
        if suite == RULES:
            parts.append(f"\nRules kept ({CONDUCT['compliance']}):\n\n{conduct_table(content)}")
    return "".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Evaluate what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--suites", nargs="+", choices=SUITES, default=list(SUITES), help="all by default")
    add("--episodes", type=int, help="a level or group; by default the suite's")
    add("--again", action="store_true", help="also what the same command has finished")
    add("--out", type=Path, default=Path("docs"), help="folder of the page; docs by default")
    args = parser.parse_args(argv)
    os.chdir(ROOT)
    names, results = contenders(), args.out / "results"
    results.mkdir(parents=True, exist_ok=True)
    for suite in args.suites:
        words, stem = command(suite, names, args.episodes), results / f"suite_{suite}"
        done = read(stem.with_suffix(".json")).get("command") == " ".join(["marinenav", *words])
        status = 0 if done and not args.again else evaluate(suite, names, words, stem)
        if status != 0:
            return status
        found = {name: read(results / f"suite_{name}.json") for name in SUITES}
        (args.out / "suites.md").write_text(page({k: v for k, v in found.items() if v}), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
