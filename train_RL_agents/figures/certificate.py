"""The certificate of a policy: all suites of the benchmark on one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from train_RL_agents.evaluation.bars import BARS, Bar, mean_estimates
from train_RL_agents.evaluation.entry import BENCHMARK, COLLISION, Entry, SuiteResult
from train_RL_agents.evaluation.frozen import FROZEN
from train_RL_agents.evaluation.suites import SUITES
from train_RL_agents.evaluation.tables import COLUMNS, CONDUCT, MARKS
from train_RL_agents.figures.page import assemble
from train_RL_agents.results.statistics import Estimate, wilson_interval
from train_RL_agents.results.table import Column, Markup, Table

_SHOWN = {
    "compliance": "rules kept",
    "rules_kept": "rules kept",
    "all_kept": "all kept",
    "substantial": "substantial",
    "early": "early",
    "right_side": "right side",
    "not_ahead": "not ahead",
    "stood_on": "stood on",
    "safety": "safety",
    "delay": "delay (s)",
    "detour": "detour",
    "starboard_turns": "to starboard",
    "closest_approach": "closest (m)",
}
"""Figures of conduct that are shown, with their titles."""
_MOST_ROWS = 12
"""Groups of a suite that have a row each."""
_TEN = 10
"""Seconds between two dots of a track."""


def write_page(entry: Entry) -> str:
    """Make the page.

    Args:
        entry: what the policy did.

    Returns:
        HTML.
    """
    name, (passed, bars) = escape(entry.policy["name"]), _bars(entry)
    sections = [
        _section("What counts as a pass", _PASS, bars),
        *(_suite(suite, result) for suite, result in entry.suites.items()),
        _section("What it was measured with", _MEASURED, _sources(entry)),
    ]
    body = (
        f"<header><h1>Certificate of {name}</h1><p>{escape(_whom(entry))}</p></header>\n<main>\n"
        f"{_summary(entry, passed)}{''.join(sections)}</main>"
    )
    return assemble("certificate", (), {}).replace("__BODY__", body)


_PASS = (
    "The bars were set by the developers of marinenav with the suites of the benchmark, for "
    "the policies that they trained themselves; they are no standard of any authority. "
    "A bar is passed when the measured value reaches it. Values in brackets are 95% intervals "
    "(Wilson; of vessels and times, normal over episodes); a bar inside of one is marked as "
    "close."
)
_WEAKEST = 3
"""Groups of suites with the least success that have a tile each."""
_MEASURED = (
    "The same command with the same policy gives the same figures. Hashes of scenarios "
    "are over all tensors that episodes start from, and that of the policy over its file. "
    "Another hash means other scenarios or another policy."
)


def _whom(entry: Entry) -> str:
    policy = entry.policy
    steps = policy.get("env_steps")
    trained = f" after {steps:,} env-steps" if isinstance(steps, int) else ""
    return f"{policy['agent']}{trained}, benchmark {BENCHMARK}, {entry.made}"


def _section(title: str, text: str, content: str) -> str:
    return f'<section class="card">\n<h2>{escape(title)}</h2>\n<p>{text}</p>\n{content}</section>\n'


def _number(value: float, digits: int = 3) -> str:
    return f"{value:.{digits}f}"


def _estimate(value: Estimate | None, digits: int = 3) -> str:
    """A value with its interval, if it has one."""
    if value is None:
        return "-"
    middle, low, high = (_number(each, digits) for each in value)
    return middle if low == high else f"{middle} [{low}, {high}]"


def _range(value: Estimate | None, bound: float | None = None) -> Markup:
    """A share as a picture: interval, value and bound on a line from 0 to 1."""
    if value is None:
        return Markup("-")
    middle, low, high = (100.0 * min(max(each, 0.0), 1.0) for each in value)
    tick = "" if bound is None else f'<path class="bound" d="M{100 * bound:.1f} 0V12"/>'
    return Markup(
        '<svg class="range" viewBox="-3 0 106 12" aria-hidden="true"><line x1="0" x2="100" y1="6" '
        f'y2="6"/><line class="interval" x1="{low:.1f}" x2="{high:.1f}" y1="6" y2="6"/>{tick}'
        f'<circle cx="{middle:.1f}" cy="6" r="2.6"/></svg>'
    )


# The bars ---------------------------------------------------------------------------------------


def _bars(entry: Entry) -> tuple[int, str]:
    """How many bars are passed, and their table."""
    rows, passed = [], 0
    for bar in BARS:
        value = bar.measured(entry)
        good = value is not None and bar.passed(value[0])
        passed += good
        rows.append(_bar_row(bar, value, good))
    return passed, Table.of(rows).html("Bars")


def _bar_row(bar: Bar, value: Estimate | None, good: bool) -> dict[str, str]:
    share = bar.figure != "avg_time"
    digits = 3 if share else 1
    close = value is not None and value[1] < bar.bound < value[2]
    word = ("✓ pass" if good else "✗ miss") + (", close" if close else "")
    return {
        "measured on": bar.about,
        "verdict": Markup(f'<span class="{"pass" if good else "miss"}">{word}</span>'),
        "value": _estimate(value, digits),
        "bar": f"{'at most' if bar.at_most else 'at least'} {_number(bar.bound, digits)}",
        "0 to 1": _range(value, bar.bound) if share else Markup(""),
    }


def _summary(entry: Entry, passed: int) -> str:
    """Return the most important figures, large: the weakest ones among them."""
    tiles = [("bars passed", f"{passed} of {len(BARS)}", "")]
    if "fresh" in entry.suites:
        tiles.append(_tile("success, published levels", entry.suites["fresh"].episodes.table()["overall"]))
    tiles += [_tile(f"weakest: {about}", row) for about, row in _weakest(entry)]
    for bar in (each for each in BARS if each.suite == "imazu"):
        if (value := bar.measured(entry)) is not None:
            tiles.append((bar.about, _number(value[0]), f"{value[1]:.3f} to {value[2]:.3f}"))
    made = (f"<div><dt>{about}</dt><dd>{value}<small>{ends}</small></dd></div>" for about, value, ends in tiles)
    return f'<dl class="tiles">{"".join(made)}</dl>\n'


def _tile(about: str, row: dict[str, Any]) -> tuple[str, str, str]:
    """Title, success and its interval."""
    ends = f"{row['success_low']:.3f} to {row['success_high']:.3f}"
    return about, _number(row["success_rate"]), ends


def _weakest(entry: Entry) -> list[tuple[str, dict[str, Any]]]:
    """Name the groups of suites with the least success; a suite of many groups counts as one."""
    found = []
    for suite, result in entry.suites.items():
        table = result.episodes.table(result.groups)
        several = 1 < len(result.groups) <= _MOST_ROWS
        chosen = [*result.groups] if several else ["overall"]
        found += [(f"{suite}, {group}" if several else suite, table[group]) for group in chosen]
    return sorted(found, key=lambda each: each[1]["success_rate"])[:_WEAKEST]


_FIGURES = (
    Column("group"),
    Column("episodes"),
    Column("success", format=_estimate),
    Column("success", "0 to 1", _range),
    Column("collision", format=_estimate),
    Column("timeout", "time-out", _estimate),
    Column("robot_success_rate", "vessels that arrive", _estimate),
    Column("avg_time", "time", partial(_estimate, digits=1), unit="s"),
)
"""Columns of the figures of a suite."""
_DUTIES = (
    Column("role"),
    Column("kept"),
    Column("share", format=_estimate),
    Column("share", "0 to 1", _range),
)


# The suites -------------------------------------------------------------------------------------


def _suite(name: str, result: SuiteResult) -> str:
    """Figures by group, then conduct, duties and tracks where there are any."""
    table = result.episodes.table(result.groups)
    about = SUITES[name].about if name in SUITES else ""
    text = (
        f"{escape(about[:1].upper() + about[1:])}; {len(result.level):,} episodes. "
        f"{100 * result.astern:.1f}% of the steps are astern."
    )
    rows = [
        {"group": group, "episodes": row["episodes"]} | _shares(row) | mean_estimates(result, group)
        for group, row in table.items()
        if _is_shown(group, result)
    ]
    parts = [
        Table(_FIGURES, rows).html(f"Figures of {name}"),
        _sheet(result),
        _conduct(result).html(f"Conduct in {name}"),
        _duties(result).html(f"Duties in {name}"),
        _meanings(result),
    ]
    return _section(name, text, "".join(parts))


def _is_shown(group: str, result: SuiteResult) -> bool:
    """Whether a table has a row for a group: of very many there is but the last."""
    return group == "overall" or len(result.groups) <= _MOST_ROWS


def _shares(report: dict[str, Any]) -> dict[str, Estimate]:
    """Return the rates of a report with their intervals, by name."""
    return {
        name: Estimate(report[f"{name}_rate"], report[f"{name}_low"], report[f"{name}_high"])
        for name in ("success", "collision", "timeout")
    }


def _conduct(result: SuiteResult) -> Table:
    """Return conduct by group."""
    rows = [{"group": group, **figures} for group, figures in result.conduct.items() if _is_shown(group, result)]
    columns = [
        Column(name, title, ".2f", (f"{name}_low", f"{name}_high") if name in ("rules_kept", "all_kept") else None)
        for name, title in _SHOWN.items()
        if rows and name in rows[0]
    ]
    return Table([Column("group"), *columns], rows)


def _duties(result: SuiteResult) -> Table:
    """Return how often each duty was kept, by role."""
    rows = [
        {
            "role": role,
            "kept": f"{kept} of {asked}",
            "share": Estimate(kept / asked, *wilson_interval(kept, asked)) if asked else None,
        }
        for role, (kept, asked) in result.duties.items()
    ]
    return Table(_DUTIES, rows)


def _meanings(result: SuiteResult) -> str:
    """What the columns mean, folded."""
    conduct = next(iter(result.conduct.values()), {})
    known = {**CONDUCT, **MARKS}
    meanings = COLUMNS | {_SHOWN[name]: known[name] for name in conduct if name in _SHOWN}
    items = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>"
        for name, text in meanings.items()
        if name not in ("energy", "return", "robot success")
    )
    return f"<details><summary>What the columns mean</summary><dl>{items}</dl></details>\n"


# Tracks -----------------------------------------------------------------------------------------


def _sheet(result: SuiteResult) -> str:
    """Tracks of the first episode of each group, as small pictures."""
    if not result.tracks:
        return ""
    table = result.episodes.table(result.groups)
    figures = []
    for number, (group, paths) in enumerate(zip(result.groups, result.tracks, strict=True)):
        row = table[group]
        hit = result.outcome[result.level.index(number)] == COLLISION
        kept = result.conduct.get(group, {}).get("all_kept")
        text = f"{1.0 - row['collision_rate']:.2f} clear"
        text += "" if kept is None else f", {kept:.2f} kept"
        label = f"Tracks of {group}{', with a collision' if hit else ''}"
        figures.append(
            f"<figure>{_tracks(paths, label, hit)}<figcaption><b>{escape(group)}</b> {text}</figcaption></figure>"
        )
    caption = (
        f"The first episode of each, north up; vessel 1 is the thick line, dots are {_TEN} "
        "s apart. Below: share of the episodes without a collision, and of those in which "
        "every vessel kept the rules."
    )
    return f'<p>{caption}</p>\n<div class="sheet">{"".join(figures)}</div>\n'


def _tracks(paths: Sequence[tuple[float, ...]], label: str, hit: bool) -> str:
    """Paths as a picture, east to the right."""
    points = [np.reshape(path, (-1, 2))[:, ::-1] * (1.0, -1.0) for path in paths]
    every = np.concatenate(points)
    middle, side = (every.min(0) + every.max(0)) / 2, max(float(np.ptp(every, 0).max()), 1.0) * 1.12
    parts = []
    for number, path in enumerate(points):
        path = 100.0 * ((path - middle) / side + 0.5)
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in path)
        (x, y), dots = path[0], path[_TEN::_TEN]
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


# Sources ----------------------------------------------------------------------------------------


def _sources(entry: Entry) -> str:
    """Seeds, hashes and versions."""
    suites = []
    for name, each in entry.suites.items():
        same = name in FROZEN and each.scenarios == FROZEN[name].scenarios
        suites.append(
            {
                "suite": name,
                "episodes": f"{len(each.level):,}",
                "seed": str(each.seed),
                "hash of the scenarios": each.scenarios,
                f"of benchmark {BENCHMARK}": "yes" if same else "no: a quick look, or another program",
            }
        )
    about = [
        {"name": name.replace("_", " "), "value": "-" if value in (None, "") else str(value)}
        for part in (entry.policy, entry.program)
        for name, value in part.items()
    ]
    return Table.of(suites).html("Scenarios") + Table.of(about).html("Policy and program")
