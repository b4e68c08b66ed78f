"""Evaluate policies and baselines on the same scenarios."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.evaluation.tables import COLUMNS, COMPARED, Result

if TYPE_CHECKING:
    import torch

    from marinenav_env import WorldConfig
    from train_RL_agents.evaluation.contenders import ActingOptions
    from train_RL_agents.evaluation.episodes import Episodes
    from train_RL_agents.evaluation.recording import Recording
    from train_RL_agents.evaluation.suites import ScenarioSet
    from train_RL_agents.run.checkpoint import LoadedPolicy


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    add = parser.add_argument
    add("policies", metavar="POLICY", nargs="*", help="run folders, policy files or baselines; "
        "several are compared to the first")  # fmt: skip
    add("--checkpoint", metavar="PATH", help="run folder or policy file", **plain)
    add("--policy", metavar="NAME", help="baseline: straight, apf or orca", **plain)
    add("--which", metavar="NAME", default="best",
        help="of a run: best (default), latest or a file's name")  # fmt: skip
    add("--suite", metavar="NAME", help="paper, fresh, currents, crowd, noise, rules, imazu or "
        "encounters (or imazu_own, encounters_own), instead of levels", **plain)  # fmt: skip
    add("--episodes", metavar="N", type=int, help="a level, or a group of a suite; by default as "
        "while training, or the suite's", **plain)  # fmt: skip
    add("--levels", metavar="L", type=int, nargs="+", help="from 1; all by default", **plain)
    add("--scenarios", metavar="FILE", type=Path, help="scenario file, instead of levels", **plain)
    add("--seed", metavar="N", type=int, help="of scenarios and noise; by default the fixed set's",
        **plain)  # fmt: skip
    add("--fresh", action="store_true", help="scenarios and noise never seen before", **plain)
    add("-D", "--device", metavar="DEV", default="auto", help="auto (default), cpu, cuda, cuda:N")
    add("--risk", metavar="X", type=_risk, help="share of the worst outcomes to act on, for "
        "agents that know return distributions; adaptive: clip(distance of the closest object / "
        "10 m, 0, 1); by default the policy's own agent.risk", **plain)  # fmt: skip
    add("--stochastic", action="store_true", help="act as while training, but without added "
        "exploration: SAC samples, Rainbow keeps its noise, IQN draws its fractions if "
        "agent.random_fractions is set, the others stay the same", **plain)  # fmt: skip
    add("--json", metavar="OUT", type=Path, help="write setting and figures there", **plain)
    add("--csv", metavar="OUT", type=Path, help="write the figures there", **plain)
    add("--markdown", metavar="OUT", type=Path, help="write the tables there", **plain)
    add("--record", metavar="OUT", type=Path, help="write all that happens there (.npz); for one "
        "policy", **plain)  # fmt: skip


def _risk(text: str) -> float | str:
    """A risk level from the command line.

    Raises:
        ArgumentTypeError: when it is none.
    """
    if text == "adaptive":
        return text
    with contextlib.suppress(ValueError):
        if 0.0 < float(text) <= 1.0:
            return float(text)
    raise argparse.ArgumentTypeError(f"must be adaptive, or above 0 and at most 1, not {text}")


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    given = vars(arguments)
    names = [*given["policies"], *(given[key] for key in ("checkpoint", "policy") if key in given)]
    _check(arguments.parser, given, names)
    from train_RL_agents.evaluation.contenders import ActingOptions, common_world
    from train_RL_agents.evaluation.selection import choose_set, defaults
    from train_RL_agents.utils.device import resolve_device

    device = resolve_device(arguments.device)
    found = _find(given, device)
    schedule, world = defaults(found)
    world = common_world(found, world)
    chosen, levels = choose_set(world, schedule, given)
    acting = ActingOptions(
        given.get("risk"), "stochastic" in given, chosen.seed + 1, "record" in given
    )
    results, recording = _results(names, found, chosen, world, acting, device)
    setting = _setting(results, chosen, levels, given, str(device), world)
    _print(setting, results)
    _write_all(given, setting, results)
    if recording is not None:
        from train_RL_agents.evaluation.recording import save

        save(recording, given["record"])
    return 0


def _check(parser: argparse.ArgumentParser, given: dict[str, Any], names: Sequence[str]) -> None:
    """Refuse options that contradict each other or are out of range.

    Raises:
        SystemExit: after a message.
    """
    if not names:
        parser.error("a POLICY, --checkpoint or --policy is needed")
    if len(set(names)) < len(names):
        parser.error("a POLICY is given twice")
    clashes = (("fresh", "seed"), ("scenarios", "levels"), ("scenarios", "episodes"),
               ("stochastic", "risk"), ("suite", "levels"), ("suite", "scenarios"))  # fmt: skip
    for first, second in clashes:
        if first in given and second in given:
            parser.error(f"argument --{second}: not allowed with --{first}")
    if given.get("episodes", 1) < 1:
        parser.error(f"argument --episodes: must be at least 1, not {given['episodes']}")
    if "record" in given and len(names) > 1:
        parser.error("argument --record: takes one policy")


def _find(given: dict[str, Any], device: torch.device) -> list[LoadedPolicy | str]:
    """The policies asked for, in the order of their names."""
    from marinenav_env.validation import require
    from train_RL_agents.baselines import BASELINES
    from train_RL_agents.evaluation.contenders import find
    from train_RL_agents.run.checkpoint import load_policy

    found = [find(name, given["which"], device) for name in given["policies"]]
    if "checkpoint" in given:
        found.append(load_policy(given["checkpoint"], given["which"], device))
    if "policy" in given:
        name = given["policy"]
        require(name in BASELINES, "--policy", name, f"one of {', '.join(BASELINES)}")
        found.append(name)
    return found


def _results(
    names: Sequence[str],
    found: Sequence[LoadedPolicy | str],
    chosen: ScenarioSet,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
) -> tuple[list[Result], Recording | None]:
    """Run the episodes of every policy; the recording is that of the last one."""
    from train_RL_agents.evaluation.comparison import differences
    from train_RL_agents.evaluation.contenders import described, run_set
    from train_RL_agents.evaluation.marking import run_marked
    from train_RL_agents.evaluation.suites import MARKED, RULES

    results: list[Result] = []
    first: Episodes | None = None
    recording = None
    for name, each in zip(names, found, strict=True):
        # Conduct is told from what was recorded.
        recorded_as = name if acting.quantiles or chosen.name == RULES else None
        conduct: Any = None
        if chosen.name in MARKED:
            episodes, recording, conduct = run_marked(each, chosen, world, acting, device, name)
        else:
            episodes, recording = run_set(each, chosen, world, acting, device, recorded_as)
        if recording and chosen.name == RULES:
            conduct = _conduct(recording, chosen)
        first = first or episodes
        results.append(
            Result(
                name,
                described(each),
                episodes.table(chosen.groups) if chosen.groups else _overall(episodes),
                differences(first, episodes, chosen.groups) if results else None,
                conduct,
            )
        )
    return results, recording if acting.quantiles else None


def _overall(episodes: Episodes) -> dict[str, Any]:
    return {"overall": asdict(episodes.report())}


def _conduct(recording: Recording, chosen: ScenarioSet) -> dict[str, dict[str, float]]:
    """How the rules were kept, by encounter."""
    from train_RL_agents.evaluation.encounters import ENCOUNTERS, conduct, summary

    seen = conduct(recording)
    return {name: summary(ENCOUNTERS[name], seen, [group == name for group in recording.groups])
            for name in chosen.groups}  # fmt: skip


def _setting(
    results: Sequence[Result],
    chosen: ScenarioSet,
    levels: dict[str, Any] | None,
    given: dict[str, Any],
    device: str,
    world: WorldConfig,
) -> dict[str, Any]:
    """Everything that the figures depend on; of several policies, what they have in common."""
    from train_RL_agents.config.reading import to_dict
    from train_RL_agents.utils.provenance import versions

    return {
        **(results[0].about if len(results) == 1 else {}),
        "suite": given.get("suite"),
        "seed": chosen.seed,
        "levels": levels,
        "scenarios": str(given["scenarios"]) if "scenarios" in given else None,
        "episodes": len(chosen),
        "risk": given.get("risk"),
        "stochastic": "stochastic" in given,
        "device": device,
        "world": to_dict(world),
        "versions": versions(),
    }


def _heading(setting: dict[str, Any], results: Sequence[Result]) -> str:
    """Who was evaluated, and on what."""
    source = setting["suite"] or setting["scenarios"] or "levels"
    return f"{'; '.join(map(_whom, results))}, on {source}, seed {setting['seed']}"


def _whom(result: Result) -> str:
    about = result.about
    if about["checkpoint"] is None:
        return str(about["agent_type"])
    return f"{about['agent_type']} after {about['env_steps']:,} env-steps, {about['checkpoint']}"


def _print(setting: dict[str, Any], results: Sequence[Result]) -> None:
    """Print the tables, with what each column means below them."""
    from train_RL_agents.evaluation import tables

    tables.print_table(*tables.figure_rows(results), _heading(setting, results))
    tables.print_meanings(COLUMNS if len(results) == 1 else COMPARED)
    if results[0].conduct is not None:
        tables.print_table(*tables.conduct_rows(results), "\nRules of the sea")
        tables.print_meanings(results[0].conduct_columns)


def _write_all(given: dict[str, Any], setting: dict[str, Any], results: Sequence[Result]) -> None:
    """Write the files asked for."""
    from train_RL_agents.evaluation import tables
    from train_RL_agents.utils.files import write_atomically

    if "json" in given:
        content = json.dumps(_content(setting, results), indent=2, allow_nan=False)
        write_atomically(given["json"], content + "\n")
    if "csv" in given:
        write_atomically(given["csv"], tables.csv_text(tables.result_rows(results)))
    if "markdown" in given:
        parts = [_heading(setting, results) + "\n\n",
                 tables.markdown_table(*tables.figure_rows(results))]  # fmt: skip
        if results[0].conduct is not None:
            parts += ["\n", tables.markdown_table(*tables.conduct_rows(results))]
        write_atomically(given["markdown"], "".join(parts))


def _content(setting: dict[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """What the JSON file holds."""
    from train_RL_agents.evaluation.episodes import finite

    columns = COLUMNS if len(results) == 1 else COMPARED
    content: dict[str, Any] = {"setting": setting, "columns": columns}
    if len(results) == 1:
        content["figures"] = results[0].figures
    else:
        content["policies"] = [asdict(each) for each in results]
    if results[0].conduct is not None:
        content |= {"conduct": results[0].conduct, "conduct_columns": results[0].conduct_columns}
    return dict(finite(content))
