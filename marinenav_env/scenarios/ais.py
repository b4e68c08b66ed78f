"""Recorded traffic: tracks of vessels from reports of AIS as CSV, and episodes in which vessels follow them.

The columns are recognised by their names in files of Marine Cadastre, of the Danish Maritime Authority, of Kystverket
and others, in any case and order. Reports without a position or a speed of a ship (latitude 91, longitude 181, 102.3
knots or more, or nothing) are skipped. Nothing is scaled: metres, seconds and speeds are those of the reports.
"""

import csv
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from io import TextIOWrapper
from itertools import pairwise
from pathlib import Path

import numpy as np

from marinenav_env.scenarios.episode import Episode, map_per_robot
from marinenav_env.scenarios.scenario_file import MAX_TRACK_POINTS
from marinenav_env.scenarios.situations import DISTANCE_BEYOND_APPROACH, goal_after_track
from marinenav_env.support.files import open_regular
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, is_number, require
from marinenav_env.waters.charts import Chart, require_window
from marinenav_env.waters.projection import LocalPlane
from marinenav_env.waters.shapes import Floats

Track = list[list[float]]
"""Time (s), x and y (m) of the points of a track, as ``Episode.track`` has them."""
MAX_GAP = 300.0
"""Longest time between two reports of one track (s), but for a vessel that lies still."""
MAX_SPEED = 60.0
"""Largest speed between two reports of one track (m/s)."""
REST_SPEED = 0.5
"""Speed over ground (knots) below which all reports of a vessel at rest are; it lies at their mean position."""
MAX_BYTES = 2**34
_COLUMNS = {
    "MMSI": ("mmsi", "sourcemmsi", "vesselid", "shipid"),
    "time": ("time", "timestamp", "basedatetime", "datetimeutc", "datetime", "t"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "longitude"),
    "sog": ("sog", "speedoverground", "speed"),
}
"""Names of the columns that are read, as small letters only; courses follow from positions."""
_UNKNOWN = {"lat": (91.0, 90.0), "lon": (181.0, 360.0), "sog": (102.3, 102.3)}
"""Value that stands for "not available", and the largest magnitude."""


def read_ais(
    path: str | Path,
    at: tuple[float, float] | Chart,
    size: float = 300.0,
    begin: str | float | None = None,
    seconds: float = 600.0,
    max_ships: int = 32,
) -> list[Track]:
    """Read the tracks of vessels in a window of place and time from a CSV file of AIS.

    A track joins the reports of a vessel in the order of their times, and ends at a gap of more than MAX_GAP. It goes
    from the last report before the window to the first one after it. Vessels at rest are kept.

    Args:
        path: path of the file.
        at: chart whose window it is, or latitude and longitude (degrees) of its middle.
        size: side of a window that is not that of a chart (m); x is north and y east of its south-west corner.
        begin: time from which the times of the tracks count, as in the file: ISO 8601 (UTC unless it says otherwise),
            DD/MM/YYYY hh:mm:ss, seconds or milliseconds; by default that of the first report near the window.
        seconds: length of the tracks (s).
        max_ships: largest number of tracks; those that are in the window for the longest time are kept.

    Raises:
        ConfigError: if the file or an option cannot be used, or no track is in the window.
    """
    if isinstance(at, Chart):
        require(at.origin != (0.0, 0.0), "at", at.name, "a chart that states its origin")
        plane, sides = at.plane, np.array([at.width, at.height])
    else:
        require_window(at, size)
        corner = LocalPlane(*at).to_degrees(np.array([-0.5 * size, -0.5 * size]))
        plane, sides = LocalPlane(round(float(corner[1]), 8), round(float(corner[0]), 8)), np.array([size, size])
    require(is_number(seconds) and seconds > 0.0, "seconds", seconds, "a number above 0")
    require(is_nonnegative_int(max_ships) and max_ships > 0, "max_ships", max_ships, "a whole number from 1")
    start = None if begin is None else _seconds(str(begin), "begin")
    by_vessel = _reports_near(path, plane, float(sides.max()))
    times = [report[0] for reports in by_vessel.values() for report in reports]
    if not times:
        raise ConfigError(f"{path}: no report of a vessel is near the window")
    start = min(times) if start is None else start
    found: list[tuple[float, Track]] = []
    for reports in by_vessel.values():
        rows = np.array(sorted(reports)) - np.array([start, 0.0, 0.0, 0.0])
        rows[:, 0] = np.round(rows[:, 0], 2)
        found += [each for piece in _pieces(rows) for each in _in_window(piece, sides, seconds)]
    if not found:
        first, last = (datetime.fromtimestamp(each, UTC).isoformat() for each in (min(times), max(times)))
        raise ConfigError(
            f"{path}: no track is in the window at these times; reports near it are from {first} to {last}"
        )
    found.sort(key=lambda item: -item[0])
    return [track for _, track in found[:max_ships]]


def _rows(path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Yield the place in the file, for messages, and the texts of _COLUMNS, of each row of a CSV file."""
    with TextIOWrapper(open_regular(path, "AIS reports as CSV", MAX_BYTES), "utf-8-sig", "replace", "") as stream:
        try:
            head = stream.readline().lower()
            delimiter = max(",;\t", key=head.count)
            names = ["".join(filter(str.isalpha, name)) for name in next(csv.reader([head], delimiter=delimiter), [])]
            columns = {
                key: next((names.index(name) for name in known if name in names), -1) for key, known in _COLUMNS.items()
            }
            missing = [key for key, column in columns.items() if column < 0]
            if missing:
                shown = ", ".join(names[:8]) or "none"
                raise ConfigError(f"{path}: has no column {', '.join(missing)}; its columns are {shown}")
            for number, row in enumerate(csv.reader(stream, delimiter=delimiter), 2):
                if "".join(row).strip():
                    place = f"{path}: row {number}"
                    require(len(row) > max(columns.values()), place, row, f"{len(names)} values")
                    yield place, [row[column].strip() for column in columns.values()]
        except (csv.Error, OSError) as error:
            raise ConfigError(f"{path}: cannot be read as AIS reports as CSV ({error})") from error


def _reports_near(path: str | Path, plane: LocalPlane, size: float) -> dict[str, set[tuple[float, ...]]]:
    """Return time (s), x, y (m) and speed (knots) of the reports of each vessel from which a leg may reach a window."""
    margin = MAX_GAP * MAX_SPEED
    north, east = plane.radii()
    by_vessel: dict[str, set[tuple[float, ...]]] = defaultdict(set)
    for place, (vessel, time, *texts) in _rows(path):
        values = [_number(text, key, place) for key, text in zip(_UNKNOWN, texts, strict=True)]
        if not vessel or None in values:
            continue
        latitude, longitude, speed = (value for value in values if value is not None)
        away = (longitude - plane.longitude + 180.0) % 360.0 - 180.0
        if -margin <= (latitude - plane.latitude) * north <= size + margin and -margin <= away * east <= size + margin:
            x, y = plane.to_metres(np.array([longitude, latitude])).tolist()
            by_vessel[vessel.removesuffix(".0")].add((_seconds(time, f"{place}: time"), x, y, speed))
    return by_vessel


def _number(text: str, key: str, place: str) -> float | None:
    """Return the number in a text; None if it is not available."""
    unknown, most = _UNKNOWN[key]
    try:
        value = float(text.replace(",", ".") or unknown)
    except ValueError:
        value = math.nan
    if value == unknown or (key == "sog" and not 0.0 <= value <= most):  # such as that of a helicopter
        return None
    require(-most <= value <= most, f"{place}: {key}", text, f"a number from {-most:g} to {most:g}")
    return value


def _seconds(text: str, key: str) -> float:
    """Return a time (s, since 1970 if it is a date) from s or ms, ISO 8601 or DD/MM/YYYY hh:mm:ss."""
    try:
        if text.replace(".", "", 1).isdecimal():
            require(float(text) < 1e14, key, text, "seconds or milliseconds")
            return float(text) / (1.0 if float(text) < 1e11 else 1e3)
        date = datetime.fromisoformat(re.sub(r"^(\d\d)[/.-](\d\d)[/.-](\d{4})", r"\3-\2-\1", text))
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        allowed = "seconds, a time such as 2026-05-01T12:00:00, or DD/MM/YYYY hh:mm:ss"
        raise ConfigError(f"{key}={text[:40]!r}: must be {allowed}") from None


def _pieces(reports: Floats) -> list[Floats]:
    """Split the reports [n, 4] of a vessel, by time, at gaps and jumps; of several at one time the first counts."""
    reports = reports[np.concatenate([[True], np.diff(reports[:, 0]) > 0.0])]
    time, ways = np.diff(reports[:, 0]), np.hypot(*np.diff(reports[:, 1:3], axis=0).T)
    # At anchor, where a vessel swings and reports seldom.
    stays = (np.maximum(reports[1:, 3], reports[:-1, 3]) < REST_SPEED) & (ways < 50.0)
    breaks = np.flatnonzero(((time > MAX_GAP) & ~stays) | (ways > MAX_SPEED * time)) + 1
    return np.split(reports, breaks)


def _in_window(reports: Floats, sides: Floats, seconds: float) -> list[tuple[float, Track]]:
    """Return the time (s) in the window and the track of reports [n, 4] with time from 0; nothing if never there."""
    if (reports[:, 3] < REST_SPEED).all():
        reports[:, 1:3] = reports[:, 1:3].mean(0)
    times = reports[:, 0]
    inner = times[(times > 0.0) & (times < seconds)]
    times = np.unique(np.round([max(times[0], 0.0), *inner, min(times[-1], seconds)], 2))
    times = times[(times >= reports[0, 0]) & (times <= reports[-1, 0])]
    track = np.stack([times, *(np.interp(times, reports[:, 0], column) for column in reports[:, 1:3].T)], -1)
    legs = np.diff(track, axis=0)
    way = np.where(legs[:, 1:] == 0.0, 1e-9, legs[:, 1:])  # a vessel at rest is inside or outside all the time
    ends = np.stack([-track[:-1, 1:] / way, (sides - track[:-1, 1:]) / way])
    shares = np.clip(ends.max(0).min(-1), 0.0, 1.0) - np.clip(ends.min(0).max(-1), 0.0, 1.0)
    there = np.flatnonzero(shares > 0.0)
    if not len(there):
        return []
    track = track[there[0] : there[-1] + 2]
    if (track[:, 1:] == track[0, 1:]).all():
        track = track[[0, -1]]
    track = track[np.unique(np.linspace(0, len(track) - 1, MAX_TRACK_POINTS).round().astype(int))]
    return [(float((shares.clip(0.0) * legs[:, 0]).sum()), np.round(track, 2).tolist())]


def with_ais(episode: Episode, tracks: Sequence[Track]) -> Episode:
    """Return an episode with further vessels, which follow tracks [time, x, y] whatever the others do.

    A vessel whose track begins later starts where its first leg has it at time 0. It ends where its track ends, unless
    it is at rest there.
    """
    starts, headings, velocities, goals = [], [], [], []
    reach = DISTANCE_BEYOND_APPROACH * episode.world.scenario.scale
    for number, track in enumerate(tracks):
        rises = len(track) >= 2 and all(before[0] < after[0] for before, after in pairwise(track))
        require(rises, f"tracks[{number}]", track, "two or more [time, x, y] by rising time")
        legs = [((x - x0), (y - y0), t - t0) for (t0, x0, y0), (t, x, y) in pairwise(track)]
        now = max(index for index, point in enumerate(track[:-1]) if index == 0 or point[0] <= 0.0)
        north, east, time = legs[now]
        velocities.append([north / time, east / time, 0.0])
        starts.append(
            [at - track[now][0] * speed for at, speed in zip(track[now][1:], velocities[-1][:2], strict=True)]
        )
        moving = next((leg for leg in legs[now:] if math.hypot(*leg[:2]) > 0.0), (1.0, 0.0, 1.0))
        headings.append(math.atan2(moving[1], moving[0]))
        goals.append(list(goal_after_track(track, reach)))
    count, added = len(episode.start), len(tracks)
    robots = count + added
    world = map_per_robot(episode.world, lambda value: (value[:count] + value[-1:] * robots)[:robots])
    still = [[0.0, 0.0] for _ in tracks]
    return replace(
        episode,
        start=episode.start + starts,
        goal=episode.goal + goals,
        heading=episode.heading + headings,
        velocity=episode.velocity + velocities,
        thruster_angle=episode.thruster_angle + still,
        thrust=episode.thrust + still,
        world=world,
        behaviour=(episode.behaviour or [""] * count) + ["track"] * added,
        onset=(episode.onset or [0.0] * count) + [0.0] * added,
        route=episode.route and episode.route + [[] for _ in tracks],
        track=(episode.track or [[] for _ in episode.start]) + [list(map(list, track)) for track in tracks],
    )
