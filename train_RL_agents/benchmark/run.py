"""A whole benchmark: measures part after part, shows it and writes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from train_RL_agents.benchmark import drawing, report
from train_RL_agents.benchmark.options import Options, lacking, usable
from train_RL_agents.benchmark.parts import measured
from train_RL_agents.benchmark.setting import setting
from train_RL_agents.benchmark.summary import growth, sentence
from train_RL_agents.config.reading import to_dict
from train_RL_agents.utils.device import usual_threads


def benchmark(options: Options, out: Path | None = None, plot: Path | None = None) -> None:
    """Measure, print, and write after every size, so that what was measured is never lost.

    Args:
        options: what and how.
        out: JSON file.
        plot: picture.

    Raises:
        ConfigError: for what cannot be measured here or a file that cannot be written.
    """
    console = report.make_console()
    torch.set_num_threads(options.config.threads or usual_threads())
    reasons = usable(options.modes, options.device)
    modes = [mode for mode, reason in reasons.items() if not reason]
    facts = setting(options, modes)
    content: dict[str, Any] = {"setting": facts, "config": to_dict(options.config), "rows": []}
    _write(out, content)  # a file that cannot be written should be known before, not after
    if plot is not None:
        drawing.check(plot)
    console.print(report.setting_table(facts))
    for name, reason in (reasons | lacking(options)).items():
        if reason:
            console.print(f"{name} left out: {reason}")
    for part in options.parts:
        rows = []
        with console.status(f"measuring {part} ..."):
            for row in measured(part, options, modes):
                rows.append(row)
                content["rows"].append(row)
                _write(out, content)
        report.show(console, rows)
    _finish(console, content, out, plot)


def _finish(console: Console, content: dict[str, Any], out: Path | None, plot: Path | None) -> None:
    """Growth in words, the last of the JSON, and the picture."""
    content["growth"] = growth(content["rows"])
    console.print()
    for figures in content["growth"]:
        console.print(sentence(figures), soft_wrap=True)
    _write(out, content)
    if plot is not None:
        drawing.write(plot, content)
    for path in (out, plot):
        if path is not None:
            console.print(str(path), soft_wrap=True)


def _write(out: Path | None, content: dict[str, Any]) -> None:
    if out is not None:
        report.write(out, content)
