"""Verdicts of several judges of the rules of the sea on the same tracks, and where and why they part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from torch import Tensor

from marinenav_env import WorldConfig
from marinenav_env.rules.profiles import PROFILES, with_profile
from marinenav_env.support.validation import require
from train_RL_agents.evaluation.judging.seamanship import BREACHES, JudgedEncounters, judge
from train_RL_agents.evaluation.running.recording import Recording
from train_RL_agents.evaluation.suites.sets import ScenarioSet
from train_RL_agents.evaluation.suites.suites import SUITES
from train_RL_agents.utils.table import Column, Table

SHOWN_REASONS = 3
"""Number of the most frequent reasons of a difference that are shown."""
NO_DUTY, KEPT = "no duty", "kept"
"""Verdicts on a vessel besides BREACHES, of which a vessel has the worst of all its encounters."""
_COLUMNS = (
    Column("judge"),
    Column("vessels", "vessels with a duty", meaning="vessels with at least one confirmed encounter that is scored"),
    Column("rules_kept", "rules kept", ".2f", meaning="vessels with a duty that kept all of theirs"),
    Column("duties", meaning="duties, one for each vessel that another meets"),
    Column("broken", "broken duties"),
    Column("fleeting", meaning="risks of collision that ended before they were confirmed"),
)


@dataclass(frozen=True)
class Comparison:
    """Verdicts of several judges on the same vessels."""

    rows: list[dict[str, Any]]
    """Totals of each judge by name of the column."""
    kappas: dict[str, float | None]
    """Cohen's kappa of each pair of judges, by their names; None if all verdicts are the same."""
    reasons: dict[str, list[tuple[str, int]]]
    """Most frequent differences of each pair, in words, with their numbers of vessels."""

    def show(self, explains: bool = True) -> None:
        """Print the totals, and below them each pair with its kappa and reasons."""
        Table(_COLUMNS, self.rows, 1).print("Judges of the rules of the sea", explains)
        for pair, kappa in self.kappas.items():
            most = "; ".join(f"{count} vessels {text}" for text, count in self.reasons[pair])
            print(f"\n{pair}: kappa {'-' if kappa is None else f'{kappa:.2f}'}{f'; {most}' if most else ''}")


def require_judges(names: Sequence[str], chosen: ScenarioSet) -> None:
    """Check that judges are named that exist, for a suite whose encounters are judged."""
    judged = ", ".join(name for name, suite in SUITES.items() if suite.scoring == "encounters")
    are_allowed = not names or chosen.scoring == "encounters"
    require(are_allowed, "--judge", ",".join(names), f"left out but for {judged}")
    for name in names:
        require(name in PROFILES, "--judge", name, f"one of {', '.join(PROFILES)}")


def compare_judges(recording: Recording, scored: Tensor, names: Sequence[str], world: WorldConfig) -> Comparison:
    """Judge a recording by several profiles, scaled for the boat of a world, and compare the verdicts.

    They are those on the vessels that are scored, a mask [E, R].
    """
    rows, verdicts = [], {}
    for name in names:
        area = world.scenario
        judged = judge(recording, with_profile(recording.rules, name, area.scale, area.time_scale))
        counts = scored[judged.episode, judged.own]
        verdicts[name] = vessel_verdicts(judged, scored)
        having = [verdict for verdict in verdicts[name] if verdict != NO_DUTY]
        rows.append(
            {
                "judge": name,
                "vessels": len(having),
                "rules_kept": having.count(KEPT) / len(having) if having else None,
                "duties": int((counts & judged.state.has_duty).sum()),
                "broken": int((counts & judged.state.is_broken).sum()),
                "fleeting": int((counts & judged.is_fleeting).sum()),
            }
        )
    kappas, reasons = {}, {}
    for one, two in combinations(names, 2):
        pairs = [*zip(verdicts[one], verdicts[two], strict=True)]
        kappas[f"{one} and {two}"] = cohens_kappa([(_mark(first), _mark(second)) for first, second in pairs])
        parted = Counter(
            f"{first} for {one}, {second} for {two}" for first, second in pairs if _mark(first) != _mark(second)
        )
        reasons[f"{one} and {two}"] = parted.most_common(SHOWN_REASONS)
    return Comparison(rows, kappas, reasons)


def vessel_verdicts(judged: JudgedEncounters, scored: Tensor) -> list[str]:
    """Return the verdict on each scored vessel in turn: NO_DUTY, KEPT, or the first of BREACHES that it committed."""
    worst = dict.fromkeys(((episode, own) for episode, own in scored.nonzero().tolist()), NO_DUTY)
    order = (*BREACHES, KEPT, NO_DUTY)
    columns = (judged.episode, judged.own, judged.state.has_duty, judged.breaches())
    for episode, own, has_duty, breach in zip(*(column.tolist() for column in columns), strict=True):
        if has_duty and (episode, own) in worst:
            verdict = KEPT if breach < 0 else BREACHES[breach]
            worst[episode, own] = min(worst[episode, own], verdict, key=order.index)
    return [*worst.values()]


def _mark(verdict: str) -> str:
    """Return a verdict without the kind of breach."""
    return "broken" if verdict in BREACHES else verdict


def cohens_kappa(pairs: Sequence[tuple[str, str]]) -> float | None:
    """Return Cohen's kappa (Educ. Psychol. Meas. 20, 1960) of pairs of two judges' classes.

    It is None without pairs, or if all classes are the same.
    """
    total = len(pairs)
    if not pairs:
        return None
    agreed = sum(first == second for first, second in pairs) / total
    firsts, seconds = (Counter(column) for column in zip(*pairs, strict=True))
    expected = sum(firsts[name] * seconds[name] for name in firsts) / total**2
    return (agreed - expected) / (1.0 - expected) if expected < 1.0 else None
