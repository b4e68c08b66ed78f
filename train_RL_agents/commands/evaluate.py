"""Evaluate policies and baselines on the same scenarios."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.commands.choosing import (
    DEVICE_OPTION,
    POLICY_HELP,
    add_scenario_options,
    parse_html_path,
    parse_names,
    require_policies,
)

if TYPE_CHECKING:
    from train_RL_agents.evaluation.comparing.tables import Evaluation

ALL_SUITES = "all"
_OUTPUT_OPTIONS = ("report", "json", "csv", "markdown", "record")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav evaluate`` to its parser."""
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    about = f"{POLICY_HELP} or baseline (straight, apf, orca), or ONNX file; several are compared to the first"
    add("policies", metavar="POLICY", nargs="*", default=[], help=about)
    add_scenario_options(parser, ALL_SUITES)
    add("-D", "--device", **DEVICE_OPTION)
    _add_acting_options(parser)
    _add_outputs(parser)


def _add_acting_options(parser: argparse.ArgumentParser) -> None:
    add, acting = parser.add_argument, parser.add_mutually_exclusive_group()
    risk = "share of the worst outcomes to act on, for agents that know return distributions; by default agent.risk"
    acting.add_argument("--risk", metavar="X", type=float, help=risk)
    sampling = (
        "act as while training, but without added exploration: PPO, A2C and SAC sample, Rainbow keeps its noise, IQN "
        "draws its fractions if agent.random_fractions is set; refused for others"
    )
    acting.add_argument("--stochastic", action="store_true", help=sampling)
    others = "policy or baseline that steers the other vessels of suites with _own; blind:POLICY sees no objects"
    add("--others", metavar="POLICY", help=others)
    add("--shield", action="store_true", help="replace commands after which no escape manoeuvre would be left")


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the files to write, and the further judges."""
    add = parser.add_argument
    add("--report", metavar="OUT", type=parse_html_path, help="write a page with tables and failed episodes (.html)")
    add("--json", metavar="OUT", type=Path, help="write setting and figures there")
    add("--csv", metavar="OUT", type=Path, help="write the figures there")
    add("--markdown", metavar="OUT", type=Path, help="write the tables there")
    judges = "judge the same tracks by these profiles (default, tum, hagen2023, moos), too, and say where they part"
    add("--judge", metavar="NAME,...", type=parse_names, help=judges)
    add("--record", metavar="OUT", type=Path, help="write all that happens there (.npz); for one policy")


def check(arguments: argparse.Namespace) -> None:
    """Check names and options that contradict each other."""
    given = vars(arguments)
    names, error = arguments.policies, arguments.parser.error
    if not names:
        error("a POLICY is needed: a run folder, a policy file or a baseline")
    if len(set(names)) < len(names):
        error("a POLICY is given twice")
    if "record" in given and len(names) > 1:
        error("argument --record: takes one policy")
    for name in ("seed", "fresh", "record"):
        if given.get("suite") == ALL_SUITES and name in given:
            error(f"argument --{name}: not allowed with --suite {ALL_SUITES}")
    require_policies([*names, *([given["others"]] if "others" in given else [])])


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav evaluate``, and return its exit status."""
    given, names = vars(arguments), arguments.policies
    from marinenav_env.support.files import require_writable_outputs
    from marinenav_env.vessels import describe_vessel
    from train_RL_agents.environments.scoring import evaluate_all
    from train_RL_agents.evaluation.comparing.scoring import evaluate_frozen_suites
    from train_RL_agents.evaluation.comparing.tables import Result, show_all
    from train_RL_agents.evaluation.judging.policies import find_evaluated
    from train_RL_agents.run.checkpoint import NOT_EVALUATED_NOTE
    from train_RL_agents.utils.device import keep_freed_memory, resolve_device
    from train_RL_agents.utils.progress import ProgressBars

    keep_freed_memory()
    device = resolve_device(arguments.device)
    policies = {name: find_evaluated(name, given.get("which", "best"), device) for name in names}
    if "others" in given:
        given["others"] = find_evaluated(given["others"], "best", device)
    for name, evaluated in policies.items():
        trained = evaluated.trained
        if trained is not None and trained.metrics.get("note") == NOT_EVALUATED_NOTE:
            print(f"{name}: {NOT_EVALUATED_NOTE}, at {trained.env_steps:,} env-steps")
    trained = next((evaluated.trained for evaluated in policies.values() if evaluated.trained), None)
    for line in describe_vessel(trained.config.world, trained.config.eval_schedule.levels) if trained else ():
        print(line)
    require_writable_outputs(*(given[name] for name in _OUTPUT_OPTIONS if name in given))
    evaluations, bars = [], ProgressBars(quiet=False, bar=True, on_stderr=True)

    def progress(policy: str, ended: int, total: int) -> None:
        bars.show(policy, total, ended)

    bars.start()
    try:
        if given.get("suite") == ALL_SUITES:
            for evaluation in evaluate_frozen_suites(policies, given, device, progress):
                shown = "; ".join(map(Result.short_text, evaluation.results))
                print(f"{evaluation.setting['suite']}: {shown}", flush=True)
                evaluations.append(evaluation)
        else:
            evaluations.append(evaluate_all(policies, given, device, progress))
    finally:
        bars.stop()
    try:
        _write_all(given, evaluations)
    finally:
        # Shown last, because a reader such as `head` may close the output; but also shown if a disk is full.
        show_all(evaluations)
    return 0


def _write_all(given: dict[str, Any], evaluations: Sequence[Evaluation]) -> None:
    from train_RL_agents.evaluation.comparing.figures import figures_text
    from train_RL_agents.evaluation.running.recording import save
    from train_RL_agents.figures.evaluation_page import make_page
    from train_RL_agents.utils.files import write_atomically
    from train_RL_agents.utils.table import Table

    (first, *others) = evaluations
    if "json" in given and others:
        write_atomically(given["json"], figures_text(evaluations))
    elif "json" in given:
        write_atomically(given["json"], json.dumps(first.content(), indent=2, allow_nan=False) + "\n")
    if "csv" in given:
        rows = [({"suite": each.setting["suite"]} if others else {}) | row for each in evaluations for row in each.rows]
        write_atomically(given["csv"], Table.from_rows(rows).csv())
    if "markdown" in given:
        write_atomically(given["markdown"], "\n".join(each.markdown() for each in evaluations))
    if "report" in given:
        write_atomically(given["report"], make_page(evaluations))
    if first.recording is not None:
        save(first.recording, given["record"])
