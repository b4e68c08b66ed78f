"""The page and the tables of a study."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import replace
from html import escape
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from marinenav_env.support.files import require_output
from train_RL_agents.config.reading import flatten, to_dict
from train_RL_agents.figures import curves, plotting
from train_RL_agents.results.statistics import paired_difference
from train_RL_agents.results.table import Column, Table
from train_RL_agents.studies.runs import Study, last_row, run_folders
from train_RL_agents.utils.files import inside, write_atomically

Rows = list[dict[str, Any]]
Evaluations = dict[tuple[str, int], dict[str, Any]]
"""Success and group of each episode, by name and seed of the runs."""

PAGE, TABLE = "study.html", "study.csv"
_TITLES = {
    "curves": "Learning curves",
    "levels": "Success by group",
    "iqm": "Interquartile mean",
    "improvement": "Probability of improvement",
    "profiles": "Performance profiles",
    "differences": "Differences on the same scenarios",
}
_MEANINGS = {
    "curves": "evaluations while training; mean over seeds, with 95% bootstrap bands over seeds "
    "and episodes. Wall time includes evaluations and compilation",
    "levels": "episodes of all seeds together, with 95% Wilson intervals",
    "iqm": "mean of the middle half of all scores, one for each seed and group of the suite, with "
    "95% stratified bootstrap intervals over seeds and episodes (in brackets: runs)",
    "improvement": "probability that a run of one has more success in a group of the suite than a "
    "run of the other, ties counting half, with 95% stratified bootstrap intervals",
    "profiles": "share of scores above a success rate, with 95% bootstrap bands",
    "differences": "difference of success rates, with 95% bootstrap intervals over seeds and over "
    "scenarios, which are the same for both",
}
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1rem auto;
  padding: 0 1rem; }
h1, h2 { line-height: 1.25; }
figure { margin: 1rem 0 2rem; }
.panels { display: grid; gap: .5rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 20rem), 1fr)); }
.panels img { width: 100%; max-width: 30rem; }
img { background: #fff; }
.scroll { overflow-x: auto; }
summary { cursor: pointer; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #8886;
  white-space: nowrap; }
""".strip()


def write_report(study: Study, title: str, out: Path, found: dict[str, Evaluations]) -> list[Path]:
    """Write figures as PNG and PDF, each with its table, one table of all, and the page.

    Args:
        study: what was trained.
        title: of the page.
        out: the study's folder.
        found: evaluations by suite, of the runs that have come to their ends.

    Returns:
        The page and the table.

    Raises:
        ConfigError: when matplotlib is missing or a file cannot be written.
    """
    for path in _outputs(out, found):
        require_output(path)
    folders = run_folders(study, out)
    runs = {key: replace(curves.read_runs([folders[key]])[0], agent=key[0]) for key in next(iter(found.values()))}
    groups, left_out = curves.overlapping(curves.grouped([*runs.values()], "agent"))
    parts = [_verdicts(found), _settings(study)]
    parts += [f"<p>{escape(sentence)}.</p>\n" for sentence in left_out]
    parts.append(_section("Learning", out / "figures", {"curves": curves.curve_table(groups)}, out))
    rows = []
    for suite, evaluations in found.items():
        rows += _rows(suite, evaluations)
        scored = curves.grouped([replace(run, levels=_counts(evaluations[key])) for key, run in runs.items()], "agent")
        tables = {
            "iqm": curves.iqm_table(scored),
            "levels": curves.level_table(scored),
            "improvement": curves.improvement_table(scored),
            "differences": difference_table(evaluations),
            "profiles": curves.profile_table(scored),
        }
        parts.append(_section(f"Suite {suite}", out / "figures" / suite, tables, out))
    times = _time_rows(study, out)
    intro = f"<h1>Study {escape(title)}</h1>\n<p>{escape(_about(study))}</p>\n"
    parts.append("<h2>Runs and time</h2>\n" + _summary(study, times).html("Runs and time"))
    page = (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n'
        f"<title>Study {escape(title)}</title>\n"
        f"<style>\n{_STYLE}\n</style>\n</head>\n<body>\n<main>\n{intro}\n{''.join(parts)}"
        "</main>\n</body>\n</html>\n"
    )
    times_of = {(row["agent"], row["seed"]): row for row in times}
    for row in rows:
        row |= times_of[row["agent"], row["seed"]]
    write_atomically(out / TABLE, Table.of(rows).csv())
    write_atomically(out / PAGE, page)
    return [out / PAGE, out / TABLE]


def _outputs(out: Path, suites: Iterable[str]) -> list[Path]:
    """All files of a report, so that none is written if one cannot be."""
    figures = out / "figures"
    stems = [figures / suite / name for suite in suites for name in _TITLES if name != "curves"]
    kinds = "csv", *plotting.KINDS
    pictures = [Path(f"{stem}.{kind}") for stem in (figures / "curves", *stems) for kind in kinds]
    return [out / PAGE, out / TABLE, *pictures]


# Tables -----------------------------------------------------------------------------------------


def _counts(evaluation: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Successes and episodes by group of the suite, and overall."""
    success, groups = np.array(evaluation["success"]), np.array(evaluation["group"])
    counts = {
        name: (int(success[groups == name].sum()), int((groups == name).sum()))
        for name in dict.fromkeys(evaluation["group"])
    }
    return counts | {"overall": (int(success.sum()), len(success))}


def difference_table(evaluations: Evaluations) -> Rows:
    """Every pair of groups on the same scenarios."""
    sides: dict[str, list[Any]] = {}
    for (name, _), content in evaluations.items():
        sides.setdefault(name, []).append(np.array(content["success"], np.float64))
    rows = []
    for one, other in combinations(sorted(sides), 2):
        value, low, high = paired_difference(sides[one], sides[other])
        rows.append({"group": one, "over": other, "difference": value, "low": low, "high": high})
    return rows


def _rows(suite: str, evaluations: Evaluations) -> Rows:
    """Every count."""
    return [
        {
            "suite": suite,
            "agent": name,
            "seed": seed,
            "group": group,
            "successes": count,
            "episodes": total,
            "rate": count / total,
        }
        for (name, seed), content in evaluations.items()
        for group, (count, total) in _counts(content).items()
    ]


def _time_rows(study: Study, out: Path) -> Rows:
    """Progress and time of each run."""
    rows = []
    for (name, seed), path in run_folders(study, out).items():
        last = last_row(path)
        minutes = {f"{key}_minutes": last.get(f"{key}_time", 0.0) / 60 for key in ("train", "wall")}
        rows.append({"agent": name, "seed": seed, "env_steps": int(last.get("env_steps", 0))} | minutes)
    return rows


def _summary(study: Study, times: Rows) -> Table:
    """Return a row for each group: runs, env-steps and mean times."""
    rows = []
    for name, config in study.groups.items():
        own = [row for row in times if row["agent"] == name and row["env_steps"] >= config.total_timesteps]
        means = {key: np.mean([row[key] for row in own]) if own else None for key in ("train_minutes", "wall_minutes")}
        rows.append(
            {
                "agent": name,
                "runs": f"{len(own)} of {len(study.seeds)}",
                "env_steps": config.total_timesteps,
                **means,
            }
        )
    columns = (
        Column("agent"),
        Column("runs"),
        Column("env_steps", "env-steps", ","),
        Column("train_minutes", "training", ".1f", unit="min"),
        Column("wall_minutes", "wall time", ".1f", unit="min"),
    )
    return Table(columns, rows)


# The page ---------------------------------------------------------------------------------------


def _about(study: Study) -> str:
    """Say what was trained and evaluated, in a sentence or two."""
    names, seeds = "; ".join(study.groups), ", ".join(map(str, study.seeds))
    which = "best policy while training" if study.which == "best" else "last policy"
    return (
        f"Trained: {names}. Seeds {seeds}. Evaluated: the {which} of each run, on "
        f"{', '.join(suite.name for suite in study.suites)}."
    )


def _verdicts(found: dict[str, Evaluations]) -> str:
    """Say for each suite which group is best, with how far it is ahead of each other one."""
    parts = ["<h2>Who is better</h2>\n"]
    for suite, evaluations in found.items():
        sentence, table = verdict(evaluations)
        parts.append(f"<p><b>{escape(suite)}</b>: {escape(sentence)}</p>\n")
        parts.append(table.html(f"Success on {suite}"))
    return "".join(parts)


def verdict(evaluations: Evaluations) -> tuple[str, Table]:
    """Tell which group has the most success on a suite, and of which others it is better.

    Returns:
        A sentence, and a row for each group, best first: success, and how far it is behind the
        best with the 95% paired bootstrap interval over seeds and scenarios.
    """
    scores: dict[str, list[Any]] = {}
    for (name, _), content in evaluations.items():
        scores.setdefault(name, []).append(np.array(content["success"], np.float64))
    success = {name: float(np.mean(each)) for name, each in scores.items()}
    best, *others = sorted(success, key=lambda name: -success[name])
    rows: Rows = [{"agent": best, "success": success[best]}]
    behind: list[str] = []
    unclear: list[str] = []
    for name in others:
        value, low, high = paired_difference(scores[best], scores[name])
        (behind if low > 0 else unclear).append(name)
        rows.append({"agent": name, "success": success[name], "difference": value, _ENDS.name: (low, high)})
    sentences = [f"{best} has the most success, {success[best]:.3f}."]
    # Names may have commas.
    sentences += [f"It is better than {'; '.join(behind)}."] if behind else []
    sentences += [f"These runs do not tell it apart from {'; '.join(unclear)}."] if unclear else []
    columns = (Column("agent"), Column("success", format=".3f"), Column("difference", "behind the best", ".3f"), _ENDS)
    return " ".join(sentences), Table(columns, rows)


def _settings(study: Study) -> str:
    """Return the settings that groups differ in, as a table."""
    flat = {name: flatten(to_dict(config)) for name, config in study.groups.items()}
    keys = dict.fromkeys(key for each in flat.values() for key in each)
    missing = object()
    rows = [
        {"setting": key, **{name: each.get(key) for name, each in flat.items()}}
        for key in keys
        if any(each.get(key, missing) != next(iter(flat.values())).get(key, missing) for each in flat.values())
    ]
    if not rows:
        return ""
    table = Table.of(rows).html("Settings that differ")
    return f"<h2>Settings</h2>\n<p>Those that differ; all others are the same.</p>\n{table}"


def _section(title: str, folder: Path, tables: dict[str, Rows], out: Path) -> str:
    """Figures of a heading, and the tables of those that have few rows."""
    plotting.write(inside(out, str(folder.relative_to(out))), tables)
    parts = [f"<h2>{escape(title)}</h2>\n"]
    for name, rows in tables.items():
        if rows:
            parts.append(_figure(name, rows, folder / name, out))
            if name in _SHORT:
                parts.append(_estimate_table(rows, _SHORT[name]).html(_TITLES[name]))
    return "".join(parts)


_SHORT = {"iqm": "iqm", "improvement": "probability", "differences": "difference"}
"""Tables that are shown, with the column of their value."""
_ENDS = Column("ends", "95% interval", lambda ends: f"{ends[0]:.3f} to {ends[1]:.3f}")


def _estimate_table(rows: Rows, key: str) -> Table:
    """Return one of the tables in _SHORT."""
    shown = [row | {_ENDS.name: (row["low"], row["high"])} for row in rows]
    over = [Column("over")] if "over" in rows[0] else []
    return Table([Column("group", "agent"), *over, Column(key, format=".3f"), _ENDS], shown)


def _figure(name: str, rows: Rows, stem: Path, out: Path) -> str:
    """Pictures inside the page, with links to the files of the figure."""
    title = _TITLES[name]
    pictures = "".join(
        f'<img alt="{title}" src="data:image/svg+xml;base64,{_base64(picture)}">\n'
        for picture in plotting.panels(name, rows)
    )
    # Many levels side by side are wider than a phone.
    kind = "panels"
    if name == "levels":
        kind = f'scroll" tabindex="0" role="region" aria-label="{title}'
    links = ", ".join(
        f'<a href="{stem.with_suffix(f".{kind}").relative_to(out).as_posix()}">{kind.upper()}</a>'
        for kind in ("pdf", "png", "csv")
    )
    return (
        f'<h3>{title}</h3>\n<figure>\n<div class="{kind}">\n{pictures}</div>\n'
        f"<figcaption>{title}: {_MEANINGS[name]}. {links}</figcaption>\n</figure>\n"
    )


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
