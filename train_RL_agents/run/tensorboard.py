"""Base class of the loggers of a run, and the one that writes events for TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch.utils.tensorboard.summary import hparams, scalar
from torch.utils.tensorboard.writer import SummaryWriter

from train_RL_agents.config.reading import changed_settings, iterate_settings, setting_text
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.run.tags import describe_tag
from train_RL_agents.utils.table import Table


class TensorBoard:
    """Logger of a run and its settings for TensorBoard, which hides events after ``resumed_at`` env-steps."""

    def __init__(self, path: Path, config: TrainConfig[Any], resumed_at: int, heading: Sequence[str]) -> None:
        self._writer = SummaryWriter(str(path), purge_step=resumed_at + 1)
        self._described: set[str] = set()
        begin = max(resumed_at, 0)
        settings = {item.key: item.value for item in iterate_settings(config)}
        texts = {key: setting_text(value) for key, value in settings.items()}
        header = "\n\n".join((*heading, "Settings that differ from the agent's defaults:"))
        self._writer.add_text("settings/changed", f"{header}\n\n{_settings_table(changed_settings(config))}", begin)
        self._writer.add_text("settings/complete", _settings_table(texts), begin)
        # The first summary of hparams would fix the columns of HPARAMS for all runs; without it TensorBoard puts
        # settings that differ between runs first, and takes scalars as metrics, by name.
        plain = {key: value if isinstance(value, bool | int | float) else texts[key] for key, value in settings.items()}
        plain["agent"] = plain.pop("agent_type")  # before the settings of agents by name
        self._writer._get_file_writer().add_summary(hparams(plain, {})[1], begin)

    def log(self, scalars: dict[str, float], env_steps: int) -> None:
        """Log scalars by tag; the first entry of each tag includes its description."""
        for tag, value in scalars.items():
            summary = scalar(tag, value)
            if tag not in self._described:
                self._described.add(tag)
                metadata = summary.value[0].metadata
                metadata.summary_description, metadata.plugin_data.plugin_name = describe_tag(tag), "scalars"
            self._writer._get_file_writer().add_summary(summary, env_steps)

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
            if event.HasField("session_log"):  # a resumed run, whose later entries were lost
                values = {step: value for step, value in values.items() if step < event.step}
            for item in event.summary.value:
                if item.tag == tag:
                    values[event.step] = item.simple_value
    return values


def _settings_table(texts: dict[str, str]) -> str:
    return Table.from_rows([{"setting": key, "value": f"`{texts[key]}`"} for key in sorted(texts)]).markdown()
