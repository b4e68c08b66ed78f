"""Growth with the number of environments and the size of replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from train_RL_agents.benchmark.timing import Row, grouped

FLAT = 0.2
"""Times per update that differ by no more than this share count as flat."""


def growth(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Figures of growth by mode: of the world with environments, then of updates with replay.

    Each has a line for the terminal, ``text``. There are none where only one size was measured.
    """
    worlds = [row for row in rows if row["part"] in ("world", "growth") and "environments" in row]
    for (mode,), group in grouped(worlds, "mode").items():
        if len({row["environments"] for row in group}) > 1:
            yield _of_world(mode, sorted(group, key=lambda row: row["environments"]))
    updates = [row for row in rows if row["part"] == "growth" and "replay" in row]
    for (mode,), group in grouped(updates, "mode").items():
        if len({row["replay"] for row in group}) > 1:
            yield _of_replay(mode, sorted(group, key=lambda row: row["replay"]))


def _of_world(mode: str, rows: Sequence[Row]) -> dict[str, Any]:
    sizes, rates = [row["environments"] for row in rows], [row["median"] for row in rows]
    each = [rate / size for rate, size in zip(rates, sizes, strict=True)]
    gain = rates[-1] / rates[0]
    text = (
        f"world, {mode}: from {sizes[0]:,} to {sizes[-1]:,} environments the rate grows {gain:.2f} "
        f"times; per environment {each[0]:,.1f} to {each[-1]:,.1f} env-steps/s"
    )
    return {"of": "world", "mode": mode, "environments": sizes, "env_steps_per_second": rates,
            "per_environment": each, "gain": gain, "text": text}  # fmt: skip


def _of_replay(mode: str, rows: Sequence[Row]) -> dict[str, Any]:
    sizes, times = [row["replay"] for row in rows], [row["ms_per_step"] for row in rows]
    ratio = max(times) / min(times)
    flat = ratio <= 1.0 + FLAT
    text = (
        f"update, {mode}: from {sizes[0]:,} to {sizes[-1]:,} entries of replay the slowest takes "
        f"{ratio:.2f} times the fastest: {'flat' if flat else 'not flat'} within {FLAT:.0%}"
    )
    return {"of": "replay", "mode": mode, "replay": sizes, "ms_per_update": times,
            "slowest_to_fastest": ratio, "flat": flat, "text": text}  # fmt: skip
