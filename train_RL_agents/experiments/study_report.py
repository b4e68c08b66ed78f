"""Report of a study: an HTML page, figures and tables."""

from __future__ import annotations

import base64
from dataclasses import replace
from html import escape
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import to_dict
from train_RL_agents.experiments.study import Study, run_folders
from train_RL_agents.figures import curves, plotting
from train_RL_agents.figures.curves import Groups, Rows, Run
from train_RL_agents.figures.page import assemble_report
from train_RL_agents.run.run_folder import read_evaluations
from train_RL_agents.utils.files import write_atomically
from train_RL_agents.utils.table import Column, Table

Evaluations = dict[tuple[str, int], dict[str, Any]]
"""Evaluation of each run (``success`` and ``group`` of each episode), by names of agents and seeds."""

PAGE_NAME = "study.html"
TABLE_NAME = "study.csv"
_SUITE_FIGURES = ("iqm", "levels", "differences")
_ESTIMATE_COLUMNS = {"iqm": "iqm", "differences": "difference"}
"""Column of the estimate in the tables that the page shows below figures, by name of the figure."""
_RUN_COLUMNS = (
    *(Column("agent"), Column("seed"), Column("env_steps", "env-steps", ",")),
    *(Column("train_minutes", "training (min)", ".1f"), Column("wall_minutes", "wall time (min)", ".1f")),
)
_TASK_SETTINGS = ("world.", "env", "training", "eval_schedule", "total_timesteps", "teacher")
"""Beginnings of the names of settings that change what is learnt, not how."""
MAX_VALUE_LENGTH = 101


def write_report(study: Study, title: str, out: Path, suite_evaluations: dict[str, Evaluations]) -> list[Path]:
    """Write the figures, page and tables of a study, and return the paths of the page and the table of all results."""
    folders = run_folders(study, out)
    runs = {
        key: replace(curves.read_runs([folders[key]])[0], agent=key[0])
        for key in next(iter(suite_evaluations.values()))
    }
    groups, left_out = curves.drop_early_runs(curves.group_runs(runs.values(), "agent"))
    sections = _section("Learning", out / "figures", {"curves": curves.curve_table(groups)}, out)
    times = _run_rows(folders)
    rows, verdicts = [], []
    for suite, evaluations in suite_evaluations.items():
        scored = {key: run_from_evaluation(key[0], evaluation) for key, evaluation in evaluations.items()}
        for (name, seed), run in scored.items():
            about = {"suite": suite, "agent": name, "seed": seed}
            rows += [
                {**about, "group": group, "successes": count, "episodes": total, "rate": count / total}
                | times[name, seed]
                for group, (count, total) in run.success_counts.items()
            ]
        by_agent = curves.group_runs(scored.values(), "agent")
        sentence, table = verdict({name: by_agent[name] for name in dict.fromkeys(name for name, _ in scored)})
        verdicts += [f"<p><b>{escape(suite)}</b>: {escape(sentence)}</p>\n", table.html(f"Success on {suite}")]
        tables = {name: plotting.FIGURES[name].table(by_agent) for name in _SUITE_FIGURES}
        sections += _section(f"Suite {suite}", out / "figures" / suite, tables, out)
    varied = varied_settings(study)
    task = [row for row in varied if row["setting"].startswith(_TASK_SETTINGS)]
    others = [row for row in varied if row not in task]
    trained = "but <b>were trained on different tasks</b>:" if task else "and were trained on the same task."
    alike = "All are evaluated on the same episodes, with the same rewards"
    differing = Table.from_rows(task).html("Settings of the task that differ")
    page = assemble_report(
        "study",
        f"Study {title}",
        f"<p>{escape(_description(study))}</p>",
        (
            ("Task", f"<p>{alike}, {trained}</p>\n{differing}"),
            ("Who is better", "".join(verdicts)),
            ("Settings", Table.from_rows(others).html("Settings") or "<p>All are the same.</p>\n"),
            ("", "".join(f"<p>{escape(sentence)}.</p>\n" for sentence in left_out)),
            *sections,
            ("Runs and time", Table(_RUN_COLUMNS, [*times.values()], 2).html("Runs and time")),
        ),
    )
    write_atomically(out / TABLE_NAME, Table.from_rows(rows).csv())
    write_atomically(out / PAGE_NAME, page)
    return [out / PAGE_NAME, out / TABLE_NAME]


# Tables -----------------------------------------------------------------------------------------


def run_from_evaluation(agent: str, evaluation: dict[str, Any]) -> Run:
    """Convert an evaluation (``success`` and ``group`` of each episode) to the Run of an agent."""
    return Run(agent, "", {}, {"success": np.array([evaluation["success"]], np.float64)}, evaluation["group"])


def _run_rows(folders: dict[tuple[str, int], Path]) -> dict[tuple[str, int], dict[str, Any]]:
    """Return a row with the env-steps and the times of each run at its last evaluation, see _RUN_COLUMNS."""
    rows = {}
    for (name, seed), path in folders.items():
        *_, last = [dict.fromkeys(("env_steps", "train_time", "wall_time"), 0.0), *read_evaluations(path)]
        minutes = {f"{key}_minutes": last[f"{key}_time"] / 60 for key in ("train", "wall")}
        rows[name, seed] = {"agent": name, "seed": seed, "env_steps": int(last["env_steps"]), **minutes}
    return rows


# The page ---------------------------------------------------------------------------------------


def _description(study: Study) -> str:
    """Return sentences that say what was trained and evaluated."""
    names, seeds = "; ".join(study.groups), ", ".join(map(str, study.seeds))
    which = "best policy while training" if study.evaluated_policy == "best" else "last policy"
    return (
        f"Trained: {names}. Seeds {seeds}. Evaluated: the {which} of each run, on "
        f"{', '.join(suite.name for suite in study.suites)}."
    )


def verdict(groups: Groups) -> tuple[str, Table]:
    """Return sentences on who has the most success on a suite, and a table of the groups, best first."""
    score = {name: float(np.mean([run.last_success for run in runs])) for name, runs in groups.items()}
    best, *others = sorted(score, key=lambda name: -score[name])
    rows: Rows = [{"agent": best, "success": score[best]}]
    behind: list[str] = []
    unclear: list[str] = []
    for name in others:
        value, low, high = curves.paired_difference(groups[best], groups[name])
        (behind if low > 0 else unclear).append(name)
        rows.append({"agent": name, "success": score[name], "difference": value, "low": low, "high": high})
    # Separated by semicolons, as names may have commas.
    if not score[best]:
        sentences = ["No run has success in any episode."]
    elif others and score[others[-1]] == score[best]:
        sentences = [f"{'; '.join(score)} have the same success, {score[best]:.3f}."]
    else:
        sentences = [f"{best} has the most success, {score[best]:.3f}."]
        sentences += [f"It is better than {'; '.join(behind)}."] if behind else []
        sentences += [f"These runs do not tell it apart from {'; '.join(unclear)}."] if unclear else []
    columns = (
        Column("agent"),
        Column("success", format=".3f"),
        Column("difference", "behind the best", ".3f", ("low", "high")),
    )
    return " ".join(sentences), Table(columns, rows)


def varied_settings(study: Study) -> Rows:
    """Return a row with the values of all groups for each setting in which groups that have it differ."""
    flat = {name: flatten(to_dict(config)) for name, config in study.groups.items()}
    rows = []
    for key in dict.fromkeys(key for settings in flat.values() for key in settings):
        values = [settings[key] for settings in flat.values() if key in settings]
        if any(value != values[0] for value in values):
            texts = {
                name: shorten(str(settings.get(key, "-")), MAX_VALUE_LENGTH, placeholder="…")
                for name, settings in flat.items()
            }
            rows.append({"setting": key, **texts})
    return rows


def _section(title: str, folder: Path, tables: dict[str, Rows], out: Path) -> list[tuple[str, str]]:
    """Write the figures of a section, and return its title and HTML, with tables of estimates; none without rows."""
    if not any(tables.values()):
        return []
    plotting.write_figures(folder, tables)
    parts = []
    for name, rows in tables.items():
        if rows:
            parts.append(_figure_html(name, rows, folder / name, out))
            if name in _ESTIMATE_COLUMNS:
                over = [Column("over")] if "over" in rows[0] else []
                estimate = Column(_ESTIMATE_COLUMNS[name], format=".3f", ends=("low", "high"))
                table = Table([Column("group", "agent"), *over, estimate], rows)
                parts.append(table.html(plotting.FIGURES[name].title))
    return [(title, "".join(parts))]


def _figure_html(name: str, rows: Rows, stem: Path, out: Path) -> str:
    """Return the HTML of a figure, with its pictures and links to its files (``stem`` is their path without suffix)."""
    title, meaning, *_ = plotting.FIGURES[name]
    pictures = "".join(
        f'<img alt="{title}" src="data:image/svg+xml;base64,{base64.b64encode(picture.encode()).decode()}">\n'
        for picture in plotting.panel_svgs(name, rows)
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
        f"<figcaption>{title}: {meaning}. {links}</figcaption>\n</figure>\n"
    )
