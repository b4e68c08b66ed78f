"""Figures of a policy in the frozen suites, as a JSON file: counts and shares with 95% intervals by suite and group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from train_RL_agents.evaluation.comparing.tables import Evaluation, Result
from train_RL_agents.utils.provenance import git_revision, software_versions
from train_RL_agents.utils.rows import OVERALL

FORMAT_NAME = "marinenav figures"
_GROUP_METRICS = ("all_kept", "rules_kept", "safety", "broken_duties", "avoided", "unavoidable")
"""Metrics of compliance or safety that every group has in a file; others are only of all groups together."""


def figures_text(evaluations: Sequence[Evaluation]) -> str:
    """Return the text of a file with the figures of policies, one group in a line, from evaluations in suites."""
    commit, difference = git_revision()
    content = {
        "format": FORMAT_NAME,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "program": software_versions() | {"revision": commit, "changed": bool(difference)},
        "acting": evaluations[0].acting,
        "policies": {
            result.name: {
                "agent": result.about["agent_type"],
                "env_steps": result.about["env_steps"],
                "sha256": result.file_hash,
                "suites": {str(each.setting["suite"]): suite_figures(each, number) for each in evaluations},
            }
            for number, result in enumerate(evaluations[0].results)
        },
    }
    return one_line_per_group(content)


def suite_figures(evaluation: Evaluation, number: int) -> dict[str, Any]:
    """Return the figures of one of the policies of an evaluation: of the suite, and by group."""
    result = evaluation.results[number]
    marks = (result.compliance or {}).get(OVERALL, {})
    clear = result.situations
    return {
        "scenarios": evaluation.scenario_hash,
        "seed": evaluation.setting["seed"],
        "astern": _rounded(marks.get("astern", result.astern)),
        **({} if clear is None else {"situations_without_collision": [clear["without_collision"], clear["all"]]}),
        "groups": {group: group_figures(result, group) for group in result.metrics},
    }


def group_figures(result: Result, group: str) -> dict[str, Any]:
    """Return the figures of a group of scenarios.

    ``success`` and ``collision`` are [k, n, low, high]: k of n episodes, and the ends of the interval of the share.
    Other metrics with an interval are [value, low, high].
    """
    metrics = result.metrics[group]
    compliance = (result.compliance or {}).get(group, {})
    total = metrics["episodes"]
    figures: dict[str, Any] = {
        name: [round(metrics[f"{name}_rate"] * total), total, metrics[f"{name}_low"], metrics[f"{name}_high"]]
        for name in ("success", "collision")
    }
    figures |= {"vessels": metrics["robot_success_rate"], "time": metrics["avg_time"]}
    figures |= _with_intervals(metrics, ["hours_per_collision"])
    names = [name for name in compliance if group == OVERALL or name in _GROUP_METRICS]
    return dict(_rounded(figures | _with_intervals(compliance, names)))


def _with_intervals(row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return metrics by name, each as [value, low, high] if the row has ends of its interval."""
    names = [name for name in names if not name.endswith(("_low", "_high"))]
    known = ((name, [row[name], row.get(f"{name}_low"), row.get(f"{name}_high")]) for name in names)
    return {name: value if f"{name}_low" in row else value[0] for name, value in known}


def _rounded(value: Any) -> Any:
    """Return nested dicts and lists with numbers rounded to five decimals."""
    return json.loads(json.dumps(value), parse_float=lambda text: round(float(text), 5))


def one_line_per_group(content: Any, depth: int = 0, name: str = "") -> str:
    """Return JSON in which every group of a suite, and every list, is one line."""
    if not isinstance(content, dict) or name == "line":
        return json.dumps(content, allow_nan=False)
    kind = "line" if name == "groups" else ""
    space = "  " * (depth + 1)
    items = (
        f"{space}{json.dumps(key)}: {one_line_per_group(item, depth + 1, kind or key)}" for key, item in content.items()
    )
    return "{\n" + ",\n".join(items) + f"\n{'  ' * depth}}}" + ("" if depth else "\n")
