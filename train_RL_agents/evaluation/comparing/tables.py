"""Tables of the metrics of an evaluation: their columns, and what the columns mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from marinenav_env.rules.roles import ROLES
from train_RL_agents.evaluation.judging.failures import Failure
from train_RL_agents.evaluation.judging.verdicts import Comparison
from train_RL_agents.evaluation.running.recording import Recording
from train_RL_agents.utils.files import sha256_of
from train_RL_agents.utils.rows import OVERALL, nonfinite_to_none
from train_RL_agents.utils.table import UNLIMITED_WIDTH, Column, Table

_METRICS = {
    "success_rate": ("success", ".3f", "episodes in which every robot arrives, with the 95% Wilson interval; "
                     "an episode stops at its first collision"),
    "collision_rate": ("collision", ".3f", "episodes with a collision"),
    "grounding_rate": ("grounding", ".3f", "episodes in which a vessel runs aground"),
    "timeout_rate": ("time-out", ".3f", "episodes without a collision in which some robot did not arrive in time"),
    "robot_success_rate": ("robot success", ".3f", "robots that arrive when episodes continue after a collision"),
    "avg_time": ("travel time", ".1f", "of a robot (s), mean over successful episodes"),
    "avg_energy": ("energy", ".0f", "thrust spent per robot (N s), mean over successful episodes"),
    "avg_return": ("return", ".2f", "sum of 0.99^t reward per robot, mean over all episodes"),
    "hours_per_collision": ("hours per collision", ".2f", "hours of the vessels without a behaviour, per collision, "
                            "with the exact 95% Poisson interval; without a collision its lower end"),
    "hours_per_grounding": ("hours per grounding", ".2f", "vessel-hours per grounding, with the exact 95% Poisson "
                            "interval; without one its lower end"),
}  # fmt: skip
_EXTERNAL_METRICS = {
    "success_rate": _METRICS["success_rate"],
    "avg_return": ("return", ".2f", "sum of the rewards of an episode, mean of the agents, with the 95% interval of "
                   "the mean"),
    "avg_length": ("length", ".1f", "steps of an episode, mean"),
}  # fmt: skip
METRIC_COLUMNS, EXTERNAL_METRIC_COLUMNS = (
    tuple(
        Column(name, title, form, (f"{stem}_low", f"{stem}_high"), meaning=meaning)
        for name, (title, form, meaning) in metrics.items()
        for stem in [{"success_rate": "success", "avg_return": "return"}.get(name, name)]
    )
    for metrics in (_METRICS, _EXTERNAL_METRICS)
)
"""Columns of the metrics in the built-in environment, where those of groundings are only in waters with shores, and in
external ones, where success is only where the environment reports it."""


def metric_columns(results: Sequence[Result]) -> tuple[Column, ...]:
    """Return the columns of the metrics that results have, in the built-in or in an external environment."""
    row = next(iter(results[0].metrics.values()))
    columns = METRIC_COLUMNS if "collision_rate" in row else EXTERNAL_METRIC_COLUMNS
    return tuple(column for column in columns if column.name in row)


DIFFERENCE_COLUMN = Column(
    "difference",
    "than the first",
    "+.3f",
    ("difference_low", "difference_high"),
    meaning="success rate less that of the first policy on the same episodes, with the 95% interval of this mean",
)


_COMPLIANCE = {
    "all_kept": "encounters, of those with a duty, in which every vessel kept all its duties",
    "rules_kept": "vessels with a duty that kept all of theirs, of those with one; what follows in "
    "brackets are 95% intervals (Wilson; of means, normal)",
    "fleeting": "risks of collision that ended before they were confirmed, which are not scored",
    "substantial": "vessels that must keep clear and turned (15 degrees) or slowed (30%)",
    "early": "the same before the other was closer than 10 m (of boats: to scale), or half of the gap was left",
    "right_side": "vessels that are head-on and turned to starboard first, or give way crossing "
    "and did not turn to port first",
    "not_ahead": "vessels that give way crossing and did not cross ahead",
    "stood_on": "vessels that had to stand on and kept course and speed until the risk was "
    "over or the other closer than 10 m",
    "safety": "0 at a contact to 1 where the other's domain (8 m; of boats: to scale) is kept, mean of vessels",
    "delay": "travel time less that of the same vessel alone (s), mean",
    "detour": "path over that of the same vessel alone, less 1, mean",
    "astern": "share of steps astern, mean",
    "hours_per_broken_duty": "vessel-hours of scored vessels per duty that was not kept, with the exact 95% Poisson "
    "interval; without one its lower end",
    **{f"hours_per_broken_{role.replace('-', '_')}": f"the same of the role {role}" for role in ROLES[1:]},
    "no_collision": "encounters without a collision of the own vessel, with the 95% Wilson interval",
    "avoided": "the same of those whose collision was not unavoidable",
    "unavoidable": "encounters with a collision that none of 324 open-loop manoeuvres of the own vessel avoids, from "
    "the moment on at which it can see that the other vessel misbehaves",
    "unavoidable_at_sight": "likewise from the moment on at which it sees a vessel",
    "collisions": "candidates in which the own vessel collided",
    "per_candidate": "collisions per candidate, with the exact 95% Poisson interval",
    "avoidable_per_candidate": "the same without collisions that none of 324 open-loop manoeuvres of the own vessel "
    "avoids, from the moment on at which it sees a vessel",
    "ships_with_crews": "collisions per candidate of ships with crews (causation factors of IALA's IWRAP)",
}
_FORMATS = {"fleeting": ".0f", "collisions": ".0f", "ships_with_crews": ".2g"}
_FORMATS |= {name: ".3f" if "hours" in name else ".2g" for name in _COMPLIANCE if "_per_" in name}
COMPLIANCE_COLUMNS = tuple(
    Column(name, name.replace("_", " "), _FORMATS.get(name, ".2f"), (f"{name}_low", f"{name}_high"), meaning=meaning)
    for name, meaning in _COMPLIANCE.items()
)
"""Columns of compliance with the rules of the sea, and of safety, of which each suite has some."""


@dataclass(frozen=True)
class Result:
    """Results of one policy in an evaluation, by group of scenarios."""

    name: str
    """Name of the policy on the command line."""
    about: dict[str, Any]
    """``checkpoint``, ``agent_type`` and ``env_steps``, see EvaluatedPolicy.about."""
    metrics: dict[str, dict[str, Any]]
    """Metrics by name of the group and overall; see Episodes.metrics."""
    differences: dict[str, dict[str, Any]] | None = None
    """Differences of success rates from the first policy by group and overall, see rows.paired_differences; None for
    the first policy."""
    compliance: dict[str, dict[str, Any]] | None = None
    """Metrics of compliance with the rules of the sea, or of safety, by group and name (see compliance_columns); None
    for suites without such metrics."""
    situations: dict[str, int] | None = None
    """Number of situations ``without_collision`` in any of their episodes, and number of ``all`` situations; None for
    other suites than those of encounters."""
    shielded: float | None = None
    """Share of the control steps in which the safety shield replaced the command; None without a shield."""
    astern: float | None = None
    """Share of the control steps astern; None unless a report was requested."""
    failures: tuple[Failure, ...] = ()
    """Some failed episodes; empty unless a report was requested."""
    judges: Comparison | None = None
    """Comparison of the judges that were requested; None without any."""

    def __repr__(self) -> str:
        return f"<Result of {self.short_text()}>"

    def _repr_html_(self) -> str:
        return _html([self], self.name)

    @property
    def file_hash(self) -> str | None:
        """Return the SHA-256 of the policy's file; None for a baseline."""
        return None if self.about["checkpoint"] is None else sha256_of(Path(self.about["checkpoint"]))

    @property
    def overall(self) -> dict[str, Any]:
        """Return the metrics over all episodes."""
        return self.metrics[OVERALL]

    @property
    def compliance_columns(self) -> tuple[Column, ...]:
        """Return the columns of compliance or safety that the suite has."""
        names = {name for row in (self.compliance or {}).values() for name in row}
        return tuple(column for column in COMPLIANCE_COLUMNS if column.name in names)

    def short_text(self) -> str:
        """Return the name of the policy with its first metric, such as the success rate, in a few words."""
        row = self.overall
        column = metric_columns([self])[0]
        return f"{self.name}, {column.title} {column.text(row)} of {row['episodes']} episodes"

    @property
    def collisions_line(self) -> str | None:
        """Return a line with the number of situations without a collision, and the worst group; None without counts."""
        if self.situations is None:
            return None
        groups = {name: row for name, row in self.metrics.items() if name != OVERALL}
        lowest = max(groups, key=lambda name: groups[name]["collision_rate"])
        row = groups[lowest]
        count = round((1.0 - row["collision_rate"]) * row["episodes"])
        total = "{without_collision} of {all}".format(**self.situations)
        fewest = f"; fewest in {lowest}: {count} of {row['episodes']} episodes without one"
        return f"{self.name}: situations without a collision: {total}{fewest if row['collision_rate'] else ''}"

    def policy_text(self) -> str:
        """Return a description of the policy in a few words: agent, env-steps and file."""
        agent, file = self.about["agent_type"], self.about["checkpoint"]
        return str(agent) if file is None else f"{agent} after {self.about['env_steps']:,} env-steps, {file}"


@dataclass(frozen=True)
class Evaluation:
    """Metrics of policies on the same scenarios, shown as a table when printed and in notebooks."""

    results: list[Result]
    """Metrics of each policy."""
    setting: dict[str, Any]
    """Settings that the metrics depend on; with several policies, only those that they have in common."""
    recording: Recording | None = None
    """Recording of the last policy's episodes; None if it was not requested."""
    scenario_hash: str | None = None
    """Hash of the scenarios of a frozen suite; None for others."""

    @property
    def source(self) -> str:
        """Return the name of the suite or of the file with the scenarios, or ``levels``."""
        return str(self.setting["suite"] or self.setting["scenarios"] or "levels")

    @property
    def heading(self) -> str:
        """Return a line that names the policies and the scenarios."""
        return f"{'; '.join(result.policy_text() for result in self.results)}, on {self._scenarios}"

    @property
    def _scenarios(self) -> str:
        """Return a description of the scenarios, and of how policies act on them."""
        acting = "".join(f", {name}" if value is True else f", {name} {value}" for name, value in self.acting.items())
        return f"{self.source}, seed {self.setting['seed']}{acting}"

    @property
    def acting(self) -> dict[str, Any]:
        """Return the options of acting that differ from the defaults."""
        options = {name: self.setting.get(name) for name in ("risk", "stochastic", "others", "shield")}
        return {name: value for name, value in options.items() if value}

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Return all metrics as one table: a dict for each group and policy."""
        return [row | self.acting for row in _group_rows(self.results, "metrics", "differences", "compliance")]

    def content(self) -> dict[str, Any]:
        """Return what the evaluation's JSON file holds: setting, meanings of columns, and metrics of each policy."""
        first, alone = self.results[0], len(self.results) == 1
        columns = metric_table(self.results).columns
        content: dict[str, Any] = {
            "setting": self.setting,
            "columns": {column.title: column.meaning for column in columns if column.meaning},
        }
        # In files, compliance is named ``conduct``, and metrics are named ``figures``.
        if alone:
            optional = {"situations": first.situations, "shielded": first.shielded}
            content |= {"figures": first.metrics} | {key: value for key, value in optional.items() if value is not None}
            content |= {} if first.judges is None else {"judges": asdict(first.judges)}
        else:
            names = {"compliance": "conduct", "metrics": "figures"}
            content["policies"] = [
                {
                    names.get(key, key): value if key != "judges" else value and asdict(value)
                    for key, value in vars(result).items()
                    if key not in ("astern", "failures")
                }
                for result in self.results
            ]
        if first.compliance is not None:
            meanings = {column.name: column.meaning for column in first.compliance_columns}
            content |= {"conduct": first.compliance, "conduct_columns": meanings}
        return dict(nonfinite_to_none(content))

    def show(self) -> None:
        """Print the tables, with the meaning of each column below them."""
        first, (metrics, *compliance) = self.results[0], _tables(self.results)
        metrics.print(self.heading)
        for table in compliance:
            print()
            table.print("Rules of the sea" if "rules kept" in table.titles else "Safety")
        for result in self.results:
            if result.judges is not None:
                print(f"\n{result.name}")
                result.judges.show(explains=result is first)
        for line in self._lines():
            print(f"\n{line}")

    def _lines(self) -> list[str]:
        """Return the sentences below the tables: situations without a collision, and shares of the shield."""
        lines = [line for result in self.results if (line := result.collisions_line) is not None]
        shielded = {result.name: result.shielded for result in self.results if result.shielded is not None}
        return lines + [f"{name}: the shield acted in {share:.1%} of the steps" for name, share in shielded.items()]

    def markdown(self) -> str:
        """Return the tables in Markdown, below a heading."""
        tables = [table.markdown() for table in _tables(self.results)]
        return "\n".join([self.heading + "\n", *tables, *(f"{line}.\n" for line in self._lines())])

    def __str__(self) -> str:
        lines, _ = metric_table(self.results).lines(UNLIMITED_WIDTH)
        return "\n".join([*([self.heading] if self.acting else []), *lines])

    def __repr__(self) -> str:
        return f"<Evaluation on {self._scenarios}: {'; '.join(result.short_text() for result in self.results)}>"

    def _repr_html_(self) -> str:
        return _html(self.results, self.heading)


_IMPORTANT_TITLES = (
    *("success", DIFFERENCE_COLUMN.title, "collision", "hours per collision", "time-out", "travel time"),
    *("robot success", "episodes", "return", "energy"),
)
"""Titles of columns that are left out last where a line is too short, the most important first."""


def _group_rows(results: Sequence[Result], *parts: str) -> list[dict[str, Any]]:
    """Return a row for each group and policy, group by group, of some attributes of results."""
    groups = getattr(results[0], parts[0]) or {}

    def values(result: Result, group: str) -> Iterator[tuple[str, Any]]:
        for part in parts:
            yield from (getattr(result, part) or {}).get(group, {}).items()

    return [{"group": group, "policy": each.name, **dict(values(each, group))} for group in groups for each in results]


def metric_table(results: Sequence[Result]) -> Table:
    """Return the table of the metrics, with a row for each group and policy."""
    group, several = Column("group", ""), len(results) > 1
    keys = [group, Column("policy")] if several else [group]
    compared = [DIFFERENCE_COLUMN] if several and METRIC_COLUMNS[1] in metric_columns(results) else []
    rows = _group_rows(results, "metrics", "differences")
    return Table([*keys, Column("episodes"), *metric_columns(results), *compared], rows, len(keys), _IMPORTANT_TITLES)


def compliance_table(results: Sequence[Result]) -> Table:
    """Return the table of compliance with the rules of the sea, or of safety, by group and policy."""
    columns = results[0].compliance_columns
    important = ("rules kept", "hours per broken duty")
    return Table([Column("group", ""), Column("policy"), *columns], _group_rows(results, "compliance"), 2, important)


def _tables(results: Sequence[Result]) -> list[Table]:
    compliance = [compliance_table(results)] if results[0].compliance is not None else []
    return [metric_table(results), *compliance]


def _html(results: Sequence[Result], heading: str) -> str:
    return f"<p>{escape(heading)}</p>\n" + "".join(table.html(heading) for table in _tables(results))


# Several suites ---------------------------------------------------------------------------------


_SITUATIONS = Column(
    "situations",
    "situations without collision",
    meaning="situations without a collision in any of their episodes, which differ in the measurement noise",
)
_COLUMNS = {column.name: column for column in (*METRIC_COLUMNS, *COMPLIANCE_COLUMNS, _SITUATIONS)}
_SUMMARY_COLUMNS = (
    *("success_rate", "collision_rate", "hours_per_collision", "situations"),
    *("rules_kept", "hours_per_broken_duty", "avoided"),
)
"""Names of the columns of the summary, of which those that no suite has are left out."""


def summary_table(evaluations: Sequence[Evaluation]) -> Table:
    """Return the table of several suites, with a row for each suite and policy."""
    rows = [
        {"suite": each.source, "policy": result.name, **_summary_row(result)}
        for each in evaluations
        for result in each.results
    ]
    several = len(evaluations[0].results) > 1
    keys = [Column("suite", ""), Column("policy")] if several else [Column("suite", "")]
    columns = [_COLUMNS[name] for name in _SUMMARY_COLUMNS if any(name in row for row in rows)]
    compared = [DIFFERENCE_COLUMN] if several else []
    return Table([*keys, Column("episodes"), *columns, *compared], rows, len(keys), ("success", "collision"))


def _summary_row(result: Result) -> dict[str, Any]:
    """Return the metrics of a suite for the table of several suites."""
    row = {
        **(result.compliance or {}).get(OVERALL, {}),
        **result.overall,
        **(result.differences or {}).get(OVERALL, {}),
    }
    if result.situations is not None:
        row["situations"] = "{without_collision} of {all}".format(**result.situations)
    return row


def worst_groups(evaluations: Sequence[Evaluation], count: int) -> list[dict[str, Any]]:
    """Return the metrics of the groups of scenarios with the least success, of all suites and policies, worst first."""
    rows = [
        {"suite": each.source, "policy": result.name, "group": group, **row}
        for each in evaluations
        for result in each.results
        for group, row in result.metrics.items()
        if row["success_rate"] < 1.0 and (group != OVERALL or len(result.metrics) == 1)
    ]
    return sorted(rows, key=lambda row: (row["success_rate"], -row["episodes"]))[:count]


def show_all(evaluations: Sequence[Evaluation]) -> None:
    """Print the tables of one evaluation, or the summary of several."""
    if len(evaluations) == 1:
        evaluations[0].show()
    else:
        summary_table(evaluations).print("; ".join(result.policy_text() for result in evaluations[0].results))
