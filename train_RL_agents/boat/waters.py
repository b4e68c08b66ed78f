"""Waters around a boat: the shores of a chart, as its policy observes them."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .checks import BoatError, require
from .network import Array

SHORE, SHORE_MASK = "shore", "shore_mask"
"""Names of the inputs with the nearest segments of shore and with which of them there are."""
SLOTS = 8
"""Number of segments that a policy observes, as marinenav_env.physics.shores.SHORE_SLOTS."""
_SHORTEST = 1e-12
"""Square of the length below which a segment counts as a point (m^2)."""
_DECIMALS = 9
"""Decimals to which distances (m) are compared, so that segments that share the nearest corner keep their order."""


class Waters:
    """Window of a chart that ``marinenav chart`` wrote, whose south-west corner is the origin of the map."""

    def __init__(self, shores: Array, width: float, height: float) -> None:
        """Segments [S, 4] are north and east of begin and end (m); the window is so wide to the north and east."""
        require(bool(np.isfinite(shores).all()), "a number is not finite")
        self._begin, self._along = shores[:, :2], shores[:, 2:] - shores[:, :2]
        self._square = np.maximum((self._along**2).sum(1), _SHORTEST)
        self._corner = np.array([width, height], float)

    @classmethod
    def load(cls, file: str | Path) -> "Waters":
        """Read the file of a chart; raise a BoatError if it is none."""
        try:
            chart = json.loads(Path(file).read_text(encoding="utf-8-sig"))["chart"]
            return cls(np.array(chart["shores"], float).reshape(-1, 4), chart["width"], chart["height"])
        except Exception as error:  # damaged text may raise any error
            raise BoatError(f"chart: {file} is no file of marinenav chart ({error!r})") from error

    def hides(self, north: float, east: float, points: Array) -> NDArray[np.bool_]:
        """Return which points [N, 2], north and east (m), the nearest segments hide from a place."""
        place = np.array([north, east])
        begin, _, _, first = self._seen_from(place)
        (bx, by), (ax, ay) = begin[first].T, self._along[first].T
        x, y = (points - place).T[..., None]
        # Lines cross where the ends of each are on different sides of the other, as in physics.shores.crossing.
        own, other, turned = ax * by - ay * bx, x * by - y * bx, x * ay - y * ax
        return np.asarray(((own * (own + turned) < 0.0) & (other * (other + turned) < _SHORTEST)).any(-1))

    def _seen_from(self, place: Array) -> tuple[Array, Array, Array, NDArray[np.intp]]:
        """Return begins, shares of the nearest points and these, from a place, and the indices of the nearest."""
        begin = self._begin - place
        middle = -(begin * self._along).sum(1) / self._square
        nearest = begin + np.clip(middle, 0.0, 1.0)[:, None] * self._along
        first = np.argsort(np.hypot(*nearest.T).round(_DECIMALS), kind="stable")[:SLOTS]
        return begin, middle, nearest, first

    def observe(self, north: float, east: float, heading: float, reach: float) -> dict[str, Array]:
        """Return the inputs ``shore`` [1, 8, 7] and ``shore_mask`` [1, 8] at a place (m) with a heading (rad).

        Segments within ``reach`` (m) are cut to it, nearest first. Outside of the window a BoatError is raised, because
        land is not known there.
        """
        place = np.array([north, east])
        is_inside = bool(((place >= 0.0) & (place <= self._corner)).all())
        require(is_inside, f"the vessel is outside of the chart, at {east:g} m east and {north:g} m north")
        begin, middle, nearest, first = self._seen_from(place)
        distance = np.hypot(*nearest.T)
        first = first[distance[first] <= reach]
        away = ((begin + middle[:, None] * self._along) ** 2).sum(1)
        half = np.sqrt(np.maximum(reach**2 - away, 0.0) / self._square)
        ends = [begin + np.clip(share, 0.0, 1.0)[:, None] * self._along for share in (middle - half, middle + half)]
        cos, sin = np.cos(heading), np.sin(heading)
        to_body = np.array([[cos, -sin], [sin, cos]])
        shore, mask = np.zeros((1, SLOTS, 7)), np.zeros((1, SLOTS))
        columns = [points[first] @ to_body for points in (*ends, nearest)]
        shore[0, : len(first)], mask[0, : len(first)] = np.column_stack((*columns, distance[first])), 1.0
        return {SHORE: shore, SHORE_MASK: mask}
