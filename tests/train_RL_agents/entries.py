"""Small entries of the benchmark, made by hand."""

import torch

from train_RL_agents.evaluation.entry import Entry, SuiteResult
from train_RL_agents.evaluation.frozen import BENCHMARK_SEED, FROZEN_SUITES
from train_RL_agents.evaluation.tables import ENCOUNTER_COLUMNS, RULES_COLUMNS, UNRULY_COLUMNS
from train_RL_agents.results.rows import Episodes

HASH = "0123456789abcdef" * 2


def result(outcome, groups=("all",), suite="currents", **other):
    """A result of episodes of two vessels, of which one arrives in failures."""
    count = len(outcome)
    level = torch.arange(count) % len(groups)
    success = torch.tensor([each == "s" for each in outcome])
    episodes = Episodes(
        level=level,
        success=success,
        collision=torch.tensor([each == "c" for each in outcome]),
        robots=torch.full((count,), 2),
        robots_arrived=torch.where(success, 2, 1),
        time=torch.full((count,), 20.25, dtype=torch.float64),
        energy=torch.full((count,), 3000.0, dtype=torch.float64),
        returns=torch.full((count,), 11.5, dtype=torch.float64),
    )
    given = {
        "scenarios": FROZEN_SUITES[suite].scenarios if suite in FROZEN_SUITES else HASH,
        "seed": BENCHMARK_SEED,
        "groups": groups,
        "astern": 0.25,
        "compliance": {},
    }
    return SuiteResult.from_episodes(episodes, **given | other)


def by_role(groups):
    """Compliance of groups, by role."""
    row = dict.fromkeys(ENCOUNTER_COLUMNS, 0.75) | {"all_kept_low": 0.5, "all_kept_high": 0.9}
    return {name: dict(row) for name in (*groups, "overall")}


def leading_entry():
    """An entry with suites that are shown at the head of certificates."""
    rates = {"hours_per_broken_rule": 0.125, "hours_per_broken_rule_low": 0.1, "hours_per_broken_rule_high": 0.25}
    compliance = {"overall": by_role(())["overall"] | rates}
    rare = dict.fromkeys(UNRULY_COLUMNS, 0.5) | {"avoided_low": 0.25, "avoided_high": 0.75}
    return entry(
        fresh=result("sssc", suite="fresh"),
        dnv_own=result("sscs", ("a", "b"), "dnv_own", compliance=compliance, situations=(0, 0, 1, 1)),
        unruly=result("sscs", ("a", "b"), "unruly", compliance=dict.fromkeys(("a", "b", "overall"), rare)),
        encounters_own=result("sssc", ("a", "b"), "encounters_own", compliance=compliance),
    )


def entry(outcome="ssct", name="mine", **other):
    """An entry of three suites: without compliance, of the suite of rules, and by role with tracks."""
    meetings, cases = ("head-on", "overtaking"), ("case 1", "case 2")
    shares = dict.fromkeys(RULES_COLUMNS, 0.5)
    suites = {
        "currents": result(outcome),
        "rules": result(outcome, meetings, "rules", compliance=dict.fromkeys(meetings, shares)),
        "imazu": result(
            outcome,
            cases,
            "imazu",
            compliance=by_role(cases),
            duties={"give-way": [3, 4], "stand-on": [0, 0]},
            tracks=[[[0, 0, 10, 1], [20, 0, 10, 1]], [[0, 0, 9, 2]]],
        ),
    }
    policy = {"name": name, "agent": "DQN", "env_steps": 1000, "sha256": "ab" * 32}
    return Entry(policy, {"torch": "2"}, "2026-01-01", suites | other)
