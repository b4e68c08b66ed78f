"""Run the benchmark with a policy, and write an entry, a certificate page or a table of entries."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from train_RL_agents.commands.choosing import parse_episode_count, reject_excluded

if TYPE_CHECKING:
    import torch

    from train_RL_agents.evaluation.contenders import Contender
    from train_RL_agents.evaluation.entry import Entry, SuiteResult

IMPORTS = ("train_RL_agents.api",)
_RUN_OPTIONS = ("which", "episodes", "long", "device")
"""Options of running a policy, which have no effect if no policy is run."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav submit`` to its parser."""
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add(
        "policy",
        metavar="POLICY",
        nargs="?",
        default=None,
        help="run folder, policy or exported file, name of "
        "a shipped policy or baseline; or an entry (.json), which is not run again",
    )
    add("--which", metavar="NAME", help="of a run: best (default), latest or a file's name")
    add("--out", metavar="FILE", type=Path, help="write the entry there (.json); with --table, the table (.md)")
    add("--certificate", metavar="FILE", type=Path, help="write the page there (.html)")
    add("--table", metavar="DIR", type=Path, help="compare the entries of a folder, each *.json in it, instead")
    add(
        "--episodes",
        metavar="N",
        type=parse_episode_count,
        help="a quick look: so many a level or group; tables refuse such an entry",
    )
    add(
        "--long",
        action="store_true",
        help="run the suite long as well, 10,000 vessel-hours for rare collisions",
    )
    add("-D", "--device", metavar="DEV", help="auto (default), cpu, cuda, cuda:N")


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav submit``, and return its exit status."""
    from marinenav_env.support.files import require_writable_outputs
    from train_RL_agents.utils.files import write_atomically

    given, error = vars(arguments), arguments.parser.error
    outputs = given.keys() & {"out", "certificate"}
    if ("table" in given) == (arguments.policy is not None):
        error("either a POLICY or --table DIR is needed")
    reject_excluded(arguments.parser, given, "table", ("certificate", *_RUN_OPTIONS))
    for name in _RUN_OPTIONS:
        if name in given and str(arguments.policy).endswith(".json"):
            error(f"argument --{name}: not allowed with an entry, which is not run again")
    if "table" not in given and not outputs:
        error("--out FILE or --certificate FILE is needed")
    require_writable_outputs(*(given[name] for name in outputs))
    if "table" in given:
        _print_ranking(given["table"], given.get("out"))
        return 0
    entry = _make_entry(arguments)
    if "out" in given:
        write_atomically(given["out"], entry.to_json())
    if "certificate" in given:
        from train_RL_agents.figures.certificate import make_page

        write_atomically(given["certificate"], make_page(entry))
    return 0


def _make_entry(arguments: argparse.Namespace) -> Entry:
    """Return the entry in a file, or run the benchmark with a policy and return its entry."""
    from train_RL_agents.evaluation import frozen
    from train_RL_agents.evaluation.contenders import require_which
    from train_RL_agents.evaluation.entry import read_entry
    from train_RL_agents.exporting.exported import find_contender
    from train_RL_agents.utils.device import keep_freed_memory, resolve_device

    if arguments.policy.endswith(".json"):
        return read_entry(Path(arguments.policy))
    given = vars(arguments)
    keep_freed_memory()
    device = resolve_device(given.get("device", "auto"))
    found = find_contender(arguments.policy, given.get("which", "best"), device)
    require_which([found], given)
    names = (*frozen.FROZEN_SUITES, *(frozen.OPTIONAL_SUITES if "long" in given else ()))
    suites = run_suites(found, names, device, given.get("episodes"))
    return frozen.make_entry(frozen.describe_policy(found, arguments.policy), suites)


def run_suites(
    contender: Contender, names: Iterable[str], device: torch.device, episodes: int | None = None
) -> dict[str, SuiteResult]:
    """Run suites of the benchmark with a policy, print a line for each, and return the results by name of the suite.

    ``episodes`` is the number per level or group of a suite; None for the suite's own.
    """
    from train_RL_agents.evaluation import frozen

    suites = {}
    for name in names:
        began = time.perf_counter()
        result = suites[name] = frozen.run_suite(contender, name, device, episodes)
        report = result.table["overall"]
        print(
            f"{name}: {report['episodes']:,} episodes, success {report['success_rate']:.3f}, "
            f"{time.perf_counter() - began:.0f} s",
            flush=True,
        )
    return suites


def _print_ranking(folder: Path, out: Path | None) -> None:
    """Print the tables that compare a folder's entries, and write them as Markdown to ``out`` if it is given."""
    from marinenav_env.support.validation import require
    from train_RL_agents.evaluation.entry import BENCHMARK_VERSION, read_entry
    from train_RL_agents.evaluation.frozen import require_frozen
    from train_RL_agents.evaluation.ranking import common_suites, leading_tables, markdown_page, ranking_table, tie_text
    from train_RL_agents.utils.files import write_atomically

    paths = sorted(folder.glob("*.json"))
    require(len(paths) > 0, "--table", str(folder), "a folder with entries (*.json)")
    entries = {path.stem: read_entry(path) for path in paths}
    for path in paths:
        require_frozen(entries[path.stem], path)
    heading = f"Benchmark {BENCHMARK_VERSION}"
    for title, table in leading_tables(entries).items():
        table.print(title)
        print()
    ranking_table(entries).print(heading)
    for suite in common_suites(entries):
        print(f"{suite}: {tie_text(entries, suite)}")
    if out is not None:
        write_atomically(out, markdown_page(entries, heading))
