"""Certificate of a policy: one self-contained HTML page with its results on all suites of the benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

import numpy as np

from train_RL_agents.evaluation.entry import BENCHMARK_VERSION, COLLISION, Entry, SuiteResult
from train_RL_agents.evaluation.frozen import FROZEN_SUITES, OPTIONAL_SUITES
from train_RL_agents.evaluation.leading import LEADING_COLUMNS, leading_row, leading_table
from train_RL_agents.evaluation.suites import SUITES
from train_RL_agents.evaluation.tables import (
    COLUMN_MEANINGS,
    ENCOUNTER_COLUMNS,
    RATE_COLUMNS,
    RULES_COLUMNS,
    UNRULY_COLUMNS,
    compliance_format,
)
from train_RL_agents.evaluation.thresholds import THRESHOLDS
from train_RL_agents.figures.page import assemble_page
from train_RL_agents.results.rows import OVERALL
from train_RL_agents.results.statistics import Estimate, wilson_interval
from train_RL_agents.results.table import Column, Markup, Table, estimate_text

_COMPLIANCE_TITLES = {
    "compliance": "rules kept",
    "rules_kept": "rules kept",
    "all_kept": "all kept",
    "substantial": "substantial",
    "early": "early",
    "right_side": "right side",
    "not_ahead": "not ahead",
    "stood_on": "stood on",
    "avoided": "avoided",
    "unavoidable": "unavoidable",
    "unavoidable_at_sight": "unavoidable at sight",
    "safety": "safety",
    "delay": "delay (s)",
    "detour": "detour",
    "starboard_turns": "to starboard",
    "closest_approach": "closest (m)",
    "hours_per_broken_rule": "hours per broken rule",
}
"""Titles of the metrics of compliance with the COLREGs that are shown, by name."""
_INTERVAL_METRICS = ("rules_kept", "all_kept", "avoided", "hours_per_broken_rule")
"""Metrics of compliance that are shown with their confidence intervals."""
_COMPLIANCE_MEANINGS = RULES_COLUMNS | ENCOUNTER_COLUMNS | UNRULY_COLUMNS | RATE_COLUMNS
"""Meanings of the metrics of compliance by name."""
_MAX_GROUP_ROWS = 12
"""Largest number of groups of a suite that have a row each."""
_DOT_INTERVAL = 10
"""Time between two dots of a track (s)."""
_NUM_WEAKEST_GROUPS = 3
"""Number of the groups with the least success that have a tile each."""


def make_page(entry: Entry) -> str:
    """Return the certificate of an entry, the results of a policy in the benchmark, as HTML."""
    policy = entry.policy
    steps = policy.get("env_steps")
    trained = f" after {steps:,} env-steps" if isinstance(steps, int) else ""
    values = [threshold.estimate_in(entry) for threshold in THRESHOLDS]
    return assemble_page(
        "certificate",
        NAME=escape(policy["name"]),
        WHOM=escape(f"{policy['agent']}{trained}, benchmark {BENCHMARK_VERSION}, {entry.made}"),
        TILES="".join(_tile_elements(entry, values)),
        RATES=_leading_html(entry),
        THRESHOLDS=Table.from_rows([*_threshold_rows(values)]).html("Thresholds"),
        SUITES="".join(_suite_html(name, result) for name, result in entry.suites.items()),
        SOURCES=_sources_html(entry),
    )


def _interval_svg(value: Estimate, bound: float | None = None) -> Markup:
    """Return an SVG of a share with its interval, and perhaps the bound of a threshold, on a line from 0 to 1."""
    middle, low, high = (100.0 * min(max(number, 0.0), 1.0) for number in value)
    tick = "" if bound is None else f'<path class="bound" d="M{100 * bound:.1f} 0V12"/>'
    return Markup(
        '<svg class="range" viewBox="-3 0 106 12" aria-hidden="true"><line x1="0" x2="100" y1="6" '
        f'y2="6"/><line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="6" y2="6"/>{tick}'
        f'<circle cx="{middle:.1f}" cy="6" r="2.6"/></svg>'
    )


# Thresholds and the most important metrics ------------------------------------------------------


def _threshold_rows(values: Iterable[Estimate | None]) -> Iterator[dict[str, str]]:
    """Yield a row for each of evaluation.thresholds.THRESHOLDS: its cells by title of the column.

    Args:
        values: value measured for each threshold, in the order of THRESHOLDS; None if it was not measured.

    Yields:
        ``measured on``, ``verdict``, ``value``, ``threshold``, and ``0 to 1``, a picture of a share with its interval.
    """
    for threshold, value in zip(THRESHOLDS, values, strict=True):
        is_share, bound = threshold.metric != "avg_time", threshold.bound
        digits = ".3f" if is_share else ".1f"
        passed = value is not None and threshold.is_reached_by(value.value)
        word = "✓ pass" if passed else "✗ miss"
        word += ", close" if value is not None and value.low is not None and value.low < bound < value.high else ""
        yield {
            "measured on": threshold.about,
            "verdict": Markup(f'<span class="{"pass" if passed else "miss"}">{word}</span>'),
            "value": "-" if value is None else estimate_text(value, digits),
            "threshold": f"{'at most' if threshold.at_most else 'at least'} {bound:{digits}}",
            "0 to 1": Markup("") if not is_share else "-" if value is None else _interval_svg(value, bound),
        }


_LEADING_TILES = (
    ("fresh", "hours_per_collision", "vessel-hours per collision, published levels"),
    ("dnv_own", "hours_per_broken_rule", "vessel-hours per broken rule, DNV's situations, own vessel alone"),
    ("dnv_own", "situations", "DNV's situations without a collision, own vessel alone"),
    ("imazu_ntnu_own", "situations", "Imazu's problems (NTNU) without a collision, own vessel alone"),
    ("encounters_own", "weakest", "random encounters without a collision, own vessel alone, weakest kind"),
)
"""Suite, column of its row of leading metrics, and title of each tile with a leading metric."""


def _leading_tiles(entry: Entry) -> Iterator[tuple[str, str, str]]:
    """Yield title, value and interval, as text, of the boxes on top of a certificate, metrics that rank policies."""
    columns = {column.name: column for column in LEADING_COLUMNS}
    for suite, name, title in _LEADING_TILES:
        if suite in entry.suites:
            value, _, ends = columns[name].text(leading_row(suite, entry.suites[suite])).partition(" [")
            yield title, value, ends.rstrip("]").replace(", ", " to ")


def _leading_html(entry: Entry) -> str:
    """Return the table of the leading metrics as HTML, with a list of the meanings of its columns."""
    items = "".join(f"<dt>{escape(c.title)}</dt><dd>{escape(c.meaning)}</dd>" for c in LEADING_COLUMNS)
    meanings = f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>\n"
    return leading_table(entry).html("Rates and situations of others") + meanings


def _tile_elements(entry: Entry, values: Sequence[Estimate | None]) -> Iterator[str]:
    """Yield the HTML of tiles: leading metrics, passed thresholds, success on the published levels, weakest groups.

    Args:
        entry: results of the policy.
        values: value measured for each threshold, in the order of THRESHOLDS; None if the entry does not have it.
    """

    def tile(title: str, value: str, ends: str = "") -> str:
        return f"<div><dt>{title}</dt><dd>{value}<small>{ends}</small></dd></div>"

    for title, value, ends in _leading_tiles(entry):
        yield tile(escape(title), escape(value), escape(ends))
    measured = [*zip(THRESHOLDS, values, strict=True)]
    passed = sum(value is not None and threshold.is_reached_by(value.value) for threshold, value in measured)
    yield tile("thresholds passed", f"{passed} of {len(THRESHOLDS)}")
    shown = []
    if "fresh" in entry.suites:
        shown.append(("success, published levels", entry.suites["fresh"].estimates()["success_rate"]))
    shown += [(f"weakest: {name}", value) for name, value in _weakest_groups(entry)]
    shown += [(threshold.about, value) for threshold, value in measured if threshold.suite == "imazu" and value]
    for title, (value, low, high) in shown:
        yield tile(title, f"{value:.3f}", f"{low:.3f} to {high:.3f}")


def _weakest_groups(entry: Entry) -> list[tuple[str, Estimate]]:
    """Return names and success rates of the groups with the least success; a suite of many groups counts as one."""
    shares = []
    for suite, result in entry.suites.items():
        several = 1 < len(result.groups) <= _MAX_GROUP_ROWS
        for group in result.groups if several else (OVERALL,):
            shares.append((f"{suite}, {group}" if several else suite, result.estimates(group)["success_rate"]))
    return sorted(shares, key=lambda share: share[1].value)[:_NUM_WEAKEST_GROUPS]


# The suites -------------------------------------------------------------------------------------

_METRIC_COLUMNS = (
    Column("group"),
    Column("episodes"),
    Column("success_rate", "success", ".3f"),
    Column("success_rate", "0 to 1", _interval_svg),
    Column("collision_rate", "collision", ".3f"),
    Column(
        "hours_per_collision",
        "hours per collision",
        ".2f",
        ("hours_per_collision_low", "hours_per_collision_high"),
    ),
    Column("timeout_rate", "time-out", ".3f"),
    Column("robot_success_rate", "vessels that arrive", ".3f"),
    Column("avg_time", "time", ".1f", unit="s"),
)
"""Columns of the table of a suite's metrics."""
_DUTY_COLUMNS = (
    Column("role"),
    Column("kept"),
    Column("share", format=".3f"),
    Column("share", "0 to 1", _interval_svg),
    Column("hours", "hours per broken rule", ".3f", ("low", "high")),
)
"""Columns of the table of kept duties by role."""


def _suite_html(name: str, result: SuiteResult) -> str:
    """Return the HTML section of a suite: metrics by group; compliance, duties and tracks where there are any."""
    description = SUITES[name].about if name in SUITES else ""
    # If a suite has very many groups, its tables have only the overall row.
    shown = [group for group in result.table if group == OVERALL or len(result.groups) <= _MAX_GROUP_ROWS]
    metrics = [{"group": group, **result.table[group], **result.estimates(group)} for group in shown]
    compliance = [{"group": group, **row} for group, row in result.compliance.items() if group in shown]
    columns = [
        Column(key, title, compliance_format(key), (f"{key}_low", f"{key}_high") if key in _INTERVAL_METRICS else None)
        for key, title in _COMPLIANCE_TITLES.items()
        if compliance and key in compliance[0]
    ]
    duties = [
        {"role": role, "kept": f"{kept} of {asked}", **_hours_per_broken_rule(result, role)}
        | ({"share": Estimate(kept / asked, *wilson_interval(kept, asked))} if asked else {})
        for role, (kept, asked) in result.duties.items()
    ]
    return (
        f'<section class="card">\n<h2>{escape(name)}</h2>\n<p>{escape(description[:1].upper() + description[1:])}; '
        f"{len(result.level):,} episodes. {100 * result.astern:.1f}% of the steps are astern.</p>\n"
        f"{Table(_METRIC_COLUMNS, metrics).html(f'Figures of {name}')}{_track_sheet_html(result)}"
        f"{Table([Column('group'), *columns], compliance).html(f'Compliance in {name}')}"
        f"{Table(_DUTY_COLUMNS, duties).html(f'Duties in {name}')}{_meanings_html(result)}</section>\n"
    )


def _hours_per_broken_rule(result: SuiteResult, role: str) -> dict[str, float | None]:
    """Return the hours per broken rule of a role (``hours``), with the ends of their interval (``low``, ``high``)."""
    row, name = result.compliance.get(OVERALL, {}), f"hours_per_broken_{role.replace('-', '_')}"
    return {key: row.get(f"{name}{end}") for key, end in (("hours", ""), ("low", "_low"), ("high", "_high"))}


def _meanings_html(result: SuiteResult) -> str:
    """Return the meanings of the columns of a suite's tables as a collapsed HTML list."""
    compliance = next(iter(result.compliance.values()), {})
    meanings = COLUMN_MEANINGS | {
        _COMPLIANCE_TITLES[name]: _COMPLIANCE_MEANINGS[name] for name in compliance if name in _COMPLIANCE_TITLES
    }
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
        for name, text in meanings.items()
        if name not in ("energy", "return", "robot success")
    )
    return f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>\n"


# Tracks -----------------------------------------------------------------------------------------


def _track_sheet_html(result: SuiteResult) -> str:
    """Return HTML with a small picture of the first episode of each group; empty if the result has no tracks."""
    if not result.tracks:
        return ""
    pictures = []
    for number, (group, paths) in enumerate(zip(result.groups, result.tracks, strict=True)):
        hit = result.outcome[result.level.index(number)] == COLLISION
        kept = result.compliance.get(group, {}).get("all_kept")
        text = f"{1.0 - result.table[group]['collision_rate']:.2f} clear"
        text += "" if kept is None else f", {kept:.2f} kept"
        label = f"Tracks of {group}{', with a collision' if hit else ''}"
        pictures.append(
            f"<figure>{_track_svg(paths, label, hit)}<figcaption><b>{escape(group)}</b> {text}</figcaption></figure>"
        )
    caption = (
        f"The first episode of each, north up; vessel 1 is the thick line, dots are {_DOT_INTERVAL} "
        "s apart. Below: share of the episodes without a collision, and of those in which "
        "every vessel kept the rules."
    )
    return f'<p>{caption}</p>\n<div class="sheet">{"".join(pictures)}</div>\n'


def _track_svg(paths: Sequence[tuple[float, ...]], label: str, hit: bool) -> str:
    """Return an SVG of an episode, north up, from x and y (m) of the positions of each vessel in turn.

    ``label`` describes the picture, and ``hit`` is true if vessels collided.
    """
    points = [np.reshape(path, (-1, 2))[:, ::-1] * (1.0, -1.0) for path in paths]
    path = np.concatenate(points)
    middle, side = (path.min(0) + path.max(0)) / 2, max(float(np.ptp(path, 0).max()), 1.0) * 1.12
    parts = []
    for number, path in enumerate(points):
        path = 100.0 * ((path - middle) / side + 0.5)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in path)
        (x, y), dots = path[0], path[_DOT_INTERVAL::_DOT_INTERVAL]
        parts.append(
            f'<g class="{"other" if number else "own"}"><polyline points="{line}"/>'
            f'<rect x="{x - 2:.1f}" y="{y - 2:.1f}" width="4" height="4"/>'
            + "".join(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="1.7"/>' for a, b in dots)
            + "</g>"
        )
    return (
        f'<svg class="tracks{" hit" if hit else ""}" viewBox="0 0 100 100" role="img" '
        f'aria-label="{escape(label)}">{"".join(reversed(parts))}</svg>'
    )


def _sources_html(entry: Entry) -> str:
    """Return HTML tables of the scenarios (seeds, hashes), the policy and the program (versions)."""
    suites = []
    for name, result in entry.suites.items():
        fixed = FROZEN_SUITES | OPTIONAL_SUITES
        same = name in fixed and result.scenarios == fixed[name].scenarios
        suites.append(
            {
                "suite": name,
                "episodes": f"{len(result.level):,}",
                "seed": str(result.seed),
                "hash of the scenarios": result.scenarios,
                f"of benchmark {BENCHMARK_VERSION}": "yes" if same else "no: a quick look, or another program",
            }
        )
    facts = [
        {"name": name.replace("_", " "), "value": "-" if value in (None, "") else str(value)}
        for part in (entry.policy, entry.program)
        for name, value in part.items()
    ]
    return Table.from_rows(suites).html("Scenarios") + Table.from_rows(facts).html("Policy and program")
