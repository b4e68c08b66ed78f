"""Report of an evaluation: one self-contained HTML page with tables of all suites, worst first, and failed episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape

import numpy as np

from train_RL_agents.evaluation.comparing.tables import (
    METRIC_COLUMNS,
    Evaluation,
    compliance_table,
    metric_table,
    summary_table,
    worst_groups,
)
from train_RL_agents.evaluation.judging.failures import Failure
from train_RL_agents.evaluation.suites.suites import SUITES
from train_RL_agents.figures.page import Track, assemble_report, tracks_svg
from train_RL_agents.utils.provenance import software_versions
from train_RL_agents.utils.table import Column, Table

FEWEST_EPISODES = 10
"""Number of episodes of a group below which a report is called a quick look."""
_INTERVALS = (
    "Shares have 95% Wilson intervals in brackets, hours per event exact Poisson intervals; without an event there is "
    "a lower end alone. In suites that end in _own the policy steers one vessel, and the others keep course and speed."
)
_REPETITION = (
    "The same command with the same policy gives the same figures. Another hash of scenarios means another suite, and "
    "another hash of a file another policy."
)
_NUM_WORST_GROUPS = 15
_DOT_INTERVAL = 10
"""Number of points of a track, which are a second apart, between two dots."""
_LEFT_OUT = ("energy", "return", "robot success")
"""Titles of columns of metrics that a page leaves out."""
_WITH_INTERVALS = ("rules kept", "all kept", "avoided", "hours per broken duty")
"""Titles of columns of compliance and safety that a page shows with their intervals."""


def make_page(evaluations: Sequence[Evaluation]) -> str:
    """Return the report of evaluations, one for each suite, of the same policies and baselines as HTML."""
    results = evaluations[0].results
    fewest = min(row["episodes"] for each in evaluations for row in each.results[0].metrics.values())
    notes = []
    if fewest < FEWEST_EPISODES:
        note = f"Some groups have fewer than {FEWEST_EPISODES} episodes ({fewest} at the least)"
        notes = [("A quick look", f"<p>{note}, so that intervals are wide.</p>\n")]
    acting = "".join(f", {name} {value}" for name, value in evaluations[0].acting.items())
    names = ", ".join(result.name for result in results)
    whom = "".join(f"<p>{escape(result.policy_text() + acting)}</p>" for result in results)
    sections = (
        *notes,
        ("All suites", f"<p>{_INTERVALS}</p>\n{summary_table(evaluations).html('All suites')}"),
        ("Worst first", _worst_html(evaluations)),
        *map(_suite_section, evaluations),
        ("What was run", f"<p>{_REPETITION}</p>\n{_sources_html(evaluations)}"),
    )
    return assemble_report("evaluation", f"Evaluation of {names}", whom, sections)


def _worst_html(evaluations: Sequence[Evaluation]) -> str:
    """Return the table of the groups with the least success."""
    worst = worst_groups(evaluations, _NUM_WORST_GROUPS)
    keys = ("suite", "group", *(["policy"] if len(evaluations[0].results) > 1 else []))
    rates = [column for column in METRIC_COLUMNS[:4] if any(column.name in row for row in worst)]
    columns = [*map(Column, keys), Column("of", "successful"), *rates]
    rows = []
    for row in worst:
        successes = round(row["success_rate"] * row["episodes"])
        rows.append(row | {"of": f"{successes} of {row['episodes']:,}"})
    return Table(columns, rows).html("Groups with the least success") or "<p>Every episode succeeded.</p>\n"


def _suite_section(evaluation: Evaluation) -> tuple[str, str]:
    """Return name and HTML of a suite: tables, pictures of failed episodes, and the meanings of the columns."""
    name = evaluation.source
    about = f"{SUITES[name].about}; " if name in SUITES else ""
    metrics = metric_table(evaluation.results)
    columns = [column for column in metrics.columns if column.title not in _LEFT_OUT]
    tables = [Table(columns, metrics.rows, metrics.keys)]
    if evaluation.results[0].compliance is not None:
        tables.append(_narrow_compliance_table(evaluation))
    meanings = {column.title: column.meaning for table in tables for column in table.columns if column.meaning}
    items = "".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in meanings.items())
    pictures = [
        _failure_html(result.name if len(evaluation.results) > 1 else "", failure)
        for result in evaluation.results
        for failure in result.failures
    ]
    sheet = "<p>Failed episodes, north up; vessel 1 is the thick line, dots are 10 s apart.</p>\n"
    sheet += f'<div class="sheet">{"".join(pictures)}</div>\n'
    results = "".join(table.html(f"Results of {name}, {number}") for number, table in enumerate(tables, 1))
    return name, (
        f"<p>{escape(about[:1].upper() + about[1:])}{evaluation.setting['episodes']:,} episodes.</p>\n"
        f"{results}{sheet if pictures else ''}"
        f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>\n"
    )


def _narrow_compliance_table(evaluation: Evaluation) -> Table:
    """Return the table of compliance or safety, in which only the most important metrics have intervals."""
    wide = compliance_table(evaluation.results)
    keys = wide.columns[: 1 if len(evaluation.results) == 1 else 2]
    columns = [
        column if column.title in _WITH_INTERVALS else replace(column, ends=None)
        for column in wide.columns[2:]
        if not column.title.startswith("hours per broken") or column.title == "hours per broken duty"
    ]
    return Table([*keys, *columns], wide.rows, len(keys))


# Tracks -----------------------------------------------------------------------------------------


def _failure_html(policy: str, failure: Failure) -> str:
    """Return the picture of a failed episode with its caption, which begins with the policy if one is given."""
    end = "collision" if failure.has_collision else "time-out"
    label = f"{policy}{': ' * bool(policy)}{failure.group}, episode {failure.number}: {end}"
    lines = [track.numpy() for track in failure.tracks]
    tracks = [
        Track("other" if number else "own", line, line[:1], line[_DOT_INTERVAL::_DOT_INTERVAL])
        for number, line in enumerate(lines)
    ]
    picture = tracks_svg(tracks[::-1], np.concatenate(lines), label)
    return f"<figure>{picture}<figcaption>{escape(label)}</figcaption></figure>"


def _sources_html(evaluations: Sequence[Evaluation]) -> str:
    """Return HTML tables of the scenarios (seeds, hashes), the policies and the program (versions)."""
    suites = [
        {
            "suite": each.source,
            "episodes": f"{each.setting['episodes']:,}",
            "seed": str(each.setting["seed"]),
            "hash of the scenarios": each.scenario_hash or "-",
        }
        for each in evaluations
    ]
    rows = [
        {
            "policy": result.name,
            "agent": result.about["agent_type"],
            "env-steps": "-" if result.about["env_steps"] is None else f"{result.about['env_steps']:,}",
            "SHA-256 of the file": result.file_hash or "-",
        }
        for result in evaluations[0].results
    ]
    versions = [{"name": name, "version": text} for name, text in software_versions().items()]
    tables = {"Scenarios": suites, "Policies": rows, "Program": versions}
    return "".join(Table.from_rows(rows).html(title) for title, rows in tables.items())
