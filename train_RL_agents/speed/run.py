"""Measurement of all parts of a benchmark, whose results are printed and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from train_RL_agents.config.reading import to_dict
from train_RL_agents.speed import report
from train_RL_agents.speed.options import BenchmarkOptions
from train_RL_agents.speed.parts import measure_part
from train_RL_agents.speed.setting import describe_machine, describe_run, describe_software
from train_RL_agents.utils.device import num_cpu_threads
from train_RL_agents.utils.files import write_atomically

FORMAT_NAME = "marinenav benchmark"
"""Value of ``format`` in the JSON file of a benchmark."""


def run_benchmark(options: BenchmarkOptions, out: Path | None = None, plot: Path | None = None) -> None:
    """Measure and print a benchmark, and write the results after every size, so that no measurement is lost.

    Args:
        options: options of the benchmark.
        out: path of the JSON file to write; None: none.
        plot: path of the figure to write; None: none.

    Raises:
        ConfigError: when something cannot be measured here, or a file cannot be written.
    """
    console = report.make_console()
    torch.set_num_threads(num_cpu_threads(options.config.execution.threads))
    left_out = options.skip_reasons()
    modes = [mode for mode in options.modes if mode not in left_out]
    facts = describe_machine(options.device) | describe_software() | describe_run(options, modes)
    content: dict[str, Any] = {"format": FORMAT_NAME, "setting": facts, "config": to_dict(options.config), "rows": []}

    def write() -> None:
        if out is not None:
            write_atomically(out, json.dumps(content, indent=2, allow_nan=False) + "\n")

    write()  # fails before the measurements if the file cannot be written
    if plot is not None:
        report.check_picture(plot)
    console.print(report.setting_table(facts))
    for name, reason in left_out.items():
        console.print(f"{name} left out: {reason}")
    for part in options.parts:
        before = len(content["rows"])
        with console.status(f"measuring {part} ..."):
            for row in measure_part(part, options, modes):
                content["rows"].append(row)
                write()
        report.print_rates(console, content["rows"][before:])
    content["growth"] = list(report.growth_results(content["rows"]))
    console.print("", *(row["text"] for row in content["growth"]), sep="\n")
    write()
    if plot is not None:
        report.write_picture(plot, content)
    for path in (out, plot):
        if path is not None:
            console.print(str(path), soft_wrap=True)
