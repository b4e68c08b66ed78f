"""Random charts for training without any: coasts with bays, channels, islands, piers and marinas."""

from __future__ import annotations

import numpy as np

from marinenav_env.support.validation import ConfigError, is_nonnegative_int, require
from marinenav_env.waters.charts import MOST_SEGMENTS, Chart, with_land
from marinenav_env.waters.shapes import Floats

KINDS = ("coast", "channel", "bay", "islands", "marina")
"""Kinds of waters: land on one side, on two opposite ones, on three, or on none; a channel with long piers in a row."""
_SIDES = {"coast": (0,), "channel": (0, 2), "bay": (0, 1, 2), "islands": (), "marina": (0, 2)}
"""Sides of a unit square with land: 0 at y = 0, counted by quarter turns."""
_CORNERS = 9
"""Largest number of corners of a coast and of an island."""
_WATER = (0.4, 0.97)
"""Least and largest share of the window that is water at a distance of _CLEAR from land."""
_CLEAR = 0.02
"""Distance from land, as a share of the window's side, at which water is wide enough."""
_DRAWS = 100


def random_chart(seed: int, size: float = 200.0, most_segments: int = MOST_SEGMENTS, kind: str | None = None) -> Chart:
    """Return a random chart, which the arguments determine.

    Args:
        seed: seed of the random numbers.
        size: side of the square window (m).
        most_segments: largest number of segments.
        kind: one of KINDS; a random one by default.
    """
    require(is_nonnegative_int(seed), "seed", seed, "a whole number of at least 0")
    require(kind is None or kind in KINDS, "kind", kind, f"one of {', '.join(KINDS)}")
    drawn = np.random.default_rng(seed)
    shown = kind or KINDS[drawn.integers(len(KINDS))]
    empty = Chart(f"{shown} {seed}", size, size, np.zeros((0, 4)), (), (0.0, 0.0), 0.0, f"random, seed {seed}")
    for _ in range(_DRAWS):
        areas, walls = _draw(drawn, shown)
        try:
            chart = with_land(empty, [[size * ring] for ring in areas], [size * wall for wall in walls], most_segments)
        except ConfigError:  # too many segments, or no water
            continue
        low, high = _WATER
        if low <= (chart.sample(40)[1] >= _CLEAR * size).mean() <= high:
            return chart
    raise ConfigError(f"no random waters of kind {shown} have at most {most_segments} segments: allow more of them")


def _draw(drawn: np.random.Generator, kind: str) -> tuple[list[Floats], list[Floats]]:
    """Return random rings [n, 2] of land and walls [n, 2] around a unit square, turned by a random angle."""
    areas, walls = list[Floats](), list[Floats]()
    for side in _SIDES[kind]:
        coast = _draw_coast(drawn, drawn.uniform(0.02, 0.3 if kind in ("channel", "marina") else 0.4))
        if kind == "marina" and side == 0:
            walls += _draw_marina(drawn, coast)
        for _ in range(drawn.integers(0, 4)):
            pier = _draw_pier(drawn, coast)
            (areas if len(pier) > 2 else walls).append(_turned(pier, side * np.pi / 2.0))
        areas.append(_turned(np.concatenate([coast, [[2.0, -2.0], [-1.0, -2.0]]]), side * np.pi / 2.0))
    for _ in range(drawn.integers(1 if not areas else 0, 5)):
        areas.append(_draw_island(drawn))
    angle = drawn.uniform(0.0, 2.0 * np.pi)
    return [_turned(ring, angle) for ring in areas], [_turned(wall, angle) for wall in walls]


def _turned(points: Floats, angle: float) -> Floats:
    """Return points [n, 2] turned about the middle of a unit square by an angle (rad)."""
    cos, sin = np.cos(angle), np.sin(angle)
    return np.asarray((points - 0.5) @ np.array([[cos, sin], [-sin, cos]]) + 0.5)


def _draw_coast(drawn: np.random.Generator, depth: float) -> Floats:
    """Return the line [n, 2] of a coast along x whose land, at smaller y, reaches about a depth into a unit square."""
    count = int(drawn.integers(4, _CORNERS + 1))
    x = np.sort(drawn.uniform(-0.5, 1.5, count))
    y = depth + drawn.uniform(0.2, 1.0) * depth * drawn.uniform(-1.0, 1.0, count)
    if drawn.random() < 0.4:  # quays: steps along and across
        x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    return np.concatenate([[[-1.0, depth]], np.stack([x, y], -1), [[2.0, depth]]])


def _draw_pier(drawn: np.random.Generator, coast: Floats) -> Floats:
    """Return a pier from a coast [n, 2]: a wall of two points, or a ring of four."""
    x = drawn.uniform(0.05, 0.95)
    length, tilt = drawn.uniform(0.05, 0.25), drawn.uniform(-0.5, 0.5)
    way = length * np.array([np.sin(tilt), np.cos(tilt)])
    foot = np.array([x, np.interp(x, coast[:, 0], coast[:, 1]) - 0.002])
    if drawn.random() < 0.5:
        return np.stack([foot, foot + way])
    across = drawn.uniform(0.01, 0.04) * np.array([np.cos(tilt), -np.sin(tilt)])
    back = foot - 0.1 * way / length
    return np.stack([back, back + across, foot + way + across, foot + way])


def _draw_marina(drawn: np.random.Generator, coast: Floats) -> list[Floats]:
    """Return parallel walls [n, 2] from a coast [n, 2], some with heads, and up to two that lie off the shore."""
    walls, tilt, length = list[Floats](), drawn.uniform(-0.5, 0.5), drawn.uniform(0.15, 0.45)
    way, along = np.array([np.sin(tilt), np.cos(tilt)]), np.array([np.cos(tilt), -np.sin(tilt)])
    for x in np.arange(drawn.uniform(0.0, 0.2), 1.0, drawn.uniform(0.12, 0.35)):
        foot = np.array([x, np.interp(x, coast[:, 0], coast[:, 1]) - 0.002])
        head = foot + drawn.uniform(0.7, 1.0) * length * way
        walls.append(np.stack([foot, head, head + drawn.uniform(-0.1, 0.1) * along][: drawn.integers(2, 4)]))
    for _ in range(drawn.integers(0, 3)):
        middle, half = drawn.uniform(0.2, 0.8, 2), drawn.uniform(0.05, 0.2)
        walls.append(np.stack([middle - half * along, middle + half * along]))
    return walls


def _draw_island(drawn: np.random.Generator) -> Floats:
    """Return the ring [n, 2] of an island in a unit square."""
    count = int(drawn.integers(4, _CORNERS + 1))
    angles = (np.arange(count) + drawn.uniform(0.0, 0.7, count)) * 2.0 * np.pi / count
    radii = drawn.uniform(0.02, 0.12) * drawn.uniform(0.5, 1.5, count)
    ring = np.stack([np.cos(angles), np.sin(angles)], -1) * radii[:, None]
    return np.asarray(drawn.uniform(0.1, 0.9, 2) + ring * drawn.uniform(0.5, 1.5, 2))
