"""Sampling of scenarios: the published rejection loops, for a whole batch at once.

The published loops (for robots, cores and obstacles) draw candidates one after another, accept a candidate that is
compatible with all accepted before it, and stop when there are enough or the draws are used up. Here all candidates of
a loop are drawn first; then one pass per slot accepts the first open candidate (one that is neither accepted nor
incompatible with an accepted one) and closes all candidates that clash with it. The published loop would reject these
as well, so the accepted candidates are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from marinenav_env.config import ScenarioConfig
from marinenav_env.levels import Level
from marinenav_env.physics.routes import straight_route
from marinenav_env.physics.shores import ABSENT_SHORE, shore_clearance
from marinenav_env.runtime.host_reads import may_have_any
from marinenav_env.runtime.philox import RandomSource
from marinenav_env.scenarios.draws import (
    CORES,
    HEADINGS,
    OBSTACLES,
    ROBOTS,
    Draws,
    examine_until_enough,
    make_draws,
    scale_to_range,
)
from marinenav_env.scenarios.encounter_sampler import EncounterSampler
from marinenav_env.scenarios.map_bank import MapBank
from marinenav_env.state import Scenario
from marinenav_env.support.validation import require


def blank_scenarios(
    size: int, robots: int, obstacles: int, cores: int, device: torch.device, dtype: torch.dtype
) -> Scenario:
    """Return scenarios, batch [size], with zeros and empty slots, for a sampler to fill; cores are vortices."""

    def zeros(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.zeros(size, *shape, dtype=dtype, device=device)

    return Scenario(
        goal=zeros(robots, 2),
        start=zeros(robots, 2),
        heading=zeros(robots),
        velocity=zeros(robots, 3),
        thrust=zeros(robots, 2),
        thruster_angle=zeros(robots, 2),
        robot_mask=zeros(robots, dtype=torch.bool),
        obstacle_position=zeros(obstacles, 2),
        obstacle_radius=zeros(obstacles),
        obstacle_mask=zeros(obstacles, dtype=torch.bool),
        core_position=zeros(cores, 2),
        core_circulation=zeros(cores),
        level=zeros(dtype=torch.int64),
        # Given for the reason that stepping.world.initial_state states.
        **dict.fromkeys(("scripted", "behaviour", "onset", "shores", "route", "map_size", "track")),
        batch_size=[size],
    )


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """Return the distances between points (m), for two broadcastable arrays of coordinates [2, ...]."""
    # Written out, because a sum over such a short dimension is slow.
    dx, dy = a - b
    return dx.square_().add_(dy.square_()).sqrt_()


def _coordinates_last(coordinates: Tensor) -> Tensor:
    """Return points with their coordinates in the last dimension, [P, N, 2] from [2, P, N]."""
    return coordinates.movedim(0, -1).contiguous()


def _distance_to_nearest(points: Tensor, others: Tensor, present: Tensor) -> Tensor:
    """Return the distance from points [2, P, B] to the nearest of others [2, P, N] that are ``present`` (m), [P, B]."""
    # The shape is [2, P, N, B], so that candidates are adjacent in memory.
    dx, dy = points[:, :, None] - torch.where(present, others, torch.inf)[..., None]
    return dx.square_().add_(dy.square_()).amin(1).sqrt_()


def _accept_candidates(
    candidates: Tensor, is_open: Tensor, wanted: Tensor, slots: int, clash: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Accept the first open candidate for each slot in turn, and close the candidates that clash with it.

    Of the candidates [n, P, B], ``wanted`` [P] of those that are open [P, B] are accepted. ``clash`` maps an accepted
    one [n, P, 1] to the mask [P, B] of those that clash with it. Returns the accepted ones [n, P, slots], zero in empty
    slots, and the mask [P, slots] of filled slots.
    """
    number = torch.arange(is_open.shape[-1], device=is_open.device)
    accepted = candidates.new_zeros(*candidates.shape[:2], slots)
    mask = is_open.new_zeros(len(is_open), slots)
    for slot in range(slots):
        first = is_open.to(torch.int8).argmax(-1, keepdim=True)
        exists = is_open.gather(-1, first) & (slot < wanted)[:, None]
        if not may_have_any(exists):
            break
        candidate = candidates.gather(-1, first.expand(*candidates.shape[:2], 1))
        is_open = is_open & (number > first) & ~(clash(candidate) & exists)
        accepted[..., slot : slot + 1], mask[:, slot : slot + 1] = candidate * exists, exists
    return accepted, mask


def _check_room(config: ScenarioConfig, level: Level) -> None:
    """Raise ConfigError if the map of a level is too small for its margins, or for a single start and goal."""
    margin = max(config.start_margin, config.obstacle_margin)
    has_room = not level.map_size or 2.0 * margin < level.map_size
    require(has_room, "level.map_size", level.map_size, f"above {2.0 * margin:g}, both margins")
    sides = (level.map_size or side for side in (config.width, config.height))
    longest = math.hypot(*(side - 2.0 * config.start_margin for side in sides))
    has_room = level.encounter or bool(level.maps) or level.min_start_goal_dis < longest
    allowed = f"below {longest:g}, the diagonal of the map inside its margins"
    require(has_room, "level.min_start_goal_dis", level.min_start_goal_dis, allowed)


class _Waters(NamedTuple):
    """Maps of P scenarios."""

    sides: Tensor
    """[2, P] sizes of the maps along x and y (m)."""
    shores: Tensor | None = None
    """[P, S, 4] segments of shore (m); None in a world without shores."""
    has_map: Any = None
    """[P] bool: the scenario has a map with shores; None if none has."""
    number: Tensor | None = None
    """[P] int64: number of the map in the bank, any for scenarios without; None if none has one."""

    def rows(self, rows: Tensor | slice) -> _Waters:
        """Return the maps of some of the scenarios."""
        parts = (None if each is None else each[rows] for each in self[1:])
        return _Waters(self.sides[:, rows], *parts)


class ScenarioSampler:
    """Sampler of scenarios of mixed levels on a device, without host reads that wait for the device.

    Robots, vortex cores of the current and obstacles are drawn by rejection. As in the published sampler, a scenario
    has fewer of them than its level requires if ``config.draws`` draws do not suffice; CompleteSampler draws scenarios
    that have all of them.
    """

    def __init__(
        self, config: ScenarioConfig, levels: tuple[Level, ...], device: torch.device, dtype: torch.dtype
    ) -> None:
        for level in levels:
            _check_room(config, level)
        self.config = config
        self._options: dict[str, Any] = {"device": device, "dtype": dtype}
        counts = [[level.num_robots, level.num_cores, level.num_obstacles] for level in levels]
        sides = [[level.map_size or side for level in levels] for side in (config.width, config.height)]
        # One entry per level, indexed by the levels of the scenarios.
        self._counts = torch.tensor(counts, device=device)
        self._sides = torch.tensor(sides, **self._options)
        self._distances, self._core_speeds = (
            torch.tensor([getattr(level, name) for level in levels], **self._options)
            for name in ("min_start_goal_dis", "core_speed")
        )
        self._encounter = torch.tensor([level.encounter for level in levels], device=device)
        self._has_encounters = any(level.encounter for level in levels)
        self._bank = MapBank.load(config, levels, self._options)
        self.shore_segments = config.shore_segments if self._bank is None else self._bank.shores.shape[1]
        """Room for segments of shore in the scenarios, 0 in open water."""
        self._encounters = EncounterSampler(config, levels, self._sides, self._options)
        self.max_robots, self._max_cores, self._max_obstacles = map(max, zip(*counts, strict=True))

    def sample(self, level: Tensor, generator: torch.Generator | RandomSource) -> Scenario:
        """Draw one scenario per entry of ``level`` [P], int64 indices into the levels."""
        return self.draw(level, make_draws(generator, len(level), self._options["dtype"]))

    def draw(self, level: Tensor, draws: Draws) -> Scenario:
        """Return one scenario for each of the levels [P] (int64, indices), drawn from the given random numbers."""
        waters = self._draw_waters(level, draws)
        ends, robot_mask, passage = self._draw_robots(level, waters, draws)
        encounters = None
        if self._has_encounters:
            present = torch.arange(self.max_robots, device=level.device) < self._counts[level][:, :1]
            encounters = self._encounters.draw(level, present, self._encounter[level], draws)
            is_encounter = self._encounter[level][:, None]
            ends = torch.where(is_encounter, encounters.places, ends)
            robot_mask = torch.where(is_encounter, present, robot_mask)
        # Starts and goals [2, P, 2 R], from which cores and obstacles stay away, and their mask [P, 2 R].
        taken = torch.cat((ends[:2], ends[2:]), -1), torch.cat((robot_mask, robot_mask), -1)
        cores = self._draw_cores(level, waters, *taken, draws)
        obstacles, obstacle_mask = self._draw_obstacles(waters, level, *taken, cores, draws)
        heading = 2.0 * math.pi * draws.uniform(HEADINGS, (), robot_mask.shape[1:])
        start, goal = _coordinates_last(ends[:2]), _coordinates_last(ends[2:])
        velocity, scripted, behaviour, onset = start.new_zeros(*robot_mask.shape, 3), None, None, None
        if encounters is not None:
            heading = torch.where(is_encounter, encounters.course, heading)
        if encounters is not None and self._encounters.has_motion:
            ahead = torch.stack((heading.cos(), heading.sin(), torch.zeros_like(heading)), -1)
            velocity, scripted = encounters.speed[..., None] * ahead, encounters.scripted & robot_mask
            behaviour, onset = encounters.behaviour, encounters.onset
        route = None
        if waters.shores is not None:
            route = straight_route(start, goal)
        if self._bank is not None and waters.number is not None and route is not None:
            place = waters.number[:, None], passage
            heading = torch.where(waters.has_map[:, None], self._bank.heading[place], heading)
            route = torch.where(waters.has_map[:, None, None, None], self._bank.route[place], route)
        return Scenario(
            goal=goal,
            start=start,
            heading=heading,
            velocity=velocity,
            thrust=torch.zeros_like(start),
            thruster_angle=torch.zeros_like(start),
            robot_mask=robot_mask,
            obstacle_position=_coordinates_last(obstacles[:2]),
            obstacle_radius=obstacles[2],
            obstacle_mask=obstacle_mask,
            core_position=_coordinates_last(cores[:2]),
            core_circulation=cores[2],
            level=level,
            scripted=scripted,
            behaviour=behaviour,
            onset=onset,
            shores=waters.shores,
            route=route,
            map_size=None if waters.shores is None else waters.sides.T,
            batch_size=level.shape,
        )

    def _draw_waters(self, level: Tensor, draws: Draws) -> _Waters:
        """Return the maps of scenarios of levels [P]."""
        sides = self._sides[:, level]
        if not self.shore_segments:
            return _Waters(sides)
        shores = sides.new_full((len(level), self.shore_segments, 4), ABSENT_SHORE)
        bank = self._bank
        if bank is None:
            return _Waters(sides, shores)
        has_map, number = bank.choose(level, draws)
        shores = torch.where(has_map[:, None, None], bank.shores[number], shores)
        return _Waters(torch.where(has_map, bank.sides[:, number], sides), shores, has_map, number)

    def _scale_to_map(self, unit: Tensor, sides: Tensor, margin: float) -> Tensor:
        """Scale numbers on [0, 1) to points [2, P, B] (m), ``margin`` or more inside maps with the sides [2, P]."""
        return margin + unit * (sides[..., None] - 2.0 * margin)

    def _accept_enough(
        self, draws: Draws, wanted: Tensor, choose: Callable[..., tuple[Tensor, Tensor]]
    ) -> tuple[Tensor, Tensor]:
        """Return the accepted candidates and the mask of filled slots, from as few candidates as needed."""

        def examine(draws: Draws, rows: Tensor | slice, count: int) -> tuple[tuple[Tensor, ...], Tensor]:
            accepted, mask = choose(draws, rows, wanted[rows], count)
            return (accepted.movedim(1, 0), mask), mask.sum(-1) >= wanted[rows]

        accepted, mask = examine_until_enough(draws, self.config.draws, examine)
        return accepted.movedim(0, 1), mask

    def _is_free(
        self, points: Tensor, radius: Tensor | float, waters: _Waters, ends: Tensor, present: Tensor
    ) -> Tensor:
        """Return whether discs [2, P, B] are on the map and in the water, clear of starts and goals, [P, B].

        Vessels can pass between them and the shore.
        """
        beyond = (points < radius) | (points > waters.sides[..., None] - radius)
        near = _distance_to_nearest(points, ends, present) < radius + self.config.clear_r
        free = ~(beyond[0] | beyond[1] | near)
        if waters.number is None or waters.shores is None:
            return free
        room = radius + 2.0 * self.config.shore_margin
        return free & (shore_clearance(_coordinates_last(points), waters.shores) > room)

    def _draw_robots(self, level: Tensor, waters: _Waters, draws: Draws) -> tuple[Tensor, Tensor, Tensor]:
        """Draw x and y of the starts, then of the goals, of the robots (m), [4, P, R].

        Returned are also their mask and the numbers of their passages on the maps, both [P, R].
        """
        margin, clear_r, bank = self.config.start_margin, self.config.clear_r, self._bank

        def choose(draws: Draws, rows: Tensor | slice, wanted: Tensor, count: int) -> tuple[Tensor, Tensor]:
            own, units = waters.rows(rows), draws.candidates(ROBOTS, count, (2, 2))
            starts, goals = (self._scale_to_map(unit, own.sides, margin) for unit in units)
            passage = torch.zeros_like(starts[:1])
            if bank is not None and own.number is not None:
                number = torch.floor(units[0][0] * bank.heading.shape[1]).to(torch.int64)
                places, has_map = bank.ends[own.number[:, None], number].movedim(-1, 0), own.has_map[:, None]
                starts, goals = torch.where(has_map, places[:2], starts), torch.where(has_map, places[2:], goals)
                passage = number[None].to(starts.dtype)

            def clash(accepted: Tensor) -> Tensor:
                return (_distance(starts, accepted[:2]) <= clear_r) | (_distance(goals, accepted[2:4]) <= clear_r)

            far = _distance(starts, goals) >= self._distances[level[rows]][:, None]
            if own.number is not None:  # passages are long enough
                far = far | own.has_map[:, None]
            return _accept_candidates(torch.cat((starts, goals, passage)), far, wanted, self.max_robots, clash)

        # Robots of an encounter are drawn by EncounterSampler.
        wanted = self._counts[level, 0] * ~self._encounter[level]
        accepted, mask = self._accept_enough(draws, wanted, choose)
        return accepted[:4], mask, accepted[4].to(torch.int64)

    def _draw_cores(self, level: Tensor, waters: _Waters, ends: Tensor, present: Tensor, draws: Draws) -> Tensor:
        """Draw centres x, y (m) and circulations (m^2/s, positive for clockwise) of vortex cores, [3, P, C]."""
        if self._max_cores == 0:
            return ends.new_zeros(3, len(level), 0)
        config, turn = self.config, 2.0 * math.pi

        def choose(draws: Draws, rows: Tensor | slice, wanted: Tensor, count: int) -> tuple[Tensor, Tensor]:
            unit, side, speed = draws.candidates(CORES, count, (2, 1, 1))
            own = waters.rows(rows)
            points, clockwise = self._scale_to_map(unit, own.sides, 0.0), side[0] < 0.5
            level_speed = self._core_speeds[level[rows]][:, None]
            speed = torch.where(level_speed > 0.0, level_speed, scale_to_range(speed[0], config.v_range))
            strength = turn * config.core_radius * speed

            def clash(accepted: Tensor) -> Tensor:
                distance, other = _distance(points, accepted[:2]), accepted[2].abs()
                apart = (strength + other) / (turn * config.v_rel_max)
                stronger, weaker = torch.maximum(strength, other), torch.minimum(strength, other)
                at_the_other = stronger / (turn * (distance - 2.0 * config.core_radius))
                edge_speed = weaker / (turn * config.core_radius)
                same = clockwise == (accepted[2] > 0.0)
                return torch.where(same, distance < apart, at_the_other > config.p * edge_speed)

            signed = torch.where(clockwise, strength, -strength)
            taken = ends[:, rows], present[rows]
            free = self._is_free(points, config.core_radius, own, *taken)
            return _accept_candidates(torch.cat((points, signed[None])), free, wanted, self._max_cores, clash)

        return self._accept_enough(draws, self._counts[level, 1], choose)[0]

    def _draw_obstacles(
        self, waters: _Waters, level: Tensor, ends: Tensor, present: Tensor, cores: Tensor, draws: Draws
    ) -> tuple[Tensor, Tensor]:
        """Draw the centres x, y and radii of the obstacles (m), [3, P, O], and their mask [P, O]."""
        if self._max_obstacles == 0:
            return ends.new_zeros(3, len(level), 0), present[:, :0]
        config = self.config

        def choose(draws: Draws, rows: Tensor | slice, wanted: Tensor, count: int) -> tuple[Tensor, Tensor]:
            unit, size = draws.candidates(OBSTACLES, count, (2, 1))
            own = waters.rows(rows)
            points = self._scale_to_map(unit, own.sides, config.obstacle_margin)
            radii = scale_to_range(size[0], config.obs_r_range)
            free = self._is_free(points, radii, own, ends[:, rows], present[rows])
            if self._max_cores:
                near = _distance_to_nearest(points, cores[:2, rows], cores[2, rows] != 0.0)
                free &= near > config.core_radius + radii

            def clash(accepted: Tensor) -> Tensor:
                return _distance(points, accepted[:2]) <= radii + accepted[2]

            return _accept_candidates(torch.cat((points, radii[None])), free, wanted, self._max_obstacles, clash)

        return self._accept_enough(draws, self._counts[level, 2], choose)
