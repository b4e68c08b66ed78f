"""The interactive replay: recorded episodes in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.drawing import COLOURS
from marinenav_env.validation import require
from train_RL_agents.figures.episode_view import CROSSING, HEAD_ON, RULES, EpisodeView, zone_outline
from train_RL_agents.figures.page import assemble

SCRIPTS = ("dynamics.js", "maps.js", "cards.js", "charts.js", "recordings.js", "replay.js")
MOST_SIDES = 2
"""Policies side by side, at most."""
MOST_EPISODES = 1000
"""Episodes in a page, at most; of full length they take more than a browser can hold."""
NEAR_MISS = 1.0
"""Episodes in which discs around hulls come closer than this are near misses (m)."""
_REALS = ("poses", "velocities", "thrust", "objects", "turn", "rates", "scores", "quantiles")
_BYTES = ("active", "arrived", "collided", "seen", "rule", "rule_object")
_LISTS = ("goals", "hulls", "ranges", "obstacles", "commands")


def write_page(sides: Sequence[Sequence[EpisodeView]]) -> str:
    """Make the page.

    Args:
        sides: the episodes of one policy, or of two that met the same scenarios.

    Returns:
        HTML.

    Raises:
        ConfigError: when the policies met different scenarios.
    """
    require(1 <= len(sides) <= MOST_SIDES, "policies", len(sides), f"from 1 to {MOST_SIDES}")
    _check_same(sides)
    data = {"colours": COLOURS, "rules": RULES, "near": NEAR_MISS,
            "sides": [_side(views) for views in sides]}  # fmt: skip
    return assemble("replay", SCRIPTS, data)


def _check_same(sides: Sequence[Sequence[EpisodeView]]) -> None:
    """Refuse policies that met different scenarios."""
    counts = [len(views) for views in sides]
    require(len(set(counts)) == 1, "recordings", counts, "of equally many episodes")
    for number, views in enumerate(zip(*sides, strict=True), 1):
        starts = [view.poses[0].round(2).tolist() for view in views]
        goals = [view.goals.round(2).tolist() for view in views]
        same = all(each == starts[0] for each in starts) and all(each == goals[0] for each in goals)
        require(same, "recordings", f"episode {number}", "from the same scenarios, in one order")


def _side(views: Sequence[EpisodeView]) -> dict[str, Any]:
    """The episodes of a policy as JSON, with the zones of their world."""
    first = views[0]
    zones = {RULES[rule]: zone_outline(rule, first.rules).tolist() for rule in (CROSSING, HEAD_ON)}
    return {"policy": first.policy, "zones": zones, "scaled": first.scaled,
            "episodes": list(map(_packed, views))}  # fmt: skip


def _packed(view: EpisodeView) -> dict[str, Any]:
    """An episode as JSON; long arrays as base64 of little-endian numbers."""
    arrays = {name: getattr(view, name) for name in _REALS}
    arrays |= {"gap": view.clearance, "terms": np.stack(list(view.terms.values()), -1)}
    lists = {name: getattr(view, name) for name in _LISTS}
    return {
        "title": view.title,
        "outcome": view.outcome,
        "frames": view.frames,
        "vessels": view.vessels,
        "slots": view.seen.shape[-1],
        "dt": view.dt,
        "map": view.map_size,
        "cores": view.cores[:, :3].tolist(),
        "core_radius": float(view.cores[0, 3]) if len(view.cores) else 1.0,
        "closest": view.closest,
        "term_names": list(view.terms),
        **{
            name: None if array is None else _base64(array, "<f4") for name, array in arrays.items()
        },
        **{name: _base64(getattr(view, name), "u1") for name in _BYTES},
        **{name: array.tolist() for name, array in lists.items() if array is not None},
    }


def _base64(array: NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, np.dtype(kind)).tobytes()).decode()


__all__ = ["write_page"]
