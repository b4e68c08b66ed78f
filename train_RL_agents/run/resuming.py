"""Settings that may change when a run is resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

RESUMABLE_SETTINGS = (
    "total_timesteps",
    "eval_freq",
    "log_freq",
    "env.timeout",
    "execution.threads",
    "execution.compile",
    "execution.capture",
    "trainer.tf32",
    "trainer.fused_optimizer",
    "monitor",
    "loggers",
    "save_replay",
    "on_user_signal",
    "trainer.learning_rate",
    "trainer.learning_rate_final",
)
"""Keys that may change when a run is resumed; a change of any other would make it another run. The device must not
change, because the generators of another type of device cannot continue the streams of random numbers."""
_SETTINGS_WITHOUT_EFFECT = ("save_dir", "load_model")
"""Keys that have no effect on a run that has begun."""


def list_changes(before: dict[str, Any], now: dict[str, Any], ignored: Sequence[str] = RESUMABLE_SETTINGS) -> list[str]:
    """Return the changes of a configuration except for ignored keys, each as a text ``key=now (was before)``."""
    return [
        line
        for key in sorted((before.keys() | now.keys()) - {*ignored, *_SETTINGS_WITHOUT_EFFECT})
        if now.get(key) != before.get(key)
        for line in _change_lines(key, before.get(key), now.get(key))
    ]


def _change_lines(key: str, before: Any, now: Any) -> list[str]:
    """Return the lines that describe the change of a setting; for levels, one for each changed field."""
    if not (key.endswith(".levels") and isinstance(before, list) and isinstance(now, list)):
        return [f"{key}={now!r} (was {before!r})"]
    if len(before) != len(now):
        return [f"{key}: {len(now)} long (was {len(before)})"]
    return [
        f"{key}: level {number}: {line}"
        for number, (old, new) in enumerate(zip(before, now, strict=True), 1)
        for line in list_changes(old, new, ())
    ]
