"""What a run shows in TensorBoard."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.tensorboard.summary import hparams, scalar
from torch.utils.tensorboard.writer import SummaryWriter

from train_RL_agents.config.reading import default_config, flatten, to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.results.table import Column, Table
from train_RL_agents.run.logger import RunLogger
from train_RL_agents.run.tags import meaning

HISTOGRAM_BINS = 30
_LARGEST, _NARROWEST = 1e150, 1e-12
"""Of a histogram: largest number, and least range as a share of the largest one."""
_EVENTS = "events.out.tfevents."


def layout(levels: int) -> dict[str, dict[str, list[Any]]]:
    """TensorBoard's page of custom scalars: what to look at first, by question and chart.

    A chart has one colour per run, so each level has its own. TensorBoard puts charts with margins
    last in their group, so the one that counts most has its own.

    Args:
        levels: of the evaluations.
    """
    return {
        "does it learn": {
            "success, 95% interval": [
                "Margin",
                ["eval/success_rate", "eval/success_low", "eval/success_high"],
            ],
        },
        "success by level": {
            f"level {level}": ["Multiline", [f"eval/success_rate_level_{level}$"]] for level in range(1, levels + 1)
        },
        "training episodes": {
            "return": ["Multiline", ["train/episode_return$"]],
            "success and collisions": [
                "Multiline",
                ["train/success_rate$|train/collision_rate$"],
            ],
            "terms of the reward": ["Multiline", ["train/reward/.*"]],
        },
        "what it does": {
            "collisions": ["Multiline", ["eval/collision_rate$"]],
            "time-outs": ["Multiline", ["eval/timeout_rate$"]],
            "travel time (s)": ["Multiline", ["eval/avg_time"]],
            "return": ["Multiline", ["eval/avg_return"]],
        },
        "is it well": {
            "losses": ["Multiline", ["losses/loss.*"]],
            "value and its target": ["Multiline", ["losses/value$", "losses/target"]],
            "env-steps per second": ["Multiline", ["charts/SPS"]],
            "where the time goes": ["Multiline", ["time/.*"]],
            "processors and GPU in use (%)": [
                "Multiline",
                ["system/cpu_percent|gpu/utilization"],
            ],
            "memory (GB)": ["Multiline", ["(system|gpu)/memory_gb"]],
        },
    }


class TensorBoard(RunLogger):
    """TensorBoard's events of a run, with its settings.

    Args:
        path: the run folder.
        config: of the run.
        resumed_at: env-steps of the checkpoint that the run goes on from, -1 for a new one; what
            was written after it is hidden.
        heading: lines on what is run, for the page of texts.
    """

    def __init__(self, path: Path, config: TrainConfig[Any], resumed_at: int, heading: Sequence[str]) -> None:
        _put_before(path, int(time.time()))
        self._writer = SummaryWriter(str(path), purge_step=resumed_at + 1)
        self._described: set[str] = set()
        self._writer.add_custom_scalars(layout(len(config.eval_schedule.num_episodes)))
        begin = max(resumed_at, 0)
        settings, usual = (flatten(to_dict(each)) for each in (config, default_config(config.agent_type)))
        changed = {key: value for key, value in settings.items() if value != usual[key]}
        about = "\n\n".join((*heading, "Settings that differ from the agent's defaults:"))
        self._writer.add_text("settings/changed", f"{about}\n\n{_table(changed)}", begin)
        self._writer.add_text("settings/complete", _table(settings), begin)
        # The first summary would fix the columns of HPARAMS for all runs; without it TensorBoard
        # puts settings that differ between runs first, and takes scalars as metrics, by name.
        plain = {
            key: value if isinstance(value, bool | int | float) else _text(value) for key, value in settings.items()
        }
        _, start, self._end = hparams(plain, {})
        self._writer._get_file_writer().add_summary(start, begin)

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """Log scalars, each with its meaning at first."""
        for tag, value in scalars.items():
            summary = scalar(tag, value)
            if tag not in self._described:
                self._described.add(tag)
                about = summary.value[0].metadata
                about.summary_description, about.plugin_data.plugin_name = meaning(tag), "scalars"
            self._writer._get_file_writer().add_summary(summary, env_steps)

    def log_histogram(self, tag: str, values: Tensor, env_steps: int) -> None:
        """Log how values are distributed."""
        # numpy's own bins are refused where numbers differ too little for them, or too much.
        values = values.double().clamp(-_LARGEST, _LARGEST)
        low, high = map(float, values.aminmax())
        largest = max(abs(low), abs(high))
        around = max(_NARROWEST * largest, 0.5) if high - low <= _NARROWEST * largest else 0.0
        bins = np.linspace(low - around, high + around, HISTOGRAM_BINS + 1)
        self._writer.add_histogram(tag, values, env_steps, bins=bins)

    def log_image(self, tag: str, pixels: NDArray[np.uint8], env_steps: int) -> None:
        """Log a picture [height, width, 3]."""
        self._writer.add_image(tag, pixels, env_steps, dataformats="HWC")

    def log_end(self, env_steps: int) -> None:
        """Log that the run has made all its env-steps."""
        self._writer._get_file_writer().add_summary(self._end, env_steps)

    def flush(self) -> None:
        """Bring all to the disk."""
        self._writer.flush()

    def close(self) -> None:
        """Flush, and close the files."""
        self._writer.close()


def _put_before(path: Path, now: int) -> None:
    """Rename event files of a clock that was ahead: TensorBoard reads files in the order of names.

    Args:
        path: the run folder.
        now: seconds since 1970, of which the next file has its name.
    """
    for file in path.glob(f"{_EVENTS}*"):
        stamp, _, rest = file.name.removeprefix(_EVENTS).partition(".")
        if stamp.isdecimal() and int(stamp) >= now:
            file.rename(file.with_name(f"{_EVENTS}{now - 1:010d}.{stamp}.{rest}"))


def _text(value: Any) -> str:
    """A setting as text; a list of one, as the seed of a run is, without its brackets."""
    if isinstance(value, list) and len(value) == 1:
        return _text(value[0])
    return value if isinstance(value, str) else json.dumps(value)


def _table(settings: dict[str, Any]) -> str:
    """Return settings as a table in Markdown."""
    rows = [{"setting": key, "value": f"`{_text(value)}`"} for key, value in sorted(settings.items())]
    return Table([Column("setting"), Column("value")], rows).markdown()
