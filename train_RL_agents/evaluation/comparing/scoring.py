"""Evaluation of one or several policies on the same scenarios, with the scores of their suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from marinenav_env import Episode, WorldConfig
from marinenav_env.scenarios.episode import single_vessel_episode
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require
from train_RL_agents.config.reading import to_dict
from train_RL_agents.evaluation.comparing.selection import choose_scenarios, default_schedule_and_world
from train_RL_agents.evaluation.comparing.tables import Evaluation, Result
from train_RL_agents.evaluation.judging import avoidance
from train_RL_agents.evaluation.judging.failures import EpisodeWatch
from train_RL_agents.evaluation.judging.policies import (
    ActingOptions,
    EvaluatedPolicy,
    require_effect,
    run_set,
    shifted_progress,
)
from train_RL_agents.evaluation.judging.seamanship import (
    broken_duty_rates,
    compliance_summary,
    judge,
    measure_compliance,
    steps_and_paths_alone,
)
from train_RL_agents.evaluation.judging.verdicts import Comparison, compare_judges, require_judges
from train_RL_agents.evaluation.running.recording import Recording, concatenate
from train_RL_agents.evaluation.running.steps import ProgressCallback, StepCallback, StepShare
from train_RL_agents.evaluation.suites.frozen import FROZEN_SEED, FROZEN_SUITES, frozen_world, scenario_hash
from train_RL_agents.evaluation.suites.sets import ScenarioSet, Scoring
from train_RL_agents.evaluation.suites.suites import make_scenario_set
from train_RL_agents.utils.provenance import software_versions
from train_RL_agents.utils.rows import Episodes, concatenate_episodes, group_masks, paired_differences

PolicyProgress = Callable[[str, int, int], None]
"""Callback with the name of the policy that runs, and the numbers of its ended and of all episodes."""
MetricsByGroup = dict[str, dict[str, Any]]
"""Metrics of compliance with the rules of the sea, or of safety, by name of the group and of the metric."""


def evaluate_built_in(
    policies: Mapping[str, EvaluatedPolicy],
    options: dict[str, Any],
    device: torch.device,
    progress: PolicyProgress | None = None,
) -> Evaluation:
    """Evaluate policies and baselines, by the names they are reported under, on the same built-in scenarios.

    The options are those of choose_scenarios and of ActingOptions by name; ``record`` records the last policy.
    """
    require_effect(policies, options.get("risk"), "stochastic" in options)
    schedule, world = default_schedule_and_world(list(policies.values()))
    chosen, levels = choose_scenarios(world, schedule, options)
    return evaluate_set(policies, chosen, world, options, device, progress, levels)


def evaluate_frozen_suites(
    policies: Mapping[str, EvaluatedPolicy],
    options: dict[str, Any],
    device: torch.device,
    progress: PolicyProgress | None = None,
) -> Iterator[Evaluation]:
    """Evaluate policies and baselines on each of the frozen suites, and yield an evaluation for each.

    The options are those of ActingOptions by name; ``episodes`` is the number per level or group for a quick look.
    """
    require_effect(policies, options.get("risk"), "stochastic" in options)
    _, world = default_schedule_and_world(list(policies.values()))
    world = frozen_world(world)
    for name, frozen in FROZEN_SUITES.items():
        chosen = make_scenario_set(name, world, options.get("episodes", frozen.episodes), FROZEN_SEED)
        applies = {"others": chosen.parts[0].only_own, "judge": chosen.scoring == "encounters"}
        own = {key: value for key, value in options.items() if applies.get(key, True)}
        evaluation = evaluate_set(policies, chosen, world, own | {"suite": name, "report": True}, device, progress)
        yield replace(evaluation, scenario_hash=scenario_hash(chosen))


def evaluate_set(
    policies: Mapping[str, EvaluatedPolicy],
    chosen: ScenarioSet,
    world: WorldConfig,
    options: dict[str, Any],
    device: torch.device,
    progress: PolicyProgress | None = None,
    levels: dict[str, Any] | None = None,
) -> Evaluation:
    """Evaluate policies and baselines on a set of scenarios that was made from a world.

    The options are those of ``evaluate_built_in``; with ``report`` results have ``failures`` and ``astern``, and with
    ``judge``, names of profiles, encounters have ``judges``. Settings of the levels by name describe the evaluation.
    """
    others = options.get("others")
    is_alone = others is None or all(part.only_own for part in chosen.parts)
    require(is_alone, "--others", "...", "left out but for suites in which the policy controls one vessel (*_own)")
    judges = options.get("judge", ())
    require_judges(judges, chosen)
    shield = StepShare() if "shield" in options else None
    acting = ActingOptions(
        options.get("risk"), "stochastic" in options, chosen.seed + 1, "record" in options, others, shield
    )
    results: list[Result] = []
    first: Episodes | None = None
    recording = None
    for name, evaluated in policies.items():
        shown = None if progress is None else partial(progress, name)
        acting, watch = _with_new_counter(acting), EpisodeWatch() if "report" in options else None
        scored = score(chosen, PolicyRun(evaluated, world, acting, device, name, watch, shown, judges))
        episodes, recording = scored.episodes, scored.recording
        first = first or episodes
        results.append(
            Result(
                name,
                evaluated.about(),
                episodes.metrics(chosen.groups),
                paired_differences(first, episodes, chosen.groups) if results else None,
                scored.metrics,
                scored.situations,
                None if acting.shield is None else acting.shield.value,
                None if watch is None else watch.value,
                () if watch is None else watch.failures(episodes, chosen),
                scored.judges,
            )
        )
    setting = describe_setting(results, options, chosen.seed, len(chosen), device) | {"levels": levels}
    return Evaluation(results, setting | {"world": to_dict(world)}, recording if acting.estimates else None)


def describe_setting(
    results: Sequence[Result], options: dict[str, Any], seed: int, episodes: int, device: torch.device
) -> dict[str, Any]:
    """Return what the metrics of an evaluation depend on, apart from its environment and several policies."""
    return {
        **(results[0].about if len(results) == 1 else {}),
        "suite": options.get("suite"),
        "seed": seed,
        "levels": None,
        "scenarios": str(options["scenarios"]) if "scenarios" in options else None,
        "episodes": episodes,
        "risk": options.get("risk"),
        "stochastic": "stochastic" in options,
        **({"others": options["others"].label} if "others" in options else {}),
        **({"shield": True} if "shield" in options else {}),
        "device": str(device),
        "versions": software_versions(),
    }


def _with_new_counter(acting: ActingOptions) -> ActingOptions:
    """Return the options with a new counter of the shield's steps, if there is a shield."""
    return acting if acting.shield is None else replace(acting, shield=StepShare())


def count_clear(chosen: ScenarioSet, episodes: Episodes) -> dict[str, int]:
    """Return numbers of situations: ``without_collision`` in any of their episodes, and ``all``."""
    situations = chosen.situations or range(len(chosen))
    hit = {number for number, collided in zip(situations, episodes.collision.tolist(), strict=True) if collided}
    return {"without_collision": len({*situations} - hit), "all": len({*situations})}


# Scores of suites -------------------------------------------------------------------------------


@dataclass(frozen=True)
class PolicyRun:
    """A policy that runs on a set of scenarios; see ``run_set`` for the fields."""

    evaluated: EvaluatedPolicy
    world: WorldConfig
    acting: ActingOptions
    device: torch.device
    name: str
    on_step: StepCallback | None = None
    progress: ProgressCallback | None = None
    judges: Sequence[str] = ()
    """Names of the profiles whose verdicts are compared."""

    def run(self, chosen: ScenarioSet, is_recorded: bool) -> tuple[Episodes, Recording | None]:
        """Run a set, and count its steps and those that the shield changes."""
        name = self.name if is_recorded else None
        return run_set(self.evaluated, chosen, self.world, self.acting, self.device, name, self.on_step, self.progress)

    def record_uncounted(self, chosen: ScenarioSet) -> Recording:
        """Record a set, without counting its steps and those that the shield changes."""
        uncounted = replace(self, acting=_with_new_counter(self.acting), on_step=None)
        _, recording = uncounted.run(chosen, True)
        assert recording is not None
        return recording


@dataclass(frozen=True)
class Scored:
    """Episodes of a policy on a set of scenarios, with the scores of the set."""

    episodes: Episodes
    recording: Recording | None
    metrics: MetricsByGroup | None = None
    """Compliance or safety by group and overall; None if only episodes are scored."""
    situations: dict[str, int] | None = None
    """Result of ``count_clear`` for encounters."""
    judges: Comparison | None = None


def score(chosen: ScenarioSet, policy: PolicyRun) -> Scored:
    """Run a policy on a set of scenarios, and score it as the set requires."""
    return SCORERS[chosen.scoring](chosen, policy)


def _score_misbehaviour(chosen: ScenarioSet, policy: PolicyRun) -> Scored:
    """Run scenarios with others that misbehave, and find which collisions were avoidable."""
    episodes, recording = policy.run(chosen, True)
    assert recording is not None
    found = avoidance.collision_masks(chosen, recording, policy.world, policy.acting, policy.device)
    masks = group_masks(recording.groups)
    return Scored(episodes, recording, {name: avoidance.safety_metrics(found, mask) for name, mask in masks.items()})


def _score_candidates(chosen: ScenarioSet, policy: PolicyRun) -> Scored:
    """Run candidates for a collision part by part; only parts with a collision are recorded, in a second run."""
    seen: list[Episodes] = []
    unavoidable: list[Tensor] = []
    recordings: list[Recording] = []
    for part in chosen.parts:
        alone, before = replace(chosen, parts=(part,)), sum(len(mask) for mask in unavoidable)
        shown = replace(policy, progress=shifted_progress(policy.progress, before, len(chosen)))
        episodes, _ = shown.run(alone, False)
        lost = torch.zeros_like(episodes.collision)
        if policy.acting.estimates or episodes.collision.any():
            recording, hit = replace(policy, progress=None).record_uncounted(alone), episodes.collision
            begin = avoidance.first_detection_step(recording)
            lost = avoidance.find_unavoidable_in_set(
                alone, recording, hit, begin, policy.world, policy.acting, policy.device
            )
            recordings.append(recording)
        seen.append(episodes)
        unavoidable.append(lost)
    joined, lost = concatenate_episodes(seen), torch.cat(unavoidable)
    rows = group_masks([chosen.groups[level] for level in joined.level.tolist()])
    by_group = {group: avoidance.candidate_metrics(joined.collision, lost, kept, group) for group, kept in rows.items()}
    return Scored(joined, concatenate(recordings) if policy.acting.estimates else None, by_group)


def _score_encounters(chosen: ScenarioSet, policy: PolicyRun) -> Scored:
    """Run encounters, for which every vessel also runs alone, and judge them by the rules of the sea."""
    episodes, recording = policy.run(chosen, True)
    assert recording is not None
    robots = recording.robot_mask.shape[-1]
    num_scored = 1 if chosen.parts[0].only_own else robots
    columns = [
        steps_and_paths_alone(policy.record_uncounted(_single_vessel_set(chosen, slot))) for slot in range(num_scored)
    ]
    steps, paths = (_stack_padded(column, robots) for column in zip(*columns, strict=True))
    scored = recording.robot_mask.clone()
    scored[:, num_scored:] = False
    judged = judge(recording)
    measured = measure_compliance(judged, recording, (steps, paths), scored)
    rows = group_masks(recording.groups)
    rates = broken_duty_rates(judged, recording, scored, [*rows.values()])
    pairs = zip(rows.items(), rates, strict=True)
    by_group = {name: compliance_summary(measured, kept) | rate for (name, kept), rate in pairs}
    compared = compare_judges(recording, scored, policy.judges, policy.world) if policy.judges else None
    return Scored(episodes, recording, by_group, count_clear(chosen, episodes), compared)


SCORERS: dict[Scoring, Callable[[ScenarioSet, PolicyRun], Scored]] = {
    "episodes": lambda chosen, policy: Scored(*policy.run(chosen, policy.acting.estimates)),
    "encounters": _score_encounters,
    "misbehaviour": _score_misbehaviour,
    "candidates": _score_candidates,
}
"""Function that runs and scores a policy, for each kind of scenario set."""


def _single_vessel_set(chosen: ScenarioSet, slot: int) -> ScenarioSet:
    """Return the scenarios with one vessel each: the one in the slot, or the last one if there are fewer vessels."""
    parts = []
    for part in chosen.parts:
        scenarios: Scenario | Sequence[Episode]
        if isinstance(part.scenarios, Scenario):
            scenarios = drawn = part.scenarios.clone()
            present = drawn.robot_mask
            kept = (present.sum(-1, keepdim=True) - 1).clamp_max(slot)
            drawn.robot_mask = torch.arange(present.shape[-1]) == kept
        else:
            scenarios = [
                single_vessel_episode(episode, min(slot, len(episode.start) - 1)) for episode in part.scenarios
            ]
        parts.append(replace(part, scenarios=scenarios, only_own=part.only_own and slot == 0))
    return replace(chosen, parts=tuple(parts))


def _stack_padded(columns: tuple[Tensor, ...], robots: int) -> Tensor:
    """Stack columns [E], one per robot, into [E, R]; robots without a column get 1 and are not scored."""
    blank = torch.ones_like(columns[0])
    return torch.stack([*columns, *[blank] * (robots - len(columns))], -1).double()
