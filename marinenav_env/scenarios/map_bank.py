"""Maps that levels draw scenarios on: shores as tensors, with starts, goals and routes on their water."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from marinenav_env.config import ScenarioConfig, shore_room
from marinenav_env.levels import RANDOM_MAPS, Level
from marinenav_env.physics.routes import make_route, straight_route
from marinenav_env.physics.shores import ABSENT_SHORE
from marinenav_env.scenarios.draws import MAPS, Draws
from marinenav_env.state import Scenario
from marinenav_env.support.validation import ConfigError, require

if TYPE_CHECKING:
    from marinenav_env.waters.charts import Chart
    from marinenav_env.waters.routing import Passages

Point = tuple[float, float]
NUM_RANDOM_MAPS = 64
RANDOM_SIZES = (120.0, 320.0)
"""Sides of the first and of the last generated map (m); those between are evenly spaced."""
PASSAGES, MIN_PASSAGES = 768, 64
"""Number of starts with goals and routes that are computed for all maps together, and least number for each map."""
_ROOM = 50.0
"""Distance (m) from shores, starts and goals to the edge of the area in which a route is looked for."""
MAX_MAPS = 1000
"""Largest number of chart files in a folder."""


def load_charts(maps: str) -> tuple[Chart, ...]:
    """Return the charts that ``Level.maps`` names: generated ones, that of a file, or those of a folder by their names.

    A file that has not changed is read once.

    Raises:
        ConfigError: when there are none, or one cannot be read.
    """
    if maps == RANDOM_MAPS:
        return _random_charts()
    path = Path(maps).absolute()
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    require(0 < len(files) <= MAX_MAPS, "level.maps", maps, f"random, a chart file, or a folder of 1 to {MAX_MAPS:,}")
    found = [file.stat() if file.exists() else None for file in files]
    stamps = [(stat.st_mtime_ns, stat.st_size) if stat else (0, 0) for stat in found]
    return tuple(_load_chart(file, *stamp) for file, stamp in zip(files, stamps, strict=True))


@lru_cache(maxsize=MAX_MAPS)
def _load_chart(file: Path, modified: int, size: int) -> Chart:
    """Return the chart of a file, of which the last modification (ns) and the size are given."""
    # Imported here, since worlds in open water do not need them.
    from marinenav_env.waters.charts import Chart

    return Chart.load(file)


@cache
def _random_charts() -> tuple[Chart, ...]:
    from marinenav_env.waters.generator import random_chart

    sizes = np.linspace(*RANDOM_SIZES, NUM_RANDOM_MAPS)
    return tuple(random_chart(seed, float(size)) for seed, size in enumerate(sizes))


@lru_cache(maxsize=256)
def _passages_of(chart: Chart, count: int, seed: int, margin: float, min_distance: float) -> Passages:
    """Return passages on the water of a chart, a margin (m) away from shores."""
    from marinenav_env.waters.routing import WaterMap

    return WaterMap(chart, margin).passages(count, seed, min_distance)


def with_room_for_shores(scenario: Scenario, config: ScenarioConfig) -> Scenario:
    """Return scenarios [P] with as many segments of shore as a world has room for, and with straight routes if none."""
    room, shores = config.shore_segments, scenario.shores
    if (0 if shores is None else shores.shape[1]) == room:
        return scenario
    scenario, goal = scenario.clone(recurse=False), scenario.goal
    scenario.shores = goal.new_full((len(goal), room, 4), ABSENT_SHORE)
    if shores is not None:
        scenario.shores[:, : shores.shape[1]] = shores
        return scenario
    scenario.route = straight_route(scenario.start, goal)
    scenario.map_size = goal.new_tensor([config.width, config.height]).expand(len(goal), 2).clone()
    return scenario


@lru_cache(maxsize=256)
def find_route(
    shores: tuple[tuple[float, ...], ...], start: Point, goal: Point, margin: float, straight: bool = False
) -> list[list[float]]:
    """Return the waypoints over water from a start to a goal (m), without these.

    The way keeps ``margin`` (m) away from shores, or as much as its ends do; one that is to be ``straight`` is, unless
    it would come nearer.

    Raises:
        ConfigError: when no water connects both.
    """
    from marinenav_env.waters.charts import Chart
    from marinenav_env.waters.routing import WaterMap
    from marinenav_env.waters.shapes import signed_distance, ways_are_clear

    land, ends = np.array(shores, float), np.array([start, goal], float)
    margin = min(margin, 0.9 * float(signed_distance(ends, land).min()))
    if straight and ways_are_clear(ends[:1], ends[1:], land, margin).all():
        return []
    points = np.concatenate((land.reshape(-1, 2), ends))
    low, high = points.min(0) - _ROOM, points.max(0) + _ROOM
    width, height = (high - low).tolist()
    chart = Chart("shores", width, height, land - np.tile(low, 2), (), (0.0, 0.0), 0.0, "")
    try:
        waypoints, _ = WaterMap(chart, margin).route(*map(tuple, (ends - low).tolist()))
    except ConfigError as error:
        way = " to ".join(str([round(value, 2) for value in end]) for end in ends.tolist())
        allowed = f"one over water that is {margin:.2g} m wide on both sides, with at most 8 waypoints"
        raise ConfigError(f"route='{way}': must be {allowed}") from error
    return (waypoints[:-1] + low).tolist()


@dataclass(frozen=True)
class MapBank:
    """Maps of several levels, with equally many passages on each; N maps, S segments of shore."""

    first: Tensor
    """[levels] int64: number of the first map of each level."""
    count: Tensor
    """[levels] int64: number of maps of each level, 0 in open water."""
    sides: Tensor
    """[2, N] sizes of the maps along x and y (m)."""
    shores: Tensor
    """[N, S, 4] segments of shore (m), see physics.shores."""
    ends: Tensor
    """[N, passages, 4] x and y of start and goal (m)."""
    heading: Tensor
    """[N, passages] heading at the start (rad)."""
    route: Tensor
    """[N, passages, W, 5] routes, see physics.routes."""

    @classmethod
    def load(cls, config: ScenarioConfig, levels: Sequence[Level], options: dict[str, Any]) -> MapBank | None:
        """Return the maps of levels, as tensors with options such as their device; None if none has any.

        Raises:
            ConfigError: when a map cannot be read, or has no room for passages.
        """
        if not any(level.maps for level in levels):
            return None
        owned = [load_charts(level.maps) if level.maps else () for level in levels]
        charts, counts = [chart for own in owned for chart in own], [len(own) for own in owned]
        each, passages = max(MIN_PASSAGES, PASSAGES // len(charts)), []
        for level, own in zip(levels, owned, strict=True):
            for number, chart in enumerate(own):
                shortest = min(level.min_start_goal_dis, 0.5 * min(chart.width, chart.height))
                passages.append(_passages_of(chart, each, number, config.shore_margin, shortest))
        room = max(config.shore_segments, shore_room(max(len(chart.shores) for chart in charts)))
        shores = np.full((len(charts), room, 4), ABSENT_SHORE)
        for row, chart in zip(shores, charts, strict=True):
            row[: len(chart.shores)] = chart.shores

        def stacked(arrays: Sequence[Any]) -> Tensor:
            return torch.as_tensor(np.stack(arrays)).to(**options)

        start, goal = stacked([each.start for each in passages]), stacked([each.goal for each in passages])
        return cls(
            first=torch.tensor([0, *counts[:-1]], device=options["device"]).cumsum(0),
            count=torch.tensor(counts, device=options["device"]),
            sides=stacked([(chart.width, chart.height) for chart in charts]).T.contiguous(),
            shores=torch.as_tensor(shores).to(**options),
            ends=torch.cat((start, goal), -1),
            heading=stacked([each.heading for each in passages]),
            route=make_route(start, stacked([each.waypoints for each in passages])),
        )

    def choose(self, level: Tensor, draws: Draws) -> tuple[Tensor, Tensor]:
        """Return which of P scenarios, of levels [P], have a map, [P] bool, and its number, [P] int64 (any without)."""
        count = self.count[level]
        chance = draws.uniform(MAPS, (), ())
        number = torch.floor(chance * count).to(torch.int64)
        return count > 0, (self.first[level] + torch.minimum(number, count - 1)).clamp(0, len(self.shores) - 1)
