"""The interactive replay: recorded episodes in one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.drawing import COLOURS
from marinenav_env.validation import require
from train_RL_agents.figures.episode_view import CROSSING, HEAD_ON, RULES, EpisodeView, zone_outline

TEMPLATE, PLACE = "replay_page.html", "__REPLAY_DATA__"
MOST_SIDES = 2
"""Policies side by side, at most."""
_REALS = ("poses", "velocities", "thrust", "objects", "turn")
_BYTES = ("active", "arrived", "collided", "seen", "rule", "rule_object")
_LISTS = ("goals", "hulls", "ranges", "obstacles", "cores")


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
    data = {
        "colours": COLOURS,
        "rules": RULES,
        "sides": [_side(views) for views in sides],
    }
    # A text in the data must not end the element that the data are in.
    text = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    template = files("train_RL_agents.figures").joinpath(TEMPLATE).read_text(encoding="utf-8")
    return template.replace(PLACE, text)


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
    zones = {rule: zone_outline(rule, views[0].rules).tolist() for rule in (CROSSING, HEAD_ON)}
    return {"policy": views[0].policy, "zones": zones, "episodes": list(map(_packed, views))}


def _packed(view: EpisodeView) -> dict[str, Any]:
    """An episode as JSON; long arrays as base64 of little-endian numbers."""
    packed: dict[str, Any] = {
        "title": view.title,
        "frames": view.frames,
        "vessels": view.vessels,
        "slots": view.seen.shape[-1],
        "dt": view.dt,
        "map": view.map_size,
        "quantiles": None if view.quantiles is None else _base64(view.quantiles, "<f4"),
    }
    packed |= {name: _base64(getattr(view, name), "<f4") for name in _REALS}
    packed |= {name: _base64(getattr(view, name), "u1") for name in _BYTES}
    return packed | {name: getattr(view, name).tolist() for name in _LISTS}


def _base64(array: NDArray[Any], kind: str) -> str:
    return base64.b64encode(np.ascontiguousarray(array, np.dtype(kind)).tobytes()).decode()


__all__ = ["write_page"]
