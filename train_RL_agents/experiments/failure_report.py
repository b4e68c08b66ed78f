"""Files and tables of a search for failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from marinenav_env import WorldConfig
from marinenav_env.scenarios.scenario_file import scenario_text
from marinenav_env.support.validation import require
from train_RL_agents.config.reading import to_dict
from train_RL_agents.evaluation.judging.policies import EvaluatedPolicy
from train_RL_agents.experiments.failures import SearchResult, distinct_failures, run_failures, select_reproducible
from train_RL_agents.experiments.searches import SearchSpace
from train_RL_agents.figures.episode_view import view_episode
from train_RL_agents.figures.replay_page import make_page
from train_RL_agents.utils.files import make_folder, write_atomically
from train_RL_agents.utils.provenance import software_versions
from train_RL_agents.utils.table import Column, Table

SCENARIO_FILE = "failures.json"
METRICS_FILE = "falsify.json"
PAGE_FILE = "failures.html"
MAX_SHOWN_FAILURES = 200
OTHER_SEED_OFFSET = 1
"""Number that is added to the seed of the noise when the failures of a file are run once more."""
SEARCH_COLUMNS = (
    Column("method"),
    Column("episodes", format=","),
    Column("collisions", format=","),
    Column("unavoidable", format=",", meaning="of these, no manoeuvre avoids once the misbehaviour can be observed"),
    Column("unavoidable_at_sight", "at sight", ",", meaning="of these, no manoeuvre avoids from the first sight on"),
    Column("unconfirmed", format=",", meaning="collisions in encounters that stayed candidates until the contact"),
    Column("failures", format=",", meaning="collisions that were avoidable, or with --target candidates unconfirmed"),
    Column("per_1000", "per 1,000", ".1f", ("per_1000_low", "per_1000_high"), meaning="failures per 1,000 episodes"),
    Column("distinct", format=",", meaning="failures that differ in kind, behaviour or a quarter of a range"),
    Column("seconds", "seconds (s)", ".0f"),
)


def require_no_search_files(folder: Path) -> None:
    """Refuse a folder that has the files of another search."""
    for name in (SCENARIO_FILE, METRICS_FILE, PAGE_FILE):
        require(not (folder / name).exists(), "--out", str(folder), f"a folder without {name}")


def print_table(name: str, results: Sequence[SearchResult], space: SearchSpace) -> None:
    """Print the metrics of the searches."""
    rows = [{"method": result.method, **result.metrics()} for result in results]
    others = "1 other" if space.num_others == 1 else f"1 to {space.num_others} others"
    Table(SEARCH_COLUMNS, rows).print(f"Failures of {name} among {others}")
    total = sum(row["episodes"] for row in rows)
    if not any(row["failures"] for row in rows):
        highest = max(result.rate.high for result in results if result.method == results[-1].method)
        print(f"{name}: no failure in {total:,} episodes (95%: fewer than {highest:.2f} of 1,000)")


def write_files(
    folder: Path,
    evaluated: EvaluatedPolicy,
    results: Sequence[SearchResult],
    space: SearchSpace,
    world: WorldConfig,
    seed: int,
    device: torch.device,
) -> list[str]:
    """Write the scenario file, the page and the metrics, and return sentences about them."""
    make_folder(folder)
    failures = distinct_failures(results, world, seed)
    kept, recording = select_reproducible(evaluated, failures, world, seed, device)
    written: dict[str, Any] = {"written": len(kept), "distinct": len(failures)}
    sentences = []
    if recording is not None:
        again, _ = run_failures(evaluated, kept, world, seed + OTHER_SEED_OFFSET, device)
        written["fail_with_other_noise"] = float(again.double().mean())
        write_atomically(folder / SCENARIO_FILE, scenario_text([episode for episode, _ in kept]))
        sentences.append(
            f"{folder / SCENARIO_FILE}: {len(kept):,} of {len(failures):,} distinct failures without contact at "
            f"the start; all fail with --seed {seed}, {written['fail_with_other_noise']:.2f} of them with other noise"
        )
        views = [view_episode(recording, number) for number in range(1, min(len(kept), MAX_SHOWN_FAILURES) + 1)]
        write_atomically(folder / PAGE_FILE, make_page([views]))
        sentences.append(f"{folder / PAGE_FILE}: {len(views)} of them as a page")
    content = {
        "policy": evaluated.about(),
        "vessels": space.vessels,
        "behaviours": list(space.behaviours),
        "seed": seed,
        "methods": {result.method: result.metrics() for result in results},
        "scenarios": written,
        "encounters": [label for _, label in kept],
        "device": str(device),
        "world": to_dict(world),
        "versions": software_versions(),
    }
    write_atomically(folder / METRICS_FILE, json.dumps(content, indent=2, allow_nan=False) + "\n")
    return [*sentences, f"{folder / METRICS_FILE}: the figures"]
