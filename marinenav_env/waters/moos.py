"""Obstacles of MOOS-IvP as charts: text with lines ``poly = pts={x,y:x,y:...},label=...``, x east and y north (m).

A line ``region = pts={...}`` is the window, which otherwise reaches MARGIN beyond the obstacles.
"""

import re
from pathlib import Path

import numpy as np

from marinenav_env.support.files import parse_json, read_text
from marinenav_env.support.validation import ConfigError, require
from marinenav_env.waters.charts import FILE_DESCRIPTION, SIZES, Chart, with_land

MARGIN = 20.0
"""Distance from the obstacles to the edge of a window that is not stated (m)."""
MOST_SEGMENTS = 256
"""Largest number of segments of the shores around obstacles."""
_LINE = re.compile(r"^[ \t]*(poly|polygon|region)[ \t]*=(.*)$", re.IGNORECASE | re.MULTILINE)
_POINTS = re.compile(r"pts\s*=\s*\{([^{}]*)\}", re.IGNORECASE)


def load_chart(path: str | Path) -> Chart:
    """Read the file of a chart, or of obstacles of MOOS-IvP; a damaged one is refused in one sentence."""
    text, name = read_text(path, FILE_DESCRIPTION), str(path)
    return chart_of_moos(text, name) if is_moos(text) else Chart.parse(parse_json(text, name, FILE_DESCRIPTION), name)


def is_moos(text: str) -> bool:
    """Return whether a text has lines of polygons in the format of MOOS-IvP."""
    return _LINE.search(text) is not None


def chart_of_moos(text: str, name: str) -> Chart:
    """Return the chart of a text with obstacles; ``name`` is the source of the text, for messages."""
    areas, region = [], None
    for match in _LINE.finditer(text):
        place = f"{name}: line {text.count(chr(10), 0, match.start()) + 1}"
        stated = _POINTS.search(match[2])
        try:
            pairs = stated[1].split(":") if stated else []
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
    fits = min(width, height) > 0.0 and max(width, height) <= SIZES[1]
    require(fits, f"{name}: size", f"{width:g} x {height:g} m", f"above 0 and up to {SIZES[1]:g} m")
    window = Chart(Path(name).stem, width, height, np.zeros((0, 4)), (), (0.0, 0.0), 0.0, "polygons of MOOS-IvP")
    return with_land(window, [[area - low] for area in areas], [], MOST_SEGMENTS, name=name)
