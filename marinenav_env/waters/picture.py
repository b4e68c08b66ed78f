"""A chart as a picture: SVG, north up."""

from __future__ import annotations

from html import escape

import numpy as np

from marinenav_env.waters.charts import Chart
from marinenav_env.waters.shapes import Floats

WIDTH = 720
"""Width of a picture (pixels)."""
_CAPTION = 46
"""Height of the lines below the map (pixels)."""
_STYLE = (
    ".land{fill:#e9dcb0}.shore{stroke:#3d3420;stroke-width:1.5}.wall{stroke:#3d3420;stroke-width:2.5}"
    ".route{fill:none;stroke:#a3238e;stroke-width:2;stroke-dasharray:9 5}"
    ".scale{stroke:#10202f;stroke-width:2}text{font:13px sans-serif;fill:#10202f}"
)


def land_outlines(chart: Chart) -> list[Floats]:
    """Return rings [n, 2] (m) around land, some of them around lakes in it: shores, closed along the window's edge.

    A point is on land if it is inside an odd number of rings. Walls have no ring.
    """
    keys = [tuple(row) for row in np.round(chart.shores, 2).tolist()]
    both = set(keys)
    following = {row[:2]: row[2:] for row in keys if row[2:] + row[:2] not in both}
    size = np.array([chart.width, chart.height])
    window_corners = (size * [(0, 0), (0, 1), (1, 1), (1, 0)]).tolist()  # in the order of _along_edge
    # Lines from their first to their last point; those that end nowhere are rings.
    firsts = [point for point in following if point not in set(following.values())]
    lines = [_follow(first, following) for first in firsts]
    rings = [_follow(next(iter(following)), following) for _ in range(len(following)) if following]
    starts = sorted((_along_edge(line[0], size), number) for number, line in enumerate(lines))
    left = dict(starts)
    while left:
        first, number = next(iter(left.items()))
        ring, place = [], first
        while True:
            left.pop(place, None)
            ring += lines[number].tolist()
            end = _along_edge(lines[number][-1], size)
            place, number = min(starts, key=lambda item: (item[0] - end) % 4.0)
            corners = [end // 1.0 + 1.0 + step for step in range(4)]
            way = (place - end) % 4.0
            ring += [window_corners[int(corner) % 4] for corner in corners if corner - end < way]
            if place not in left:
                break
        rings.append(np.array(ring))
    return rings


def _follow(point: tuple[float, ...], following: dict[tuple[float, ...], tuple[float, ...]]) -> Floats:
    """Return the points [n, 2] from one on, as far as others follow; they are taken out."""
    points = [point]
    while points[-1] in following:
        points.append(following.pop(points[-1]))
    return np.array(points)


def _along_edge(point: Floats, size: Floats) -> float:
    """Return where a point is on the edge of a window: 0 to 4 from the south-west corner by east, north and west."""
    x, y = (point / size).tolist()
    sides = [(abs(x), y), (abs(1.0 - y), 1.0 + x), (abs(1.0 - x), 3.0 - y), (abs(y), 4.0 - x)]
    return min(sides)[1] % 4.0


def draw_svg(chart: Chart) -> str:
    """Return a picture of a chart as SVG: land, shores, walls, routes and a scale."""
    scale = WIDTH / chart.height
    tall = chart.width * scale

    def points(line: Floats) -> str:
        return " ".join(f"{y * scale:.1f},{tall - x * scale:.1f}" for x, y in line)

    def segment(kind: str, row: Floats) -> str:
        (x1, y1), (x2, y2) = (each.split(",") for each in points(row.reshape(2, 2)).split())
        return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}"/>'

    known = {tuple(row) for row in chart.shores.tolist()}
    is_wall = [(*row[2:], *row[:2]) in known for row in chart.shores.tolist()]
    length = 10.0 ** np.floor(np.log10(chart.height / 3.0))
    length *= max(factor for factor in (1.0, 2.0, 5.0) if factor * length <= chart.height / 3.0)
    end, below = 20.0 + length * scale, tall + 18.0
    rings = "".join(f"M{points(ring).replace(' ', 'L')}Z" for ring in land_outlines(chart))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {tall + _CAPTION:.0f}" width="{WIDTH}">',
        f"<title>{escape(chart.name)}</title><style>{_STYLE}</style>",
        f'<rect width="{WIDTH}" height="{tall + _CAPTION:.0f}" fill="#fff"/>',
        f'<rect width="{WIDTH}" height="{tall:.1f}" fill="#d6e8f4"/>',
        f'<path class="land" fill-rule="evenodd" d="{rings}"/>',
        *(segment("wall" if wall else "shore", row) for wall, row in zip(is_wall, chart.shores, strict=True)),
        *(f'<polyline class="route" points="{points(route)}"/>' for route in chart.routes),
        f'<line class="scale" x1="20" y1="{below:.1f}" x2="{end:.1f}" y2="{below:.1f}"/>',
        f'<text x="{end + 8:.1f}" y="{below + 4:.1f}">{length:g} m; north is up; not for navigation</text>',
        f'<text x="20" y="{below + 20:.1f}">{escape(chart.source)}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
