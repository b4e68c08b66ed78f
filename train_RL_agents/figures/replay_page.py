"""Interactive replay: recorded episodes in one self-contained HTML file."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marinenav_env.pictures.drawing import VESSEL_COLOURS
from marinenav_env.support.validation import require
from train_RL_agents.figures.episode_view import CROSSING, HEAD_ON, RULE_NAMES, EpisodeView, zone_outline
from train_RL_agents.figures.page import assemble_page

MAX_EPISODES = 1000
"""Largest number of episodes in a page; that many episodes of full length are more than a browser can load."""
NEAR_MISS_CLEARANCE = 1.0
"""Clearance below which an episode without a collision counts as a near miss (m)."""
STEPS_PER_UNIT = {
    **dict.fromkeys(("poses", "velocities", "turn", "gap", "terms"), 1000),
    **dict.fromkeys(("objects", "scores"), 100),
    "quantiles": 50,
    **dict.fromkeys(("thrust", "rates"), 10),
    **dict.fromkeys(("active", "arrived", "collided", "grounded", "seen"), 1),
    **dict.fromkeys(("rule", "rule_object", "phase", "role", "waypoint"), 1),
}
"""Resolution of each array over time in the page: number of integer steps per unit (m, rad, m/s, N, ...)."""
NON_FINITE_CODE = 2**31 - 1
"""Integer that stands for a number that is not finite, such as the clearance of a single vessel."""
_LIST_FIELDS = ("goals", "hulls", "ranges", "steering", "obstacles", "commands", "shores", "routes")
"""Fields of EpisodeView that do not change over time and are lists in the page."""


def make_page(policy_episodes: Sequence[Sequence[EpisodeView]]) -> str:
    """Return the replay page of the episodes of one policy, or of two in the same scenarios, as HTML."""
    count, allowed = len(policy_episodes[0]), f"at most {MAX_EPISODES}; --episode shows one"
    require(count <= MAX_EPISODES, "--html", f"{count} episodes", allowed)
    ends = [
        [(view.poses[0].round(2).tolist(), view.goals.round(2).tolist()) for view in views] for views in policy_episodes
    ]
    require(all(each == ends[0] for each in ends), "recordings", "...", "of the same scenarios")
    data = {
        "colours": VESSEL_COLOURS,
        "rules": RULE_NAMES,
        "near": NEAR_MISS_CLEARANCE,
        "sides": [_policy_data(views) for views in policy_episodes],
    }
    return assemble_page("replay", "replay.js", data)


def _policy_data(views: Sequence[EpisodeView]) -> dict[str, Any]:
    """Return the data of a policy for the page: its name, its episodes, and the zones of the rules in their world."""
    first = views[0]
    zones = {RULE_NAMES[rule]: zone_outline(rule, first.rules).tolist() for rule in (CROSSING, HEAD_ON)}
    return {"policy": first.policy, "zones": zones, "episodes": list(map(_episode_data, views))}


def _episode_data(view: EpisodeView) -> dict[str, Any]:
    """Return the data of an episode for the page, serialisable as JSON."""
    terms = np.stack(list(view.reward_terms.values()), -1)
    values = {name: getattr(view, name, None) for name in STEPS_PER_UNIT}
    values |= {"gap": view.clearance, "terms": terms}
    arrays = {name: array.reshape(view.frames, view.vessels, -1) for name, array in values.items() if array is not None}
    data = b"".join(_delta_bytes(array, STEPS_PER_UNIT[name]) for name, array in arrays.items())
    lists = {name: getattr(view, name) for name in _LIST_FIELDS}
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
        "closest": view.closest_approach,
        "term_names": list(view.reward_terms),
        "arrays": [[name, array.shape[-1], STEPS_PER_UNIT[name]] for name, array in arrays.items()],
        "data": base64.b64encode(zlib.compress(data, 9)).decode(),
        # Single precision has seven digits.
        **{name: array.astype(np.float64).round(4).tolist() for name, array in lists.items() if array is not None},
    }


def _delta_bytes(array: NDArray[Any], steps: int) -> bytes:
    """Return an array [T+1, R, N] as bytes of its integer differences between frames, which compress well.

    They are 32-bit integers in the order [R, N, T+1]: first the lowest bytes of all, then the next ones.
    """
    scaled = np.round(array.astype(np.float64) * steps).clip(1 - NON_FINITE_CODE, NON_FINITE_CODE - 1)
    whole = np.where(np.isfinite(array), scaled, NON_FINITE_CODE).astype(np.int64)
    change = np.diff(whole, axis=0, prepend=0).astype("<i4")  # wraps around, as the page's sums do
    return np.moveaxis(change, 0, -1).reshape(-1, 1).view("u1").T.tobytes()
