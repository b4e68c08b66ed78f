"""Evaluation of one or several policies on the same scenarios, with what the figures depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch

from marinenav_env import WorldConfig
from train_RL_agents.config.reading import to_dict
from train_RL_agents.evaluation.contenders import (
    ActingOptions,
    Contender,
    common_world,
    require_effect,
    run_set,
)
from train_RL_agents.evaluation.episodes import Episodes, finite
from train_RL_agents.evaluation.marking import run_marked
from train_RL_agents.evaluation.outcomes import differences
from train_RL_agents.evaluation.recording import Recording
from train_RL_agents.evaluation.rules_suite import ENCOUNTERS, conduct, summary
from train_RL_agents.evaluation.selection import choose_set, defaults
from train_RL_agents.evaluation.suites import MARKED, RULES, ScenarioSet
from train_RL_agents.evaluation.tables import (
    COLUMNS,
    COMPARED,
    Result,
    figure_table,
    notebook_text,
    result_rows,
    short,
)
from train_RL_agents.evaluation.tally import Progress, Watch
from train_RL_agents.results.table import UNLIMITED
from train_RL_agents.utils.provenance import versions


@dataclass(frozen=True)
class Evaluation:
    """Figures of policies on the same scenarios; printed and in notebooks, it is a table."""

    results: list[Result]
    """Of each policy."""
    setting: dict[str, Any]
    """Everything that the figures depend on; of several policies, what they have in common."""
    recording: Recording | None = None
    """All that happened, if it was asked for."""

    @property
    def heading(self) -> str:
        """The policies and the scenarios."""
        return f"{'; '.join(map(_whom, self.results))}, on {self._scenarios}"

    @property
    def _scenarios(self) -> str:
        """Which scenarios these are, and how policies act on them."""
        source = self.setting["suite"] or self.setting["scenarios"] or "levels"
        acting = "".join(f", {name}" if value is True else f", {name} {value}" for name, value in self.acting.items())
        return f"{source}, seed {self.setting['seed']}{acting}"

    @property
    def acting(self) -> dict[str, Any]:
        """How policies act, by option; only what is not as usual."""
        options = {name: self.setting.get(name) for name in ("risk", "stochastic")}
        return {name: value for name, value in options.items() if value}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All figures of all groups and policies, a row for each of both."""
        return [row | self.acting for row in result_rows(self.results)]

    def content(self) -> dict[str, Any]:
        """Content of its JSON file."""
        columns = COLUMNS if len(self.results) == 1 else COMPARED
        content: dict[str, Any] = {"setting": self.setting, "columns": columns}
        first = self.results[0]
        if len(self.results) == 1:
            content["figures"] = first.figures
        else:
            content["policies"] = [asdict(each) for each in self.results]
        if first.conduct is not None:
            content |= {"conduct": first.conduct, "conduct_columns": first.conduct_columns}
        return dict(finite(content))

    def __str__(self) -> str:
        lines, _ = figure_table(self.results).lines(UNLIMITED)
        heading = [self.heading] if self.acting else []
        return "\n".join([*heading, *lines])

    def __repr__(self) -> str:
        return f"<Evaluation on {self._scenarios}: {'; '.join(map(short, self.results))}>"

    def _repr_html_(self) -> str:
        return notebook_text(self.results, self.heading)


def evaluate_all(
    found: Mapping[str, Contender],
    given: dict[str, Any],
    device: torch.device,
    progress: Callable[[str, int, int], None] | None = None,
) -> Evaluation:
    """Run the same scenarios with every policy.

    Args:
        found: trained policies and baselines, by the name they are reported under.
        given: the options given, of choose_set (which scenarios) and of ActingOptions; ``record``
            keeps all that the last policy does.
        device: where to run.
        progress: is told whose episodes run, how many have ended, and how many there are.

    Raises:
        ConfigError: when an option cannot be used, or the policies cannot be compared.
    """
    require_effect(found, given.get("risk"), "stochastic" in given)
    schedule, world = defaults(list(found.values()))
    world = common_world(list(found.values()), world)
    chosen, levels = choose_set(world, schedule, given)
    acting = ActingOptions(given.get("risk"), "stochastic" in given, chosen.seed + 1, "record" in given)
    results, recording = _results(found, chosen, world, acting, device, progress)
    setting = {
        **(results[0].about if len(results) == 1 else {}),
        "suite": given.get("suite"),
        "seed": chosen.seed,
        "levels": levels,
        "scenarios": str(given["scenarios"]) if "scenarios" in given else None,
        "episodes": len(chosen),
        "risk": given.get("risk"),
        "stochastic": "stochastic" in given,
        "device": str(device),
        "world": to_dict(world),
        "versions": versions(),
    }
    return Evaluation(results, setting, recording)


def _results(
    found: Mapping[str, Contender],
    chosen: ScenarioSet,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
    progress: Callable[[str, int, int], None] | None,
) -> tuple[list[Result], Recording | None]:
    """Run the episodes of every policy; the recording is that of the last one."""
    results: list[Result] = []
    first: Episodes | None = None
    recording = None
    for name, each in found.items():
        told = None if progress is None else partial(progress, name)
        episodes, recording, kept = run_scored(each, chosen, world, acting, device, name, progress=told)
        first = first or episodes
        results.append(
            Result(
                name,
                each.about(),
                episodes.table(chosen.groups) if chosen.groups else _overall(episodes),
                differences(first, episodes, chosen.groups) if results else None,
                kept,
            )
        )
    return results, recording if acting.estimates else None


def run_scored(
    found: Contender,
    chosen: ScenarioSet,
    world: WorldConfig,
    acting: ActingOptions,
    device: torch.device,
    name: str,
    watch: Watch | None = None,
    progress: Progress | None = None,
) -> tuple[Episodes, Recording | None, dict[str, dict[str, Any]] | None]:
    """Run a set, and score it as its suite is; see ``run_set`` for the arguments.

    Returns:
        What happened; the recording, if one was made; conduct by group, if the suite has any.
    """
    if chosen.name in MARKED:
        return run_marked(found, chosen, world, acting, device, name, progress)
    # Conduct is told from what was recorded.
    recorded_as = name if acting.estimates or chosen.name == RULES else None
    episodes, recording = run_set(found, chosen, world, acting, device, recorded_as, watch, progress)
    ruled = recording if chosen.name == RULES else None
    return episodes, recording, _conduct(ruled, chosen) if ruled else None


def _overall(episodes: Episodes) -> dict[str, Any]:
    return {"overall": asdict(episodes.report())}


def _conduct(recording: Recording, chosen: ScenarioSet) -> dict[str, dict[str, float]]:
    """How the rules were kept, by encounter."""
    seen = conduct(recording)
    return {
        name: summary(ENCOUNTERS[name], seen, [group == name for group in recording.groups]) for name in chosen.groups
    }


def _whom(result: Result) -> str:
    about = result.about
    if about["checkpoint"] is None:
        return str(about["agent_type"])
    return f"{about['agent_type']} after {about['env_steps']:,} env-steps, {about['checkpoint']}"
