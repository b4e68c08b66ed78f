"""Observation entry ``shore``: the nearest segments of shore within the sensor range, without noise.

With ``world.scenario.shore_segments``, every robot observes this entry and its mask.
"""

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.physics.shores import SHORE_SLOTS, Segments
from marinenav_env.runtime.layout import env_first, env_last, stack_last
from marinenav_env.sensing.entries import Entry
from marinenav_env.state import Sensor, State
from marinenav_env.vessels import observation_scale

SHORE, SHORE_MASK = "shore", "shore_mask"
_MAX_POSITION = 1e4
"""Bound of observed positions (m)."""


def shore_entries(config: WorldConfig) -> tuple[Entry, ...]:
    """Return the descriptions of the entry and its mask; none in a world without shores."""
    if not config.scenario.shore_segments:
        return ()
    metres = 20.0 * observation_scale(config.vessel).length
    columns = "begin x, y, end x, y, nearest point x, y of a segment with land on its left, distance of that point"
    meaning = f"{columns} (m, body frame, cut to the sensor range)"
    limits = ((-_MAX_POSITION, _MAX_POSITION),)
    scale = (*(metres,) * 6, 0.25 * metres)
    return (
        Entry(SHORE, "objects", (SHORE_SLOTS, 7), meaning, scale, limits, SHORE_MASK),
        Entry(SHORE_MASK, "mask", (SHORE_SLOTS,), "the slot holds a segment of shore", (), ((0, 1),)),
    )


def observe_shores(state: State, sensor: Sensor, near: Segments) -> dict[str, Tensor]:
    """Return the entry [E, R, K, 7] and its mask [E, R, K] by name, for the nearest segments of every robot."""
    reach = env_last(sensor.range)
    nearest_x, nearest_y = near.nearest_points()
    square = nearest_x.square() + nearest_y.square()
    present = (square <= reach.square()) & env_last(state.active)
    begin, end = _cut(near, reach)
    heading = env_last(state.pose)[2]
    cos, sin = torch.stack((heading.cos(), heading.sin()))
    columns = []
    for x, y in (begin, end, (nearest_x, nearest_y)):
        columns += [cos * x + sin * y, cos * y - sin * x]
    # Each column by itself, so that compiled code computes and stores all of them in one pass.
    rows = [torch.where(present, column, 0.0) for column in (*columns, square.sqrt())]
    return {SHORE: stack_last(rows), SHORE_MASK: env_first(present)}


def _cut(shore: Segments, reach: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
    """Return begin and end, x and y each from the own vessel (m), of segments cut to the circle of the sensor range."""
    square = (shore.along_x.square() + shore.along_y.square()).clamp_min(1e-12)
    middle = -(shore.x * shore.along_x + shore.y * shore.along_y) / square
    away = (shore.x + middle * shore.along_x).square() + (shore.y + middle * shore.along_y).square()
    half = ((reach.square() - away).clamp_min(0.0) / square).sqrt()
    shares = ((middle - half).clamp(0.0, 1.0), (middle + half).clamp(0.0, 1.0))
    return tuple((shore.x + share * shore.along_x, shore.y + share * shore.along_y) for share in shares)
