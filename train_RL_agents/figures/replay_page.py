"""Interactive replay: recorded episodes in one self-contained HTML file."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.pictures.drawing import COLOURS
from marinenav_env.support.validation import require
from train_RL_agents.figures.episode_view import CROSSING, HEAD_ON, RULES, EpisodeView, zone_outline
from train_RL_agents.figures.page import assemble

SCRIPTS = (
    "dynamics.js",
    "keys.js",
    "maps.js",
    "cards.js",
    "charts.js",
    "recordings.js",
    "replay.js",
)
MOST_SIDES = 2
"""Largest number of policies that are shown side by side."""
MOST_EPISODES = 1000
"""Largest number of episodes in a page; that many episodes of full length are more than a browser can load."""
NEAR_MISS = 1.0
"""Clearance below which an episode is a near miss (m)."""
STEPS = {
    "poses": 1000,
    "velocities": 1000,
    "thrust": 10,
    "objects": 100,
    "turn": 1000,
    "gap": 1000,
    "terms": 1000,
    "rates": 10,
    "scores": 100,
    "doubtful": 1,
    "quantiles": 50,
    "active": 1,
    "arrived": 1,
    "collided": 1,
    "seen": 1,
    "rule": 1,
    "rule_object": 1,
}
"""Resolution by array: number of steps per unit (m, rad, m/s, N, ...)."""
ENDLESS = 2**31 - 1
"""Code of a number that is not finite, such as the clearance of a single vessel."""
_LISTS = ("goals", "hulls", "ranges", "obstacles", "commands")


def write_page(sides: Sequence[Sequence[EpisodeView]]) -> str:
    """Return the replay page of episodes as HTML.

    Args:
        sides: episodes of one policy, or of two policies in the same scenarios.

    Raises:
        ConfigError: if the policies have different scenarios.
    """
    require(1 <= len(sides) <= MOST_SIDES, "policies", len(sides), f"from 1 to {MOST_SIDES}")
    _check_same(sides)
    data = {"colours": COLOURS, "rules": RULES, "near": NEAR_MISS, "sides": [_side(views) for views in sides]}
    return assemble("replay", SCRIPTS, data)


def _check_same(sides: Sequence[Sequence[EpisodeView]]) -> None:
    """Check that all policies have the same scenarios.

    Raises:
        ConfigError: if they do not.
    """
    counts = [len(views) for views in sides]
    require(len(set(counts)) == 1, "recordings", counts, "of equally many episodes")
    for number, views in enumerate(zip(*sides, strict=True), 1):
        starts = [view.poses[0].round(2).tolist() for view in views]
        goals = [view.goals.round(2).tolist() for view in views]
        are_same = all(start == starts[0] for start in starts) and all(goal == goals[0] for goal in goals)
        require(are_same, "recordings", f"episode {number}", "from the same scenarios, in one order")


def _side(views: Sequence[EpisodeView]) -> dict[str, Any]:
    """Return the episodes of a policy, with the zones of their world, as values for JSON."""
    first = views[0]
    zones = {RULES[rule]: zone_outline(rule, first.rules).tolist() for rule in (CROSSING, HEAD_ON)}
    return {"policy": first.policy, "zones": zones, "scaled": first.scaled, "episodes": list(map(_pack, views))}


def _pack(view: EpisodeView) -> dict[str, Any]:
    """Return an episode as values for JSON, with all arrays over time in ``data``; see _differences.

    The data are compressed and in base64; ``arrays`` has the name, the entries per vessel and the steps per unit of
    every array.
    """
    terms = np.stack(list(view.terms.values()), -1)
    values = {name: getattr(view, name, None) for name in STEPS}
    values |= {"gap": view.clearance, "terms": terms}
    arrays = {name: array.reshape(view.frames, view.vessels, -1) for name, array in values.items() if array is not None}
    data = b"".join(_differences(array, STEPS[name]) for name, array in arrays.items())
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
        "arrays": [[name, array.shape[-1], STEPS[name]] for name, array in arrays.items()],
        "data": base64.b64encode(zlib.compress(data, 9)).decode(),
        # Single precision has seven digits.
        **{name: array.astype(np.float64).round(4).tolist() for name, array in lists.items() if array is not None},
    }


def _differences(array: NDArray[Any], steps: int) -> bytes:
    """Return numbers [T+1, R, N] as differences between frames, which compress well.

    The result consists of 32-bit integers in the order [R, N, T+1]: first the lowest bytes of all, then the next ones.
    """
    scaled = np.round(array.astype(np.float64) * steps).clip(1 - ENDLESS, ENDLESS - 1)
    whole = np.where(np.isfinite(array), scaled, ENDLESS).astype(np.int64)
    change = np.diff(whole, axis=0, prepend=0).astype("<i4")  # wraps around, as the page's sums do
    return np.moveaxis(change, 0, -1).reshape(-1, 1).view("u1").T.tobytes()


__all__ = ["write_page"]
