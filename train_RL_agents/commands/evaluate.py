"""Evaluate policies and baselines on the same scenarios."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from train_RL_agents.commands.choosing import add_choice
from train_RL_agents.evaluation import tables
from train_RL_agents.evaluation.tables import COLUMNS, COMPARED, Result

if TYPE_CHECKING:
    import torch

    from marinenav_env import WorldConfig
    from train_RL_agents.evaluation.contenders import ActingOptions
    from train_RL_agents.evaluation.episodes import Episodes
    from train_RL_agents.evaluation.recording import Recording
    from train_RL_agents.evaluation.suites import ScenarioSet
    from train_RL_agents.run.checkpoint import LoadedPolicy

_OUTPUTS = ("json", "csv", "markdown", "record")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    plain: dict[str, Any] = {"default": argparse.SUPPRESS}
    add = parser.add_argument
    add("policies", metavar="POLICY", nargs="*", help="run folders, policy files, names "
        "of shipped policies or baselines (straight, apf, orca); several are compared to the "
        "first")  # fmt: skip
    add("--checkpoint", "--policy", metavar="POLICY", dest="more", action="append", default=[],
        help="the same as an option")  # fmt: skip
    add_choice(parser)
    add("-D", "--device", metavar="DEV", default="auto", help="auto (default), cpu, cuda, cuda:N")
    acting = parser.add_mutually_exclusive_group()
    acting.add_argument("--risk", metavar="X", type=_risk, help="share of the worst outcomes to "
        "act on, for agents that know return distributions; adaptive: clip(distance of the closest "
        "object / 10 m, 0, 1); by default the policy's own agent.risk", **plain)  # fmt: skip
    acting.add_argument("--stochastic", action="store_true", help="act as while training, but "
        "without added exploration: SAC samples, Rainbow keeps its noise, IQN draws its fractions "
        "if agent.random_fractions is set, the others stay the same", **plain)  # fmt: skip
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
    names = [*arguments.policies, *arguments.more]
    error = arguments.parser.error
    if not names:
        error("a POLICY is needed: a run folder, a policy file or a baseline")
    if len(set(names)) < len(names):
        error("a POLICY is given twice")
    if "record" in given and len(names) > 1:
        error("argument --record: takes one policy")
    from train_RL_agents.evaluation.contenders import ActingOptions, common_world, find
    from train_RL_agents.evaluation.recording import save
    from train_RL_agents.evaluation.selection import choose_set, defaults
    from train_RL_agents.utils.device import resolve_device
    from train_RL_agents.utils.files import keep_inputs

    device = resolve_device(arguments.device)
    found = [find(name, given.get("which", "best"), device) for name in names]
    read = [*(each.path for each in found if not isinstance(each, str)), given.get("scenarios")]
    keep_inputs([given.get(name) for name in _OUTPUTS], read)
    schedule, world = defaults(found)
    world = common_world(found, world)
    chosen, levels = choose_set(world, schedule, given)
    acting = ActingOptions(
        given.get("risk"), "stochastic" in given, chosen.seed + 1, "record" in given
    )
    results, recording = _results(names, found, chosen, world, acting, device)
    setting = _setting(results, chosen, levels, given, str(device), world)
    tables.show(results, _heading(setting, results))
    _write_all(given, setting, results)
    if recording is not None:
        save(recording, given["record"])
    return 0


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
    from train_RL_agents.evaluation.rules_suite import ENCOUNTERS, conduct, summary

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


def _write_all(given: dict[str, Any], setting: dict[str, Any], results: Sequence[Result]) -> None:
    """Write the files asked for."""
    from train_RL_agents.utils.files import write_atomically

    if "json" in given:
        content = json.dumps(_content(setting, results), indent=2, allow_nan=False)
        write_atomically(given["json"], content + "\n")
    if "csv" in given:
        write_atomically(given["csv"], tables.csv_text(tables.result_rows(results)))
    if "markdown" in given:
        text = tables.markdown_text(results, _heading(setting, results))
        write_atomically(given["markdown"], text)


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
