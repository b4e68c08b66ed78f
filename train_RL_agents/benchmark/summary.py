"""What the rows of a benchmark say about growth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from train_RL_agents.benchmark.timing import Row

FLAT = 0.2
"""Times per update that differ by no more than this share count as flat."""


def grouped(rows: Sequence[Row], *names: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some labels."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(name) for name in names), []).append(row)
    return groups


def growth(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Figures of growth by mode: of the world with environments, of updates with replay."""
    return [*_of_world(rows), *_of_replay(rows)]


def _of_world(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    worlds = [row for row in rows if row["part"] in ("world", "growth") and "environments" in row]
    for (mode,), group in grouped(worlds, "mode").items():
        group.sort(key=lambda row: row["environments"])
        few, many = group[0], group[-1]
        yield {
            "of": "world",
            "mode": mode,
            "environments": [row["environments"] for row in group],
            "env_steps_per_second": [row["median"] for row in group],
            "per_environment": [row["median"] / row["environments"] for row in group],
            "gain": many["median"] / few["median"],
        }


def _of_replay(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    updates = [row for row in rows if row["part"] == "growth" and "replay" in row]
    for (mode,), group in grouped(updates, "mode").items():
        group.sort(key=lambda row: row["replay"])
        times = [row["ms_per_step"] for row in group]
        yield {
            "of": "replay",
            "mode": mode,
            "replay": [row["replay"] for row in group],
            "ms_per_update": times,
            "slowest_to_fastest": max(times) / min(times),
            "flat": max(times) / min(times) <= 1.0 + FLAT,
        }


def sentence(figures: dict[str, Any]) -> str:
    """One line for the terminal."""
    if figures["of"] == "world":
        sizes, each = figures["environments"], figures["per_environment"]
        return (
            f"world, {figures['mode']}: from {sizes[0]:,} to {sizes[-1]:,} environments the rate "
            f"grows {figures['gain']:.2f} times; per environment {each[0]:,.1f} to {each[-1]:,.1f} "
            "env-steps/s"
        )
    sizes, verdict = figures["replay"], "flat" if figures["flat"] else "not flat"
    return (
        f"update, {figures['mode']}: from {sizes[0]:,} to {sizes[-1]:,} entries of replay the "
        f"slowest takes {figures['slowest_to_fastest']:.2f} times the fastest: {verdict} within "
        f"{FLAT:.0%}"
    )
