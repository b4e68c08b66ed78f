"""Make the stored entries of the benchmark, the page of their table, and the tables of the policies' cards.

    python -m tools.make_entries                 # of all shipped policies, and of the baselines that have an entry
    python -m tools.make_entries iqn dqn orca    # of these, where the other entries are current
    python -m tools.make_entries --again ppo     # keep no stored result

Results of a stored entry are kept where the policy's file, the hash of the scenarios and the seed are the same; those
of suites with metrics of compliance only where the version of the benchmark is the same, too. ``program.kept`` of the
entry names the suites that were kept, with the revision that made them. ``--again`` runs everything.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import torch

from marinenav_env.support.validation import ConfigError
from train_RL_agents.commands.submit import run_suites
from train_RL_agents.evaluation import frozen
from train_RL_agents.evaluation.entry import (
    BENCHMARK_VERSION,
    Entry,
    SuiteResult,
    read_entry,
    read_entry_of_any_version,
)
from train_RL_agents.evaluation.ranking import markdown_page
from train_RL_agents.exporting.exported import find_contender
from train_RL_agents.results.rows import OVERALL
from train_RL_agents.utils.files import write_atomically
from train_RL_agents.utils.shipped import shipped_paths

ROOT = Path(__file__).parents[1]
ENTRIES_FOLDER = Path("docs/results/entries")
"""Folder of the entries in a checkout."""
PAGE_PATH = Path("docs/benchmark.md")
"""Page with the table of all entries in a checkout."""
CARD_COLUMNS = ("suite", "episodes", "success", "vessels that arrive", "time (s)", "astern", "rules kept")
"""Columns of the table in a policy's card, with a row per suite."""
CARD_HEADER = f"| {' | '.join(CARD_COLUMNS)} |\n|{'---|' * len(CARD_COLUMNS)}\n"


def reusable_suites(path: Path, policy: dict[str, Any]) -> tuple[dict[str, SuiteResult], str]:
    """Return the results of a stored entry that need not be computed again, and a text on the revisions that made them.

    Args:
        path: file of the entry, which need not exist.
        policy: description of the policy, see ``frozen.describe_policy``.
    """
    if not path.exists():
        return {}, ""
    version, entry = read_entry_of_any_version(path)
    same = ("agent", "sha256")
    if any(entry.policy.get(name) != policy[name] for name in same):
        return {}, ""
    suites = {
        name: entry.suites[name]
        for name, fixed in frozen.FROZEN_SUITES.items()
        if name in entry.suites
        and (entry.suites[name].scenarios, entry.suites[name].seed) == (fixed.scenarios, frozen.BENCHMARK_SEED)
        and (version == BENCHMARK_VERSION or not entry.suites[name].compliance)
    }
    earlier = str(entry.program.get("kept", ""))
    before = {*re.split(r"[ ,;]+", earlier)} & frozen.FROZEN_SUITES.keys()
    if before - suites.keys():  # the text would name a suite that is run again
        suites, earlier = {name: result for name, result in suites.items() if name not in before}, ""
    made = [name for name in suites if name not in before]
    source = f"{', '.join(made)} of revision {entry.program.get('revision')}, {entry.made}" if made else ""
    return suites, "; ".join(filter(None, (source, earlier)))


def make_entry(name: str, path: Path, again: bool) -> None:
    """Run the suites of a policy or baseline whose results cannot be kept, and write its entry if there are any.

    Args:
        name: name of a shipped policy or a baseline.
        path: file of the entry.
        again: whether all suites are run.
    """
    contender = find_contender(name, "best", torch.device("cpu"))
    policy = frozen.describe_policy(contender, name)
    kept, source = ({}, "") if again else reusable_suites(path, policy)
    missing = [suite for suite in frozen.FROZEN_SUITES if suite not in kept]
    print(f"{name}: {len(kept)} results are kept, {len(missing)} suites are run", flush=True)
    if not missing:
        return
    suites = kept | run_suites(contender, missing, torch.device("cpu"))
    entry = frozen.make_entry(policy, {suite: suites[suite] for suite in frozen.FROZEN_SUITES})
    if kept:
        entry.program["kept"] = source
    write_atomically(path, entry.to_json())


def write_card(path: Path, entry: Entry) -> None:
    """Replace the table in a policy's card, if it has one, by the table of the policy's entry."""
    before, header, rest = path.read_text().partition(CARD_HEADER)
    if header:
        _, gap, after = rest.partition("\n\n")
        write_atomically(path, before + header + "\n".join(card_rows(entry)) + gap + after)


def card_rows(entry: Entry) -> list[str]:
    """Return the rows of a card's table as Markdown, one for each suite."""
    rows = []
    for name, result in entry.suites.items():
        row, kept = result.table[OVERALL], result.compliance.get(OVERALL, {}).get("rules_kept")
        shares = {name: group["compliance"] for name, group in result.compliance.items() if "compliance" in group}
        cells = (
            f"`{name}`",
            f"{row['episodes']:,}",
            f"{row['success_rate']:.3f} ({row['success_low']:.3f} to {row['success_high']:.3f})",
            f"{row['robot_success_rate']:.3f}",
            "-" if row["avg_time"] is None else f"{row['avg_time']:.1f}",
            f"{result.astern:.3f}",
            shares_text(shares) if shares else "-" if kept is None else f"{kept:.2f}",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def shares_text(shares: dict[str, float]) -> str:
    """Return shares by kind of encounter as text, such as "0.91 head-on, else 0.98" with the largest share last."""
    most = f"{max(shares.values()):.2f}"
    others = [f"{share:.2f} {kind}" for kind, share in shares.items() if f"{share:.2f}" != most]
    return f"{', '.join(others)}, else {most}" if others else f"{most} each kind"


def main(argv: list[str] | None = None) -> int:
    """Make entries, the page and the cards; return 1 with a message if an entry cannot be used, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="shipped policy or baseline; all that are shipped")
    parser.add_argument("--again", action="store_true", help="run all suites, and keep no stored result")
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout whose files are written")
    arguments = parser.parse_args(argv)
    torch.set_num_threads(1)
    folder = arguments.root / ENTRIES_FOLDER
    names = arguments.names or sorted({*shipped_paths("pretrained"), *(path.stem for path in folder.glob("*.json"))})
    try:
        for name in names:
            make_entry(name, folder / f"{name}.json", arguments.again)
        entries = {path.stem: read_entry(path) for path in sorted(folder.glob("*.json"))}
        for name, entry in entries.items():
            frozen.require_frozen(entry, folder / f"{name}.json")
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    write_atomically(arguments.root / PAGE_PATH, markdown_page(entries, f"Benchmark {BENCHMARK_VERSION}"))
    for name, entry in entries.items():
        card = arguments.root / "pretrained" / name / "README.md"
        if card.exists():
            write_card(card, entry)
    return 0


if __name__ == "__main__":
    sys.exit(main())
