"""Drawing scenarios: the published rejection loops, for a whole batch at once.

Each loop (robots, cores, obstacles) draws candidates one after another, accepts a candidate that
is compatible with all accepted before it, and stops when it has enough or when its draws are used
up. Here all candidates of a loop are drawn first; then one pass per slot accepts the first
candidate still compatible and strikes out those that clash with it. A struck candidate would have
been rejected by the loop too, so the accepted ones are the same.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from marinenav_env.config import Level, ScenarioConfig
from marinenav_env.encounters import draw_courses, meeting, smallest_angle
from marinenav_env.state import Scenario

ENCOUNTER_DISTANCE, ENCOUNTER_OFFSET = (15.0, 25.0), 1.5
"""Range of the distance from a start, and from a goal, to where an encounter's courses meet, and
largest deviation of both along either axis (m)."""


class Levels:
    """Levels as tensors, to be indexed by the level of each scenario."""

    def __init__(self, levels: tuple[Level, ...], device: torch.device, dtype: torch.dtype) -> None:
        self.levels = levels
        counts = [[level.num_robots, level.num_cores, level.num_obstacles] for level in levels]
        self.counts = torch.tensor(counts, device=device)
        distances = [level.min_start_goal_dis for level in levels]
        self.min_start_goal_dis = torch.tensor(distances, device=device, dtype=dtype)
        self.map_size, self.core_speed = (
            torch.tensor([getattr(each, name) for each in levels], device=device, dtype=dtype)
            for name in ("map_size", "core_speed")
        )
        self.encounter = torch.tensor([level.encounter for level in levels], device=device)
        self.has_encounters = any(level.encounter for level in levels)
        self.max_robots, self.max_cores, self.max_obstacles = (
            max(column) for column in zip(*counts, strict=True)
        )


def blank_scenarios(
    size: int, robots: int, obstacles: int, cores: int, device: torch.device, dtype: torch.dtype
) -> Scenario:
    """Scenarios [size] with all numbers zero and all slots empty, to be filled by a sampler.

    Args:
        size: P.
        robots: R.
        obstacles: O.
        cores: C.
        device: where the tensors live.
        dtype: their floating-point type.
    """

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
        batch_size=[size],
    )


def _distance(a: Tensor, b: Tensor) -> Tensor:
    """Distance between points [..., 2] (m)."""
    # Coordinate by coordinate, as a norm over so short a dimension is slow.
    x, y = a[..., 0] - b[..., 0], a[..., 1] - b[..., 1]
    return (x.square() + y.square()).sqrt()


def _to_nearest(points: Tensor, others: Tensor, present: Tensor) -> Tensor:
    """Distance of points [P, B, 2] to the nearest of others [P, N, 2] (m), [P, B].

    Args:
        points: candidates.
        others: what they are to stay away from.
        present: [P, N] bool, which of the others count; infinite where none does.
    """
    x, y = torch.where(present[..., None], others, torch.inf).unbind(-1)
    # [P, N, B], so that neighbours in memory are handled together.
    dx, dy = points[:, None, :, 0] - x[..., None], points[:, None, :, 1] - y[..., None]
    return dx.square_().add_(dy.square_()).amin(1).sqrt()


def _take(candidates: Tensor, index: Tensor) -> Tensor:
    """Row ``index`` [P] of candidates [P, B, ...], as [P, ...]."""
    return candidates[torch.arange(index.shape[0], device=index.device), index]


def _accept(open_: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Accept the first open candidate where one more is wanted.

    Args:
        open_: [P, B] bool: candidates neither struck out nor passed by.
        wanted: [P] bool.

    Returns:
        Index of the accepted candidate [P], whether there is one [P], and what stays open [P, B].
    """
    first = open_.to(torch.int8).argmax(-1)
    found = _take(open_, first) & wanted
    later = torch.arange(open_.shape[-1], device=open_.device) > first[:, None]
    return first, found, open_ & later


class ScenarioSampler:
    """Draws scenarios of mixed levels on a device, without reading anything back.

    Args:
        config: constraints.
        levels: the levels that scenarios are drawn for.
        device: where the scenarios live.
        dtype: their floating-point type.
    """

    def __init__(
        self,
        config: ScenarioConfig,
        levels: tuple[Level, ...],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        self.config = config
        self.levels = Levels(levels, device, dtype)
        self._options: dict[str, Any] = {"device": device, "dtype": dtype}

    @property
    def max_robots(self) -> int:
        """Robot slots R: as many as the largest level has."""
        return self.levels.max_robots

    def sample(self, level: Tensor, generator: torch.Generator) -> Scenario:
        """Draw one scenario per entry.

        Args:
            level: [P] int64, index into the levels.
            generator: source of randomness, on the sampler's device.

        Returns:
            Scenarios, batch [P].
        """
        start, goal, robot_mask = self._robots(level, generator)
        course = None
        if self.levels.has_encounters:
            start, goal, robot_mask, course = self._encounters(
                level, start, goal, robot_mask, generator
            )
        positions, circulation = self._cores(level, start, goal, robot_mask, generator)
        centres, radii, obstacle_mask = self._obstacles(
            level, start, goal, robot_mask, positions, circulation != 0.0, generator
        )
        zeros = torch.zeros_like(start)
        heading = 2.0 * math.pi * self._uniform(generator, *robot_mask.shape)
        if course is not None:
            heading = torch.where(self.levels.encounter[level][:, None], course, heading)
        return Scenario(
            goal=goal,
            start=start,
            heading=heading,
            velocity=torch.cat((zeros, zeros[..., :1]), -1),
            thrust=zeros,
            thruster_angle=zeros.clone(),
            robot_mask=robot_mask,
            obstacle_position=centres,
            obstacle_radius=radii,
            obstacle_mask=obstacle_mask,
            core_position=positions,
            core_circulation=circulation,
            level=level,
            batch_size=level.shape,
        )

    def _uniform(self, generator: torch.Generator, *shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, **self._options)

    def _size(self, level: Tensor) -> Tensor:
        """Sides [P, 1, 2] of the maps (m)."""
        usual = torch.tensor([self.config.width, self.config.height], **self._options)
        own = self.levels.map_size[level][:, None, None]
        return torch.where(own > 0.0, own, usual)

    def _points(self, generator: torch.Generator, level: Tensor, margin: float) -> Tensor:
        """Candidate points [P, B, 2], uniform on the map less a margin (m)."""
        size = self._size(level)
        unit = self._uniform(generator, len(level), self.config.draws, 2)
        # All x first in memory, then all y: they are taken apart many times.
        unit = torch.stack(unit.unbind(-1)).movedim(0, -1)
        return margin + unit * (size - 2.0 * margin)

    def _off_the_edge(self, points: Tensor, radius: Tensor | float, level: Tensor) -> Tensor:
        """Whether discs at points [P, B, 2] leave the map, [P, B]."""
        x, y = points.unbind(-1)
        width, height = self._size(level).unbind(-1)
        return (x < radius) | (x > width - radius) | (y < radius) | (y > height - radius)

    def _near_ends(
        self, points: Tensor, radius: Tensor | float, start: Tensor, goal: Tensor, mask: Tensor
    ) -> Tensor:
        """Whether points [P, B, 2] are within radius + clear_r of a start or goal, [P, B]."""
        ends, present = torch.cat((start, goal), -2), torch.cat((mask, mask), -1)
        return _to_nearest(points, ends, present) < radius + self.config.clear_r

    def _encounters(
        self, level: Tensor, start: Tensor, goal: Tensor, mask: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Starts, goals and mask where the level is an encounter, else as given; and courses."""
        scenarios, robots = mask.shape
        slot = torch.arange(robots, device=level.device)
        present = slot < self.levels.counts[level][:, :1]
        course = draw_courses(present, generator, self._options["dtype"])
        near, far = ENCOUNTER_DISTANCE
        before, beyond = near + (far - near) * self._uniform(generator, 2, scenarios, 1)
        # On nearly parallel courses they start farther off, so as to keep apart.
        chord = 2.0 * torch.sin(0.5 * smallest_angle(course, present))[:, None]
        before = torch.maximum(before, (self.config.clear_r + 2.0 * ENCOUNTER_OFFSET) / chord)
        jitter = 2.0 * self._uniform(generator, 2, scenarios, robots, 2) - 1.0
        ends = meeting(
            course, before.expand(mask.shape), beyond.expand(mask.shape), 0.5 * self._size(level)
        )
        meet = self.levels.encounter[level][:, None]
        start, goal = (
            torch.where(meet[..., None], new + ENCOUNTER_OFFSET * each, old)
            for new, each, old in zip(ends, jitter, (start, goal), strict=True)
        )
        return start, goal, torch.where(meet, present, mask), course

    def _robots(self, level: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Starts [P, R, 2], goals [P, R, 2] and the mask [P, R] of the robots."""
        wanted = self.levels.counts[level, 0]
        starts = self._points(generator, level, self.config.start_margin)
        goals = self._points(generator, level, self.config.start_margin)
        open_ = _distance(starts, goals) >= self.levels.min_start_goal_dis[level][:, None]
        clear_r = self.config.clear_r
        accepted = []
        for slot in range(self.levels.max_robots):
            index, found, open_ = _accept(open_, slot < wanted)
            start, goal = _take(starts, index), _take(goals, index)
            clash = (_distance(starts, start[:, None]) <= clear_r) | (
                _distance(goals, goal[:, None]) <= clear_r
            )
            open_ = open_ & ~(clash & found[:, None])
            accepted.append((start * found[:, None], goal * found[:, None], found))
        start, goal, mask = (torch.stack(column, 1) for column in zip(*accepted, strict=True))
        return start, goal, mask

    def _cores(
        self, level: Tensor, start: Tensor, goal: Tensor, mask: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Centres [P, C, 2] and signed circulations [P, C] of the vortex cores."""
        wanted = self.levels.counts[level, 1]
        scenarios, slots = wanted.shape[0], self.levels.max_cores
        if slots == 0:
            return start.new_zeros(scenarios, 0, 2), start.new_zeros(scenarios, 0)
        config = self.config
        points = self._points(generator, level, 0.0)
        clockwise = self._uniform(generator, scenarios, config.draws) < 0.5
        low, high = config.v_range
        speed = low + (high - low) * self._uniform(generator, scenarios, config.draws)
        given = self.levels.core_speed[level][:, None]
        speed = torch.where(given > 0.0, given, speed)
        strength = 2.0 * math.pi * config.core_radius * speed
        open_ = ~self._off_the_edge(points, config.core_radius, level)
        open_ &= ~self._near_ends(points, config.core_radius, start, goal, mask)
        accepted = []
        for slot in range(slots):
            index, found, open_ = _accept(open_, slot < wanted)
            point, turn, gamma = (
                _take(points, index),
                _take(clockwise, index),
                _take(strength, index),
            )
            clash = self._cores_clash(points, clockwise, strength, point, turn, gamma)
            open_ = open_ & ~(clash & found[:, None])
            signed = torch.where(turn, gamma, -gamma)
            accepted.append((point * found[:, None], signed * found))
        positions, circulation = (torch.stack(column, 1) for column in zip(*accepted, strict=True))
        return positions, circulation

    def _cores_clash(
        self,
        points: Tensor,
        clockwise: Tensor,
        strength: Tensor,
        point: Tensor,
        turn: Tensor,
        gamma: Tensor,
    ) -> Tensor:
        """Whether candidate cores [P, B] clash with an accepted one [P], [P, B]."""
        config = self.config
        distance = _distance(points, point[:, None])
        apart = (strength + gamma[:, None]) / (2.0 * math.pi * config.v_rel_max)
        stronger = torch.maximum(strength, gamma[:, None])
        weaker = torch.minimum(strength, gamma[:, None])
        at_the_other = stronger / (2.0 * math.pi * (distance - 2.0 * config.core_radius))
        edge_speed = weaker / (2.0 * math.pi * config.core_radius)
        same = clockwise == turn[:, None]
        return torch.where(same, distance < apart, at_the_other > config.p * edge_speed)

    def _obstacles(
        self,
        level: Tensor,
        start: Tensor,
        goal: Tensor,
        mask: Tensor,
        core_position: Tensor,
        core_mask: Tensor,
        generator: torch.Generator,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Centres [P, O, 2], radii [P, O] and the mask [P, O] of the obstacles."""
        wanted = self.levels.counts[level, 2]
        scenarios, slots = wanted.shape[0], self.levels.max_obstacles
        if slots == 0:
            zeros = start.new_zeros(scenarios, 0)
            return start.new_zeros(scenarios, 0, 2), zeros, zeros.to(torch.bool)
        config = self.config
        points = self._points(generator, level, config.obstacle_margin)
        low, high = config.obs_r_range
        radii = low + (high - low) * self._uniform(generator, scenarios, config.draws)
        open_ = ~self._off_the_edge(points, radii, level)
        open_ &= ~self._near_ends(points, radii, start, goal, mask)
        if core_position.shape[1]:
            nearest = _to_nearest(points, core_position, core_mask)
            open_ &= nearest > config.core_radius + radii
        accepted = []
        for slot in range(slots):
            index, found, open_ = _accept(open_, slot < wanted)
            point, radius = _take(points, index), _take(radii, index)
            clash = _distance(points, point[:, None]) <= radii + radius[:, None]
            open_ = open_ & ~(clash & found[:, None])
            accepted.append((point * found[:, None], radius * found, found))
        centres, sizes, found_mask = (
            torch.stack(column, 1) for column in zip(*accepted, strict=True)
        )
        return centres, sizes, found_mask
