"""Base class of the loggers of a run, and the one that writes events for TensorBoard."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.utils.tensorboard.summary import hparams, scalar
from torch.utils.tensorboard.writer import SummaryWriter

from train_RL_agents.config.overrides import flatten
from train_RL_agents.config.reading import to_dict
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.results.table import Column, Table
from train_RL_agents.run.tags import describe_tag


def custom_scalar_layout(levels: int) -> dict[str, dict[str, list[Any]]]:
    """Return TensorBoard's layout of custom scalars: the most important charts, grouped by question.

    A chart has one colour per run, so every level has a chart. TensorBoard puts charts with margins last in their
    group, so the most important chart is alone in its group.
    """
    return {
        "does it learn": {
            "success, 95% interval": ["Margin", ["eval/success_rate", "eval/success_low", "eval/success_high"]]
        },
        "success by level": {
            f"level {level}": ["Multiline", [f"eval/success_rate_level_{level}$"]] for level in range(1, levels + 1)
        },
        "training episodes": {
            "return": ["Multiline", ["train/episode_return$"]],
            "success and collisions": ["Multiline", ["train/success_rate$|train/collision_rate$"]],
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
            "processors and GPU in use (%)": ["Multiline", ["system/cpu_percent|gpu/utilization"]],
            "memory (GB)": ["Multiline", ["(system|gpu)/memory_gb"]],
        },
    }


class RunLogger:
    """Base class of the loggers of a run, whose methods do nothing; a logger overrides those for what it can show."""

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """Log scalars by tag, with env-steps as the x axis."""

    def log_end(self, env_steps: int) -> None:
        """Log that the run has reached its last env-step."""

    def flush(self) -> None:
        """Write everything to the disk."""

    def close(self) -> None:
        """Flush and close the logger."""


class TensorBoard(RunLogger):
    """Logger of a run and its settings for TensorBoard, which hides events after ``resumed_at`` env-steps."""

    def __init__(self, path: Path, config: TrainConfig[Any], resumed_at: int, heading: Sequence[str]) -> None:
        self._writer = SummaryWriter(str(path), purge_step=resumed_at + 1)
        self._described: set[str] = set()
        self._writer.add_custom_scalars(custom_scalar_layout(len(config.eval_schedule.num_episodes)))
        begin = max(resumed_at, 0)
        settings = flatten(to_dict(config))
        defaults = flatten(to_dict(TrainConfig(agent_type=config.agent_type)))
        changed = {key: value for key, value in settings.items() if value != defaults[key]}
        header = "\n\n".join((*heading, "Settings that differ from the agent's defaults:"))
        self._writer.add_text("settings/changed", f"{header}\n\n{_settings_table(changed)}", begin)
        self._writer.add_text("settings/complete", _settings_table(settings), begin)
        # The first summary of hparams would fix the columns of HPARAMS for all runs; without it TensorBoard puts
        # settings that differ between runs first, and takes scalars as metrics, by name.
        plain = {
            key: value if isinstance(value, bool | int | float) else _setting_text(value)
            for key, value in settings.items()
        }
        plain["agent"] = plain.pop("agent_type")  # before the settings of agents by name
        _, start, self._end = hparams(plain, {})
        self._writer._get_file_writer().add_summary(start, begin)

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """Log scalars by tag; the first entry of each tag includes its description."""
        for tag, value in scalars.items():
            summary = scalar(tag, value)
            if tag not in self._described:
                self._described.add(tag)
                metadata = summary.value[0].metadata
                metadata.summary_description, metadata.plugin_data.plugin_name = describe_tag(tag), "scalars"
            self._writer._get_file_writer().add_summary(summary, env_steps)

    def log_end(self, env_steps: int) -> None:
        """Log that the run has reached its last env-step."""
        self._writer._get_file_writer().add_summary(self._end, env_steps)

    def flush(self) -> None:
        """Write everything to the disk."""
        self._writer.flush()

    def close(self) -> None:
        """Flush, and close the files."""
        self._writer.close()


def read_scalars(folder: Path, tag: str) -> dict[int, float]:
    """Return the values of a scalar in the events of a run by env-steps; later files replace those of earlier ones."""
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader  # no run needs it

    values: dict[int, float] = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in LegacyEventFileLoader(str(file)).Load():
            for item in event.summary.value:
                if item.tag == tag:
                    values[event.step] = item.simple_value
    return values


def _setting_text(value: Any) -> str:
    """Return a setting as text; a list of one element, such as the seed of a run, without brackets."""
    if isinstance(value, list) and len(value) == 1:
        return _setting_text(value[0])
    return value if isinstance(value, str) else json.dumps(value)


def _settings_table(settings: dict[str, Any]) -> str:
    rows = [{"setting": key, "value": f"`{_setting_text(value)}`"} for key, value in sorted(settings.items())]
    return Table([Column("setting"), Column("value")], rows).markdown()
