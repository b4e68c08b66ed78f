"""Shores: segments with land on their left, the nearest of them, and what they hide.

A shore is ``[E, S, 4]``: x (north) and y (east) of the begin and of the end of each segment (m). Left is as on a chart:
with d from begin to end and p from begin to a point, the point is on the side of the land where d_y p_x - d_x p_y > 0.
A line with water on both sides, such as a pier, is two segments of opposite directions. Unused slots are segments
without length at ABSENT_SHORE.

A vessel deals with its SHORE_SLOTS nearest segments only: it can touch no other, observes these, and nothing else hides
what is around it.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import WorldConfig
from marinenav_env.runtime.layout import env_first, env_last
from marinenav_env.state import Scenario

SHORE_SLOTS = 8
"""Number K of segments that a vessel deals with."""
ABSENT_SHORE = 1e6
"""Both coordinates of unused segments (m), too far away to be near anything."""
_SAME_DISTANCE = 1e-3
"""Difference of distances (m) up to which segments are equally near, as two are that share the nearest corner."""
_SHORTEST = 1e-12
"""Square of the length below which a segment counts as a point (m^2)."""
_INDEX_BITS = 8
"""Lowest bits of the sorting key of a segment, which hold its index; config.SHORE_SIZES ends at 2 ** 8."""


class Segments(NamedTuple):
    """Segments seen from positions: begin and direction from begin to end (m), [n, R, E] or broadcastable."""

    x: Tensor
    y: Tensor
    along_x: Tensor
    along_y: Tensor

    @classmethod
    def seen_from(cls, x: Tensor, y: Tensor, shores: Tensor) -> Segments:
        """Return all segments of shores [E, S, 4] as seen from positions [R, E]."""
        # Contiguous, since operators that are not compiled reduce other layouts 20 times as slowly.
        begin_x, begin_y, end_x, end_y = env_last(shores).contiguous()[:, :, None]
        return cls(begin_x - x.contiguous(), begin_y - y.contiguous(), end_x - begin_x, end_y - begin_y)

    def nearest_points(self) -> tuple[Tensor, Tensor]:
        """Return x and y from the positions to the nearest points of the segments (m)."""
        square = (self.along_x.square() + self.along_y.square()).clamp_min(_SHORTEST)
        share = (-(self.x * self.along_x + self.y * self.along_y) / square).clamp(0.0, 1.0)
        return self.x + share * self.along_x, self.y + share * self.along_y

    def squares(self) -> Tensor:
        """Return the squares of the distances from the positions (m^2)."""
        x, y = self.nearest_points()
        return x.square() + y.square()


def shore_clearance(position: Tensor, shores: Tensor) -> Tensor:
    """Return the distance of positions [E, R, 2] to the nearest shore (m), [E, R], negative on land.

    The nearest segment says on which side a position is. Where several are equally near, as at a corner, it is the one
    of them from whose line the position is farthest; between the two sides of a pier it is the water.
    """
    x, y = env_last(position)
    shore = Segments.seen_from(x, y, shores)
    distance = shore.squares().sqrt()
    least = distance.amin(0)
    length = (shore.along_x.square() + shore.along_y.square()).clamp_min(_SHORTEST).sqrt()
    side = (shore.along_x * shore.y - shore.along_y * shore.x) / length
    side = torch.where(distance <= least + _SAME_DISTANCE, side, 0.0)
    # Land: the farther side is that of the land, by more than rounding, so that both sides of a pier are water.
    on_land = side.amax(0) + side.amin(0) > _SAME_DISTANCE * least
    return env_first(torch.where(on_land, -least, least))


def nearest_shores(pose: Tensor, shores: Tensor) -> Segments:
    """Return the K nearest segments of shores [E, S, 4] to every robot, by rising distance, from poses [E, R, 3]."""
    x, y, _ = env_last(pose)
    squares = Segments.seen_from(x, y, shores).squares()
    count = squares.shape[0]
    number = torch.arange(count, device=squares.device)[:, None, None]
    # Floats above 0 have the order of their bits as integers; the lowest ones hold the index instead, so that keys
    # differ and one pass over the segments finds the next key.
    integer = torch.int64 if squares.dtype == torch.float64 else torch.int32
    key = (squares.contiguous().view(integer) >> _INDEX_BITS << _INDEX_BITS) | number.to(integer)
    found = [key.amin(0)]
    while len(found) < SHORE_SLOTS:
        found.append(torch.where(key > found[-1], key, torch.iinfo(integer).max).amin(0))
    index = (torch.stack(found) & (2**_INDEX_BITS - 1)).to(torch.int64)
    planes = env_last(shores)[:, :, None].expand(4, count, *x.shape)
    # Stacked twice, so that compiled code reads each number by index once, not wherever it is used.
    begin_x, begin_y, end_x, end_y = torch.stack([plane.gather(0, index) for plane in planes])
    return Segments(*torch.stack((begin_x - x, begin_y - y, end_x - begin_x, end_y - begin_y)))


def has_shores(scenario: Scenario) -> bool:
    """Return whether any of some scenarios has shores, not only room for them; reads them on the host."""
    return scenario.shores is not None and bool((scenario.shores[..., 0] < ABSENT_SHORE).any())


def hiding_shores(config: WorldConfig, scenario: Scenario) -> Tensor | None:
    """Return the shores [E, S, 4] that hide what is behind them; None if nothing is hidden."""
    return None if config.sensor.sees_through_land else scenario.shores


def crossing(shore: Segments, x: Tensor, y: Tensor) -> Tensor:
    """Return a number [..., R, E] below 0 where one of the segments lies on the way from a position to a point.

    Points are seen from the positions, x and y [..., R, E] each (m). It is no truth value, since compiled code handles
    bool slowly on a CPU.
    """
    # Stacked, so that compiled code stores them: it computes a product of more than a few tensors in two passes.
    x, y = torch.stack((x, y))
    # With n segments and M points for each robot, tensors are [n, M, R, E].
    extra = [1] * (x.ndim - shore.x.ndim + 1)
    begin_x, begin_y, along_x, along_y = (each.view(len(each), *extra, *each.shape[1:]) for each in shore)
    # Lines cross where the ends of each are on different sides of the other.
    own_side = along_x * begin_y - along_y * begin_x
    begin = x * begin_y - y * begin_x
    turned = x * along_y - y * along_x
    # A way through a corner that two segments share is blocked.
    crosses = torch.maximum(own_side * (own_side + turned), begin * (begin + turned) - _SHORTEST)
    return crosses.amin(0)


def hidden_pairs(pose: Tensor, shores: Tensor) -> Tensor:
    """Return whether shores [E, S, 4] hide the vessel of the second axis from the one of the first, [R, R, E] bool."""
    x, y, _ = env_last(pose)
    hidden = crossing(nearest_shores(pose, shores), x[:, None] - x, y[:, None] - y)
    return hidden.transpose(0, 1) < 0.0


def ray_distance(x: Tensor, y: Tensor, cos: Tensor, sin: Tensor, shores: Tensor) -> Tensor:
    """Return the distance (m) from positions [R, E] along rays [n, R, E] to the nearest shore; infinity without one."""
    from_x, from_y, along_x, along_y = (each[:, None] for each in Segments.seen_from(x, y, shores))
    # From here on tensors are [S, n, R, E]: Cramer's rule for from + share * along = distance * (cos, sin).
    across = cos * along_y - sin * along_x
    inverse = 1.0 / torch.where(across == 0.0, torch.inf, across)
    share = (sin * from_x - cos * from_y) * inverse
    distance = (from_x * along_y - from_y * along_x) * inverse
    meets = (share >= 0.0) & (share <= 1.0) & (distance >= 0.0) & (across != 0.0)
    return torch.where(meets, distance, torch.inf).amin(0)
