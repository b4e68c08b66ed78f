"""Search for encounters in which a policy collides although it need not."""

from __future__ import annotations

import argparse
from pathlib import Path

from train_RL_agents.commands.choosing import DEVICE_OPTION, POLICY_HELP, WHICH_OPTION, parse_count, require_policies

METHODS = ("cross-entropy", "random")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav falsify`` to its parser."""
    parser.argument_default = argparse.SUPPRESS
    add = parser.add_argument
    add("policy", metavar="POLICY", help=f"{POLICY_HELP} or baseline, or ONNX file, which steers vessel 1")
    add("--which", **WHICH_OPTION)
    add("--out", metavar="DIR", type=Path, required=True, help="folder of scenarios, replay and figures of failures")
    add("--episodes", metavar="N", type=parse_count, default=4000, help="budget of each search (4,000)")
    add("--vessels", metavar="N", type=int, default=3, help="largest number of vessels, from 2 to 6; 3 by default")
    acts = "keep, act_late, turn_wrong, stop, speed_up, lose_left, lose_right, see_nothing"
    add("--behaviours", metavar="NAME", nargs="+", help=f"what the others do: {acts}; all by default")
    searches = "cross-entropy method, random encounters, or both (default) with the same budget"
    add("--method", choices=(*METHODS, "both"), default="both", help=searches)
    targets = "avoidable collisions (default), or those in encounters that are candidates until the contact"
    add("--target", choices=("avoidable", "candidates"), default="avoidable", help=targets)
    add("--seed", metavar="N", type=int, default=0, help="seed of encounters and noise; 0 by default")
    add("-D", "--device", **DEVICE_OPTION)


def check(arguments: argparse.Namespace) -> None:
    """Check the name of the policy."""
    require_policies([arguments.policy])


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav falsify``, and return its exit status."""
    from marinenav_env.levels import DRAWN_BEHAVIOURS
    from marinenav_env.support.files import require_writable_folder
    from marinenav_env.support.validation import require
    from train_RL_agents.config.schema import MAX_SEED
    from train_RL_agents.evaluation.comparing.selection import default_schedule_and_world
    from train_RL_agents.evaluation.judging.policies import find_evaluated
    from train_RL_agents.evaluation.suites.passing_encounters import Encounters
    from train_RL_agents.experiments.failure_report import print_table, require_no_search_files, write_files
    from train_RL_agents.experiments.failures import SearchResult, run_encounters, run_search
    from train_RL_agents.experiments.searches import SearchSpace, Trials
    from train_RL_agents.utils.device import keep_freed_memory, resolve_device
    from train_RL_agents.utils.signals import INTERRUPTED_STATUS, call_on_first_signal

    given, seed, folder = vars(arguments), arguments.seed, arguments.out
    require(0 <= seed < MAX_SEED, "--seed", seed, f"from 0 to {MAX_SEED - 1}")
    space = SearchSpace(arguments.vessels, tuple(given.get("behaviours", DRAWN_BEHAVIOURS)))
    require_writable_folder(folder)
    require_no_search_files(folder)
    keep_freed_memory()
    device = resolve_device(arguments.device)
    evaluated = find_evaluated(arguments.policy, given.get("which", "best"), device)
    _, world = default_schedule_and_world([evaluated])
    methods = METHODS if arguments.method == "both" else (arguments.method,)
    stops: list[bool] = []
    results: list[SearchResult] = []

    def show(method: str, episodes: int, failures: int) -> None:
        print(f"{method}: {episodes:,} of {arguments.episodes:,} episodes, {failures:,} failures", flush=True)

    def run_once(encounters: Encounters, noise: int) -> Trials:
        return run_encounters(evaluated, encounters, world, noise, device, arguments.target)

    with call_on_first_signal(lambda: stops.append(True)):
        for method in methods:
            result = run_search(method, run_once, space, arguments.episodes, seed, show, lambda: bool(stops))
            if result is not None:
                results.append(result)
    if results:
        print_table(arguments.policy, results, space)
        print(*write_files(folder, evaluated, results, space, world, seed, device), sep="\n")
    if stops:
        print("stopped; what was found until then is kept" if results else "stopped before anything was found")
        return INTERRUPTED_STATUS
    return 0
