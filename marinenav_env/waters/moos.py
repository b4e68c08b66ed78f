"""Obstacles of MOOS-IvP: text with lines ``poly = pts={x,y:x,y:...},label=...``, x east and y north (m).

Lines ``given_obstacle = ...`` are obstacles, too; regions of behaviours are not. A line ``region = pts={...}`` is the
window, which otherwise reaches MARGIN beyond the obstacles.
"""

import re

import numpy as np

from marinenav_env.support.validation import ConfigError, require
from marinenav_env.waters.shapes import Floats

MARGIN = 20.0
"""Distance from the obstacles to the edge of a window that is not stated (m)."""
_LINE = re.compile(r"^[ \t]*(poly|polygon|given_obstacle|region)[ \t]*=(.*)$", re.IGNORECASE | re.MULTILINE)
_POINTS = re.compile(r"pts\s*=\s*\{([^{}]*)\}", re.IGNORECASE)


def is_moos(text: str) -> bool:
    """Return whether a text has lines of polygons in the format of MOOS-IvP."""
    return _LINE.search(text) is not None


def read_obstacles(text: str, name: str) -> tuple[list[Floats], tuple[float, float]]:
    """Return the polygons of a text, from the corner of their window, and its size along x and y (m).

    x is north here and y east; ``name`` is the source of the text, for messages.
    """
    areas, region = [], None
    for match in _LINE.finditer(text):
        if "$(" in match[2] or ("BHV_" in text and match[1].lower() == "polygon"):
            continue
        place = f"{name}: line {text.count(chr(10), 0, match.start()) + 1}"
        stated = _POINTS.search(match[2])
        try:
            pairs = (stated[1] if stated else match[2]).split(":")
            points = np.array([[float(value) for value in pair.split(",")[:2]] for pair in pairs])
        except ValueError:
            points = np.zeros(0)
        fits = points.ndim == 2 and len(points) >= 3 and points.shape[1] == 2 and bool((np.abs(points) <= 1e6).all())
        require(fits, place, match[0].strip(), "pts={x,y:x,y:...} with 3 points or more")
        if match[1].lower() == "region":
            region = points[:, ::-1]
        else:
            areas.append(points[:, ::-1])
    if not areas:
        raise ConfigError(f"{name}: has no line poly = pts={{x,y:x,y:...}}")
    bounds = np.concatenate(areas) if region is None else region
    margin = MARGIN if region is None else 0.0
    low = bounds.min(0) - margin
    width, height = (bounds.max(0) + margin - low).tolist()
    return [area - low for area in areas], (width, height)
