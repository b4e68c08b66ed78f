"""All parts of a benchmark, measured one after another, printed as one table and written as JSON."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
from rich.console import Console

from marinenav_env.support.validation import PositiveFloat, PositiveInt, at_least, check_fields
from train_RL_agents.agents.trainer_configs import OffPolicyConfig
from train_RL_agents.config.reading import to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.experiments.benchmark_parts import PARTS
from train_RL_agents.experiments.benchmarks import Row, measure_size
from train_RL_agents.utils.device import resolve_device
from train_RL_agents.utils.files import write_atomically
from train_RL_agents.utils.provenance import git_revision, software_versions
from train_RL_agents.utils.table import Column, Table
from train_RL_agents.utils.threads import cpu_cores, set_threads

CPU_INFO = Path("/proc/cpuinfo")
"""File in which Linux describes the processor."""
_Sizes = Annotated[tuple[int, ...], at_least(1)]
"""Sizes that are measured one after another."""


def _number_text(value: float) -> str:
    """Format a number with thousands separators, or with three significant digits below 100."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


_COLUMNS = (
    Column("part"),
    Column("environments", format=","),
    Column("batch", format=","),
    Column("median", "rate", _number_text),
    Column("unit", ""),
    Column("range", "lowest to highest"),
    Column("ms_per_step", "ms a step", _number_text),
    Column("compile_seconds", "compile s", ".1f"),
)


@dataclass(frozen=True)
class BenchmarkOptions:
    """Options of ``marinenav bench``."""

    config: TrainConfig[Any]
    """Configuration of the training that is measured."""
    parts: tuple[str, ...] = tuple(PARTS)
    """Names of the parts to measure, from PARTS."""
    envs: _Sizes = (256, 4096, 16384)
    """Numbers of environments of world and policy; the loop uses that of the configuration."""
    batch: _Sizes = (256, 1024)
    """Batch sizes of replay and update; the loop uses that of the configuration."""
    seconds: PositiveFloat = 2.0
    """Length of a run (s)."""
    repeats: PositiveInt = 3
    """Number of runs of every benchmark."""

    def __post_init__(self) -> None:
        check_fields(self, "bench")

    def runs(self) -> Iterator[tuple[str, dict[str, int]]]:
        """Yield each part with the settings of each of its sizes; ``replay`` only if there is one."""
        for part in self.parts:
            key, sizes = ("num_envs", self.envs) if part in ("world", "policy") else ("batch_size", self.batch)
            if part == "loop":
                yield part, {}
            elif part != "replay" or isinstance(self.config.trainer, OffPolicyConfig):
                for size in sizes:
                    yield part, {key: size}


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return facts about the processor, the GPU if it is used, and the software, by name."""
    text = CPU_INFO.read_text(encoding="utf-8") if CPU_INFO.is_file() else ""
    facts = {
        "processor": next(iter(re.findall(r"model name\s*: (.*)", text)), platform.machine()),
        "cores": len(cpu_cores()),
        "threads": torch.get_num_threads(),
        "load before": round(os.getloadavg()[0], 2),
        "device": str(device),
    }
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts["gpu"] = f"{properties.name}, {properties.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
    commit, patch = git_revision()
    versions = software_versions()
    facts |= {name: versions[name] for name in ("python", "torch", "torchrl", "tensordict", "platform")}
    return facts | {"commit": f"{commit}, with changes" if patch else commit}


def run_benchmark(options: BenchmarkOptions, out: Path | None = None) -> None:
    """Measure and print a benchmark; the JSON file ``out`` is written after every size, so that nothing is lost."""
    console, config = Console(highlight=False), options.config
    execution = config.execution
    set_threads(execution.threads)
    facts = describe_machine(resolve_device(execution.device, "execution.device"))
    facts |= {"agent": config.agent_type, "precision": config.trainer.precision, "compiled": execution.compile}
    rows: list[Row] = []
    content = {"format": "marinenav benchmark", "setting": facts, "config": to_dict(config), "rows": rows}

    def write() -> None:
        if out is not None:
            write_atomically(out, json.dumps(content, indent=2, allow_nan=False) + "\n")

    write()  # fails before the measurements if the file cannot be written
    for name, value in facts.items():
        print(f"{name:>12}  {value}")
    if "replay" in options.parts and not isinstance(config.trainer, OffPolicyConfig):
        print(f"replay left out: {config.agent_type} learns on-policy, without replay")
    try:
        for part, sizes in options.runs():
            with console.status(" ".join(["measuring", part, *map(str, sizes.values()), "..."])):
                rows.append(measure_size(part, config, sizes, options.seconds, options.repeats))
            write()
    finally:
        if rows:
            print_rates(rows)
            print(out or "", flush=True)


def print_rates(rows: Sequence[Row]) -> None:
    """Print the table of a benchmark, and below it a line for each row with the shares of its phases."""
    spans = [f"{_number_text(row['lowest'])} to {_number_text(row['highest'])}" for row in rows]
    shown = [{**row, "range": span} for row, span in zip(rows, spans, strict=True)]
    columns = [column for column in _COLUMNS if any(column.name in row for row in shown)]
    Table(columns, shown).print("Rates, each the median of the runs")
    for row in rows:
        if shares := ", ".join(f"{name} {share:.1%}" for name, share in row["shares"].items() if share):
            print(f"{row['part']}: {shares}")
